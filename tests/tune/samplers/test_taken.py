"""What has been had, and a history that does not go on from the last one."""

from __future__ import annotations

import random

from hemostat.tune.samplers.taken import Taken
from hemostat.tune.space import Choice, Integer, Space
from hemostat.tune.trial import History, Trial

SPACE = Space((Choice("batch", (8, 16)), Integer("layers", 1, 2)))


def history(*configs) -> History:
    trials = tuple(Trial(number=n, config=config, origin="test") for n, config in enumerate(configs))
    return History(trials=trials, sign=1, rungs=(1,))


def test_only_what_is_new_is_spelled_and_another_history_begins_again():
    one, other = {"batch": 8, "layers": 1}, {"batch": 16, "layers": 2}
    taken = Taken()
    taken.update(SPACE, history(one))
    taken.update(SPACE, history(one, other))
    assert taken.num_kept == 1
    assert len(taken.keys) == 2
    taken.update(SPACE, history(other))
    assert taken.num_kept == 0
    assert taken.keys == {"batch=16;layers=2"}


def test_the_last_one_left_is_found():
    taken, known = Taken(), list(SPACE.configs())
    taken.update(SPACE, history(*known[:3]))
    assert taken.draw(SPACE, random.Random(0)) == known[3]
    taken.update(SPACE, history(*known))
    assert taken.draw(SPACE, random.Random(0)) is None
