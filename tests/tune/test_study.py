from __future__ import annotations

import math

import pytest

from hemostat.errors import FieldError
from hemostat.tune.budget import Budget
from hemostat.tune.drive import drive
from hemostat.tune.journal import Journal, Judged, Ordered
from hemostat.tune.pruners import PRUNERS
from hemostat.tune.replay import Recording
from hemostat.tune.samplers.random import Random
from hemostat.tune.settings import Given, Settings
from hemostat.tune.space import Choice, Space
from hemostat.tune.study import EXHAUSTED, Study
from hemostat.tune.trial import Point
from hemostat.tune.workers import End, Progress

LR = {"lr": 0.01, "batch": 16}


def reach(study, trial, *ats, value=0.5, now_s=1.0):
    for at in ats:
        study.record(Progress(trial=trial, point=Point(at=at, value=value, time_s=float(at))), now_s)


def end(study, trial, outcome="paused", now_s=1.0, **change):
    study.record(End(**{"trial": trial, "outcome": outcome, "time_s": 1.0, **change}), now_s)


def fixed(outcome, why="", num_values=0, varied=True):
    """Every run ends in one way."""

    def find(config):
        shift = config["lr"] if varied else 0.0
        points = [Point(at=at, value=1 / at + shift, time_s=10.0 * at) for at in range(1, num_values + 1)]
        return Recording(points=points, outcome=outcome, why=why, end_s=10.0 * num_values + 5.0)

    return find


def test_the_same_seed_decides_the_same_and_another_one_does_not(lab):
    def entries(seed):
        journal = Journal(None)
        lab.run(lab.study(journal, seed=seed))
        return journal.entries[1:]

    assert entries(1) == entries(1) != entries(2)


def test_the_first_round_comes_first_without_its_duplicates(lab):
    first = [("recipe", LR), ("neighbour", {"lr": 0.02, "batch": 16}), ("neighbour", dict(LR))]
    study = lab.study(first_round=tuple(Given(origin=origin, config=config) for origin, config in first))
    orders = [study.next(0.0) for _ in range(3)]
    assert [order.config for order in orders[:2]] == [config for _, config in first[:2]]
    assert [trial.origin for trial in study.history.trials] == ["recipe", "neighbour", "random"]


def test_a_promotion_goes_on_from_the_checkpoint_and_before_anything_new(lab):
    study = lab.study()  # rungs 1, 4, 16, 30
    for trial in range(4):
        study.next(0.0)
        reach(study, trial, 1, value=1.0 - trial / 10)
        end(study, trial)
    order = study.next(2.0)
    assert (order.trial, order.start, order.until, order.issued_s) == (3, 1, 4, 2.0)
    assert study.next(2.0).trial == 4


def test_what_the_machine_failed_is_tried_three_times_more(lab):
    study = lab.study()
    seeds = set()
    for attempt in range(4):
        order = study.next(0.0)
        assert order.trial == 0
        seeds.add(order.seed)
        reach(study, 0, 1)
        end(study, 0, "preempted" if attempt % 2 else "crash", why=f"attempt {attempt}")
    assert len(seeds) == 1
    assert study.history.trials[0].num_failures == 4 and len(study.history.trials[0].points) == 1
    assert study.next(0.0).trial == 1


def test_parameters_that_fail_are_not_tried_again(lab):
    study = lab.study()
    study.next(0.0)
    end(study, 0, "out_of_memory")
    assert study.next(0.0).trial == 1


@pytest.mark.parametrize("outcome", ["crash", "timeout", "nan", "out_of_memory"])
def test_four_identical_failures_end_the_study(lab, outcome):
    study = lab.study()
    reason = lab.run(study, fixed(outcome, why="No module named 'torch'"))
    assert "No module named 'torch'" in reason
    failed = [trial for trial in study.history.trials if trial.why.startswith("No module")]
    assert failed
    assert len(study.history.trials) <= 9


def test_a_metric_that_never_appears_is_a_failure_with_a_reason(lab):
    assert "no value of the objective appeared" in lab.run(lab.study(), fixed("finished"))


def test_a_script_that_ignores_its_parameters_is_told(lab):
    study = lab.study(pruner="none")
    assert "ignores its parameters" in lab.run(study, fixed("finished", num_values=30, varied=False))
    assert len(study.history.trials) <= 8
    assert "enough" in lab.run(lab.study(pruner="none"), fixed("finished", num_values=30))


def test_the_stopping_rules_sentence_ends_it_and_stops_what_runs(lab):
    study = lab.study(limit=12)
    assert lab.run(study) == "12 trials are enough" == study.ending
    assert len(study.history.trials) == 12 and not study.running
    assert study.next(1e9) is None


def test_the_rule_is_asked_when_something_was_learned_only(lab):
    asked = []
    study = lab.study(stop=lambda space, history: asked.append(len(history.trials)))
    study.next(0.0), study.next(0.0), study.next(0.0)
    assert asked == [0]
    reach(study, 1, 1)
    study.next(0.0), study.next(0.0)
    assert asked == [0, 3]


