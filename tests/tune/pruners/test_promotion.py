"""The default: a third goes on, unless the rung has been shown to mislead."""

from __future__ import annotations

import pytest

from hemostat.tune.pruners.promotion import PromotionPruner
from hemostat.tune.trial import History, Point, Trial

PRUNER = PromotionPruner()


def trial(number: int, *values: float, rungs=(3, 9)) -> Trial:
    points = tuple(
        Point(at=at, value=value, time_s=1.0 * at) for at, value in zip(rungs, values, strict=False)
    )
    outcome = "finished" if len(values) == len(rungs) else "paused"
    return Trial(number=number, config={}, origin="test", points=points, outcome=outcome)


def history(*trials: Trial) -> History:
    return History(trials=trials, sign=1, rungs=(3, 9))


@pytest.mark.parametrize(
    ("length", "step", "rungs"),
    [
        (52, 1, (3, 9, 27, 52)),
        (1000, 100, (100, 300, 900, 1000)),
        (10_000, 1, (500, 1500, 4500, 10_000)),
        (1, 1, (1,)),
    ],
)
def test_the_first_rung_is_at_five_percent_or_later(length, step, rungs):
    assert PRUNER.rungs(length, step) == rungs


def test_the_best_of_three_goes_on_and_no_second_before_six():
    assert PRUNER.promote(history(trial(0, 0.5), trial(1, 0.4))) is None
    three = history(trial(0, 0.5), trial(1, 0.4), trial(2, 0.6))
    assert PRUNER.promote(three).number == 1
    gone_on = history(trial(0, 0.5), trial(1, 0.4, 0.3), trial(2, 0.6), trial(3, 0.7))
    assert PRUNER.promote(gone_on) is None


def test_a_rung_that_misleads_lets_two_thirds_go_on_and_new_trials_pass_it():
    misled = [trial(number, 0.1 * number, 1 - 0.1 * number) for number in range(6)]
    waiting = [trial(6, 0.9), trial(7, 0.95), trial(8, 0.35)]
    known = history(*misled, *waiting)
    assert PRUNER.first_rung(known, 9) == 9
    assert PRUNER.promote(known).number == 8  # the fifth of nine: no place in the best third
    assert PRUNER.keep(known, waiting[0])
    assert PRUNER.first_rung(history(*waiting), 9) == 3


def test_a_trial_that_cannot_wait_goes_on_in_the_best_third():
    known = history(trial(0, 0.5), trial(1, 0.4), trial(2, 0.6))
    assert [PRUNER.keep(known, one) for one in known.trials] == [False, True, False]
