from __future__ import annotations

from itertools import groupby

from hemostat.tune.pruners.hyperband import HyperbandPruner
from hemostat.tune.trial import History, Point, Trial


def empty(*rungs):
    return History(trials=(), sign=1, rungs=rungs)


def test_the_brackets_are_those_of_the_papers_table():
    """R = 81, eta = 3: 81 at 1, 34 at 3, 15 at 9, 8 at 27, 5 at 81 (Li et al., JMLR 2018, section 3.1)."""
    pruner, history = HyperbandPruner(), empty(1, 3, 9, 27, 81)
    firsts = [pruner.first_rung(history, number) for number in range(81 + 34 + 15 + 8 + 5 + 1)]
    assert [(at, len(list(group))) for at, group in groupby(firsts)] == [
        (1, 81), (3, 34), (9, 15), (27, 8), (81, 5), (1, 1),
    ]  # fmt: skip


def trial(number, *points):
    made = tuple(Point(at=at, value=value, time_s=1.0) for at, value in points)
    return Trial(number=number, config={}, origin="random", points=made, outcome="paused")


def test_a_bracket_is_compared_with_itself():
    """Rungs 9, 27, 81: trials 0 to 8 start at 9, 9 to 13 at 27."""
    lower = [trial(n, (9, 0.5 + n / 100)) for n in range(9)]
    upper = [trial(n, (27, 0.1 + n / 100)) for n in range(9, 14)]
    pruner = HyperbandPruner()
    both = History(trials=(*lower, *upper), sign=1, rungs=(9, 27, 81))
    assert pruner.promote(both).number == 0
    gone_on = [trial(n, (9, 0.5), (27, 0.9 + n)) for n in range(3)] + lower[3:]
    assert pruner.promote(History(trials=(*gone_on, *upper), sign=1, rungs=(9, 27, 81))).number == 0
    third = trial(0, (9, 0.5), (27, 0.9), (81, 0.8))
    assert (
        pruner.promote(History(trials=(third, *gone_on[1:], *upper), sign=1, rungs=(9, 27, 81))).number == 9
    )


def test_a_trial_is_not_judged_below_its_first_rung():
    pruner = HyperbandPruner()
    passing = [trial(n, (9, 0.1)) for n in range(9)] + [trial(9, (9, 0.9))]
    history = History(trials=tuple(passing), sign=1, rungs=(9, 27, 81))
    assert pruner.keep(history, passing[9]) and not pruner.keep(history, passing[8])
