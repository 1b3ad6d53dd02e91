from __future__ import annotations

import random

from hemostat.tune.pruners.halving import HalvingPruner
from hemostat.tune.trial import History, Point, Trial

RUNGS = (1, 3, 9)


def trial(number, *values, outcome="paused", **change):
    points = tuple(Point(at=at, value=value, time_s=1.0) for at, value in zip(RUNGS, values, strict=False))
    return Trial(
        **{"number": number, "config": {}, "origin": "random", "points": points, "outcome": outcome, **change}
    )


def group(**change):
    """Nine trials, the higher the number the better; `change` replaces one by its number."""
    trials = {n: trial(n, 1.0 - n / 10) for n in range(9)} | {
        int(name[1:]): one for name, one in change.items()
    }
    return History(trials=tuple(trials[n] for n in sorted(trials)), sign=1, rungs=RUNGS)


def test_a_group_waits_for_its_last_trial():
    pruner = HalvingPruner()
    assert pruner.promote(group(t4=trial(4, outcome=None))) is None
    assert pruner.promote(History(trials=group().trials[:8], sign=1, rungs=RUNGS)) is None
    assert pruner.promote(group()).number == 8


def test_a_third_goes_on_and_then_a_third_of_it():
    pruner, history = HalvingPruner(), group()
    promoted = []
    while (one := pruner.promote(history)) is not None:
        promoted.append((one.number, one.position))
        at = len(one.points)
        values = [*(point.value for point in one.points), random.Random(one.number).random()]
        history = history.put(trial(one.number, *values, outcome="finished" if at == 2 else "paused"))
    assert [pair for pair in promoted if pair[1] == 1] == [(8, 1), (7, 1), (6, 1)]
    assert len([pair for pair in promoted if pair[1] == 3]) == 1 and len(promoted) == 4


def test_who_is_lost_is_not_waited_for_and_who_is_tried_again_is():
    pruner = HalvingPruner()
    assert pruner.promote(group(t4=trial(4, outcome="crash", num_failures=4))).number == 8
    assert pruner.promote(group(t4=trial(4, outcome="crash", num_failures=1))) is None
    assert pruner.promote(group(t8=trial(8, outcome="nan"))).number == 7


def test_the_next_group_is_judged_by_itself():
    first = group()
    history = History(
        trials=(*first.trials, *(trial(n, 0.01 * (n - 8)) for n in range(9, 18))), sign=1, rungs=RUNGS
    )
    assert HalvingPruner().promote(history).number == 8
