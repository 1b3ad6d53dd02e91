"""What a study says at its end, and on the way."""

from __future__ import annotations

import pytest

from hemostat.tune.answer import answer
from hemostat.tune.budget import Budget
from hemostat.tune.drive import drive
from hemostat.tune.journal import Journal
from hemostat.tune.pruners import pruner
from hemostat.tune.replay import Recording, ReplayWorkers
from hemostat.tune.settings import Settings
from hemostat.tune.space import Choice, Space
from hemostat.tune.state import State
from hemostat.tune.study import Study
from hemostat.tune.trial import History, Point, Trial

SPACE = Space((Choice("x", tuple(range(20))),))


class InOrder:
    name = "order"

    def propose(self, space, history, rng):
        tried = {trial.config["x"] for trial in history.trials}
        return next(({"x": x} for x in range(20) if x not in tried), None)


def curve(config) -> Recording:
    if config["x"] == 3:
        return Recording(points=[Point(at=3, value=float("nan"), time_s=3.0)])
    values = {3: 1.0 - 0.01 * config["x"], 9: 0.5 - 0.01 * config["x"]}
    return Recording(points=[Point(at=at, value=value, time_s=float(at)) for at, value in values.items()])


def state_of(direction: str = "min") -> State:
    journal = Journal(None)
    budget = Budget(usd_per_device_hour=3600.0, max_usd=500.0)
    settings = Settings(length=9, step=3, direction=direction, budget=budget)
    study = Study(journal, SPACE, InOrder(), pruner("asha"), settings)
    drive(study, ReplayWorkers(curve, num_workers=2))
    return State.of(journal.entries)


def test_best_counts_and_money() -> None:
    state = state_of()
    each = answer(SPACE, state)
    assert each.best is not None and each.is_final and each.at == 9
    finals = [point.value for trial in state.history.trials for point in trial.points if point.at == 9]
    assert each.value == min(finals)
    assert each.outcomes["nan"] == 1 and sum(each.outcomes.values()) == 20
    assert each.usd == pytest.approx(sum(trial.time_s for trial in state.history.trials))
    assert "$500" in each.unspent and each.ending is not None
    assert each.noise is None and each.standings == ()
    assert each.savings is not None and each.savings.num_configs == 20


def test_a_maximised_objective_is_the_highest() -> None:
    each = answer(SPACE, state_of("max"))
    finals = [p.value for trial in state_of("max").history.trials for p in trial.points if p.at == 9]
    assert each.value == max(finals)


def test_repeats_recommend_the_best_mean_instead_of_the_luckiest_run() -> None:
    state = state_of()
    lucky = answer(SPACE, state).best
    assert lucky is not None
    other = next(t for t in state.history.trials if t.outcome == "finished" and t is not lucky)
    repeats = tuple(
        Trial(
            number=number,
            config={"trial": name, "seed": number},
            origin="grid",
            points=(Point(at=9, value=value, time_s=9.0),),
            outcome="finished",
        )
        for number, (name, value) in enumerate(
            [(lucky.number, 0.9), (lucky.number, 0.91), (other.number, 0.3), (other.number, 0.31)]
        )
    )
    each = answer(SPACE, state, [History(trials=repeats, sign=1, rungs=(9,))])
    assert each.best == other
    assert each.noise is not None and each.noise > 0
    assert each.standings[0].best_chance <= 1.0


def test_a_study_without_a_value_has_no_best() -> None:
    journal = Journal(None)
    Study(journal, SPACE, InOrder(), pruner("none"), Settings(length=9, step=3)).next(0.0)
    each = answer(SPACE, State.of(journal.entries))
    assert (each.best, each.value, each.outcomes, each.savings) == (None, None, {"running": 1}, None)
