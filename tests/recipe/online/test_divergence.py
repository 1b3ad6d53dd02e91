"""Divergence: found in what is lost for long or climbs, not in a spike that heals, and never on a clean curve."""

import json
import math

import pytest

from hemostat.recipe.online import Divergence


def found_at(losses, **settings):
    divergence = Divergence(**settings)
    return [(step, found) for step, loss in enumerate(losses) if (found := divergence.update(loss))]


FALL = [5.0 - 0.02 * step for step in range(200)]  # to 1.02


def test_by_hand():
    # block medians: the first is 4.91, the best 1.11; half of the gain is 1.9, so above 3.01 is lost
    ((at, found),) = found_at([*FALL, *[3.1] * 60], window=10, patience=4)
    assert at == 200 + 40 - 1
    assert (found.start, found.best, found.loss) == pytest.approx((4.91, 1.11, 3.1))
    assert (found.rising, found.num_steps) == (False, 40)
    assert not found_at([*FALL, *[2.9] * 60], window=10, patience=4)


def test_a_steady_climb_is_found_before_half_is_lost():
    climb = [1.0 + 0.02 * step for step in range(100)]
    ((_, found), *_) = found_at([*FALL, *climb], window=10, patience=5)
    assert found.rising
    assert found.loss < 0.5 * (found.start + found.best)


def test_a_spike_that_heals_is_none():
    assert not found_at([*FALL, *[8.0] * 35, *[1.0] * 100], window=10, patience=5)


def test_it_is_said_once_and_again_after_a_recovery():
    lost = [4.0] * 100
    assert len(found_at([*FALL, *lost, *lost], window=10)) == 1
    assert len(found_at([*FALL, *lost, *[1.0] * 50, *lost], window=10)) == 2


def test_what_is_not_finite_is_passed_over():
    assert found_at([math.nan, math.inf] * 500) == []


def test_it_goes_on_after_a_resume():
    first = Divergence(window=10)
    for loss in [*FALL, *[4.0] * 44]:
        first.update(loss)
    second = Divergence(window=10)
    second.restore(json.loads(json.dumps(first.state())))
    assert [first.update(4.0) for _ in range(6)] == [second.update(4.0) for _ in range(6)]
    assert first.state() == second.state()
    Divergence().restore(json.loads(json.dumps(Divergence().state())))


@pytest.mark.parametrize("relative_noise", [0.01, 0.05, 0.2])
def test_false_alarms_on_clean_curves(clean_run, relative_noise):
    """Measured on 200 runs of 2,000 steps at each noise: none."""
    alarms = 0
    for seed in range(70):
        alarms += bool(found_at((loss for loss, _ in clean_run(seed, 1000, relative_noise)), window=25))
    assert alarms == 0


def test_recorded_runs(recorded):
    """Two language models of 19,073 logged losses are healthy."""
    for name in ("027_nanogpt_txt", "029_nanogpt_txt"):
        lines = (recorded / "logs" / name / "log.txt").read_text(encoding="utf-8").splitlines()
        losses = [float(line.split()[2]) for line in lines if line.split()[1] == "train"]
        assert len(losses) > 10_000
        assert found_at(losses) == []
