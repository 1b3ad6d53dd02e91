"""HG002 stops a run that has lost what it had gained, wherever its state comes from."""

import json

import pytest

from hemostat.train.run_guards.divergence import DivergenceGuard
from hemostat.train.update import Step


def test_a_run_that_diverges_stops_with_status_4(run):
    hand = lambda _, step, loss: loss + (400.0 if step > 80 else 0.0)  # noqa: E731
    session = run(hand)
    finding = session.outcome.findings[-1]
    assert (finding.code, finding.severity, session.stop.status) == ("HG002", 2, 4)
    assert session.last.number == 130  # five blocks of ten steps behind step 80
    assert "stayed far above its best for 50 steps" in session.stop.reason
    assert run(hand, stop_on=()).last.number == 160


@pytest.mark.parametrize(("total_steps", "window"), [(0, 50), (100, 10), (1200, 30), (100_000, 50)])
def test_the_state_goes_on_in_blocks_that_fit_the_run(total_steps, window):
    first, second = DivergenceGuard(total_steps), DivergenceGuard(total_steps)
    for number in range(window + 3):
        first.after_step(Step(number, number, 1.0, 0.1, 1.0, True))
    assert len(first.state()["block"]) == 3
    second.restore(json.loads(json.dumps(first.state())))
    assert second.state() == first.state()
