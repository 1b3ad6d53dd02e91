from __future__ import annotations

from hemostat.tune.pruners.none import NonePruner
from hemostat.tune.trial import History, Point, Trial


def test_everybody_runs_to_the_end():
    pruner = NonePruner()
    bad = Trial(
        number=0, config={}, origin="random", points=(Point(at=3, value=9e9, time_s=1.0),), outcome="paused"
    )
    history = History(trials=(bad,), sign=1, rungs=pruner.rungs(10, 1))
    assert history.rungs == (10,) and pruner.first_rung(history, 7) == 10
    assert pruner.promote(history) is None
    assert pruner.keep(history, bad)