def test_controls_run_to_their_end_without_a_rung(lab):
    for can_pause in (True, False):
        journal = Journal(None)
        study = lab.study(journal, control=lambda history, number: number % 5 == 0, can_pause=can_pause)
        lab.run(study)
        assert [t.number for t in study.history.trials if t.control] == list(range(0, 40, 5))
        mine = [entry for entry in journal.entries if getattr(entry, "trial", 1) % 5 == 0]
        assert {entry.until for entry in mine if isinstance(entry, Ordered)} == {30}
        assert {entry.why for entry in mine if isinstance(entry, Judged)} <= {"the study has ended"}
        assert sum(t.control and t.outcome == "finished" for t in study.history.trials) >= 4


def test_a_small_space_ends_and_its_best_has_been_run_to_the_end(lab):
    space = Space((Choice("lr", (0.001, 0.01, 0.1)), Choice("batch", (16,))))
    study = lab.study(pruner="hyperband", space=space)
    assert lab.run(study) == EXHAUSTED
    keys = [space.key(trial.config) for trial in study.history.trials]
    assert len(keys) == 3 == len(set(keys))
    assert {trial.outcome for trial in study.history.trials} == {
        "finished"
    }  # nothing waits while a worker is free
    best = min(study.history.trials, key=lambda trial: trial.points[-1].value)
    assert best.config["lr"] == 0.01


def test_trials_that_cannot_pause_are_judged_once_at_each_rung(lab):
    study = lab.study(can_pause=False)
    for trial in range(3):
        assert study.next(0.0).until == 30
        reach(study, trial, 1, value=0.1 + trial)
        assert study.stops(1.0) == ([trial] if trial else [])
        assert study.stops(1.0) == []
    assert study.stopping == [1, 2]


def test_what_is_known_already_changes_nothing(lab):
    journal = Journal(None)
    study = lab.study(journal)
    study.next(0.0)
    reach(study, 0, 1)
    end(study, 0)
    known = list(journal.entries)
    reach(study, 0, 1)
    end(study, 0)
    assert journal.entries == known


def test_values_that_are_no_numbers_are_kept(lab):
    study = lab.study()
    study.next(0.0)
    for at, value in enumerate((math.nan, math.inf, -math.inf), start=1):
        reach(study, 0, at, value=value)
    assert [str(point.value) for point in study.history.trials[0].points] == ["nan", "inf", "-inf"]


def test_a_clock_that_jumps_does_not_matter(lab):
    study = lab.study()
    for now_s in (5.0, -7200.0, 3.0):
        study.next(now_s)
    assert study.clock_s == 5.0
    assert [order.issued_s for order in study.running] == [5.0, 5.0, 5.0]


@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0])
def test_without_a_cap_on_the_clock_a_jump_changes_no_decision(lab, jump_s):
    plain, jumped = lab.study(limit=20), lab.study(limit=20)
    workers = lab.workers(jumped)
    now_s = workers.now_s
    workers.now_s = lambda: now_s() + (jump_s if now_s() > 300.0 else 0.0)
    lab.run(plain), drive(jumped, workers)
    assert [trial.config for trial in plain.history.trials] == [
        trial.config for trial in jumped.history.trials
    ]


def test_a_budget_below_one_run_says_the_least(lab):
    study = lab.study(budget=Budget(max_s=100.0))
    reason = lab.run(study)
    assert "less than one run" in reason and "at least" in reason and "unspent" in reason
    assert study.clock_s <= 100.0


def test_a_budget_that_is_known_to_be_too_small_is_refused_before_the_start(lab):
    journal = Journal(None)
    with pytest.raises(FieldError, match="Give at least 5m05s"):
        lab.study(journal, budget=Budget(max_s=100.0, s_per_unit=10.0, save_s=5.0))
    assert not journal.entries


def test_a_budget_can_be_extended(lab):
    study = lab.study(budget=Budget(max_device_s=1500.0), limit=200)
    assert "budget" in lab.run(study)
    num = len(study.history.trials)
    study.extend(Budget(max_device_s=4000.0), study.clock_s)
    assert study.ending is None
    assert "budget" in lab.run(study)
    assert len(study.history.trials) > num and 1500.0 < study.busy_s <= 4000.0


def test_a_study_is_begun_once_and_gone_on_with_when_it_is_there(lab):
    journal = Journal(None)
    with pytest.raises(FieldError, match="has no journal"):
        Study(journal, lab.space, Random(), PRUNERS["none"]())
    lab.study(journal)
    with pytest.raises(FieldError, match="is there already"):
        lab.study(journal, settings=Settings(length=30, step=1))


def test_who_was_to_be_ended_at_once_is_told_twice_again(lab):
    journal = Journal(None)
    study = lab.study(journal, pruner="none", budget=Budget(max_s=100.0))
    study.next(0.0)
    assert study.stops(100.0) == [0]
    assert study.stopping == [0]
    assert study.stops(100.0) == [0] and study.stops(100.0) == []
    assert lab.study(journal, pruner="none").stopping == [0, 0]
