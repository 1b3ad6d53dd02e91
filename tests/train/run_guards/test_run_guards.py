"""The guards together: which are on, which stop, what a checkpoint holds, what they cost."""

import time

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.train import TrainSettings
from hemostat.train.run_guards import GUARDS, RunGuards
from hemostat.train.settings import GUARDS as NAMES


def test_the_settings_name_what_there_is():
    assert tuple(GUARDS) == NAMES == TrainSettings().guards


@pytest.mark.parametrize("field", ["guards", "stop_on"])
def test_an_unknown_guard_is_refused(field):
    with pytest.raises(UnknownNameError, match=rf"train\.{field}='spikes'.*spike"):
        TrainSettings(**{field: ("spikes",)})


def test_thresholds_have_a_least_value():
    with pytest.raises(FieldError, match=r"train\.spike_deviations=1"):
        TrainSettings(spike_deviations=1)
    with pytest.raises(FieldError, match=r"train\.compare_every_steps=0"):
        TrainSettings(compare_every_steps=0)


def test_the_state_goes_into_the_checkpoint_and_back(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = run(lambda _, step, loss: loss * (50.0 if step == 100 else 1.0), record=True)
    state = session.guards.state()
    resumed = run(lambda _, step, loss: loss, record=True, resume="last", epochs=4)
    assert resumed.guards.state() == state
    assert state["said"] == {"HG001": 1}
    assert len(state["guards"]["spike"]["losses"]) == 64


def test_all_of_them_cost_at_most_10_us_a_step(run):
    """Measured: 3 to 4 us on two cores of an EPYC; the best of many rounds, since the machine may be busy."""
    session = run(lambda _, step, loss: loss)
    guards, step = RunGuards(session), session.last
    best_s = float("inf")
    for _ in range(30):
        begin_s = time.perf_counter()
        for number in range(200):
            session.last = step._replace(
                number=number + 1, samples=10 * number, loss=1.0 + 0.001 * (number % 7)
            )
            guards.after_step()
        best_s = min(best_s, (time.perf_counter() - begin_s) / 200)
    assert best_s <= 10e-6
