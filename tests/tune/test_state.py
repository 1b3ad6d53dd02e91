from __future__ import annotations

import math

import pytest

from hemostat.tune.budget import Budget
from hemostat.tune.journal import Began, Ended, Extended, Finished, Judged, Measured, Ordered
from hemostat.tune.settings import Settings
from hemostat.tune.state import State

BEGAN = Began(at_s=0.0, settings=Settings(length=9, step=1, seed=4), rungs=(3, 9))
ORDERED = Ordered(at_s=1.0, trial=0, start=0, until=3, config={"lr": 0.1}, origin="recipe", control=True)
MEASURED = Measured(at_s=4.0, trial=0, at=3, value=0.5, time_s=3.0)


def ended(outcome, at_s=5.0, **change):
    return Ended(**{"at_s": at_s, "trial": 0, "outcome": outcome, "time_s": 4.0, **change})


def test_a_trial_is_what_its_entries_say():
    state = State.of([BEGAN, ORDERED, MEASURED])
    (trial,) = state.history.trials
    assert (trial.config, trial.origin, trial.control, trial.until) == ({"lr": 0.1}, "recipe", True, 3)
    assert (trial.outcome, trial.position, state.clock_s) == (None, 3, 4.0)
    assert [(order.start, order.until, order.issued_s) for order in state.running.values()] == [(0, 3, 1.0)]
    state.apply(ended("paused", why="rung"))
    (trial,) = state.history.trials
    assert (trial.outcome, trial.time_s, trial.why, trial.num_failures) == ("paused", 4.0, "rung", 0)
    assert not state.running and not state.due
    assert state.spending.ended_s == 4.0


def test_a_later_stretch_keeps_the_seed_and_the_configuration():
    state = State.of([BEGAN, ORDERED])
    first = state.running[0]
    for entry in (MEASURED, ended("paused"), Ordered(at_s=6.0, trial=0, start=3, until=9)):
        state.apply(entry)
    again = state.running[0]
    assert (again.seed, again.config, again.start, again.until) == (first.seed, first.config, 3, 9)
    assert state.history.trials[0].outcome is None
    other = State.of([BEGAN, ORDERED, Ordered(at_s=1.0, trial=1, start=0, until=3, config={"lr": 0.2})])
    assert other.running[0].seed == first.seed != other.running[1].seed


@pytest.mark.parametrize(("word", "check"), [("nan", math.isnan), ("inf", lambda value: value == math.inf)])
def test_values_that_json_lacks_come_back(word, check):
    state = State.of([BEGAN, ORDERED, Measured(at_s=4.0, trial=0, at=3, value=word, time_s=3.0)])
    assert check(state.history.trials[0].points[0].value)


def test_what_the_machine_failed_is_due_from_where_it_began():
    state = State.of([BEGAN, ORDERED, MEASURED, ended("crash")])
    assert (state.due[0].start, state.due[0].until) == (0, 3)
    assert state.history.trials[0].num_failures == 1


def test_who_left_before_its_rung_is_due_from_where_it_was():
    early = Ordered(at_s=1.0, trial=0, start=0, until=9, config={"lr": 0.1})
    state = State.of([BEGAN, early, MEASURED, ended("paused")])
    assert (state.due[0].start, state.due[0].until) == (3, 9)
    assert not State.of([BEGAN, early, MEASURED, ended("stopped")]).due


def test_verdicts_last_as_long_as_the_stretch():
    state = State.of([BEGAN, ORDERED, MEASURED, Judged(at_s=4.0, trial=0, verdict="stop")])
    assert state.verdicts == {0: ("stop", 3)}
    state.apply(ended("stopped"))
    assert state.verdicts == {}


def test_another_budget_opens_a_study_again():
    state = State.of([BEGAN, Finished(at_s=7.0, reason="enough")])
    assert state.ending == "enough"
    state.apply(Extended(at_s=8.0, budget=Budget(max_s=99.0)))
    assert state.ending is None and state.settings.budget.max_s == 99.0 == state.spending.budget.max_s


def test_the_clock_never_goes_back():
    assert State.of([BEGAN, ORDERED, Measured(at_s=0.5, trial=0, at=1, value=1.0, time_s=1.0)]).clock_s == 1.0


def test_a_journal_begins_with_a_study():
    with pytest.raises(TypeError, match="Ordered"):
        State.of([ORDERED])
