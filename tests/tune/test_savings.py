"""What the other ways would have cost."""

from __future__ import annotations

import math
import random

import pytest

from hemostat.errors import FieldError
from hemostat.tune.savings import savings
from hemostat.tune.trial import History, Point, Trial


def ended(number: int, value: float, at: int = 10) -> Trial:
    return Trial(
        number=number,
        config={"x": number},
        origin="random",
        points=(Point(at=at, value=value, time_s=float(6 * at)),),
        outcome="finished" if at == 10 else "paused",
        time_s=float(6 * at),
    )


def test_random_order_is_the_mean_over_many_shuffles() -> None:
    values = [1.0 + 0.1 * n for n in range(18)] + [0.5, 0.5004]
    each = savings(History(trials=tuple(map(ended, range(20), values)), sign=1, rungs=(10,)))
    assert each is not None
    rng = random.Random(3)
    places = []
    for _ in range(20_000):
        rng.shuffle(values)
        places.append(1 + next(place for place, value in enumerate(values) if value <= 0.5005))
    assert each.random_order_s == pytest.approx(60 * sum(places) / len(places), rel=0.02)
    assert each.grid_s == 20 * 60


def test_paused_trials_are_misses_and_cost_only_what_they_ran() -> None:
    trials = (ended(0, 0.5), ended(1, 0.4, at=1), ended(2, 0.6, at=1))
    each = savings(History(trials=trials, sign=1, rungs=(1, 10)))
    assert each is not None
    assert (each.spent_s, each.grid_s, each.random_order_s) == (72.0, 180.0, 120.0)


def test_the_grid_it_replaces_keeps_the_share_of_hits() -> None:
    each = savings(
        History(trials=tuple(map(ended, range(4), [1, 1, 2, 3])), sign=1, rungs=(10,)), grid_size=36
    )
    assert each is not None
    assert each.random_order_s == pytest.approx(37 / 19 * 60)


def test_a_maximised_value_below_zero_is_compared_by_its_size() -> None:
    each = savings(History(trials=tuple(map(ended, range(3), [-1.0, -1.0005, -2.0])), sign=-1, rungs=(10,)))
    assert each is not None
    assert each.random_search_s == pytest.approx(1.5 * 60)


def test_no_run_to_the_end_is_no_answer() -> None:
    assert savings(History(trials=(ended(0, 0.1, at=1),), sign=1, rungs=(1, 10))) is None
    assert savings(History(trials=(ended(0, math.nan),), sign=1, rungs=(10,))) is None


def test_an_empty_grid_is_refused() -> None:
    with pytest.raises(FieldError, match="grid_size=0"):
        savings(History(trials=(ended(0, 1.0),), sign=1, rungs=(10,)), grid_size=0)


def test_a_run_of_a_grid_pays_its_start_once() -> None:
    def started(number: int, num_starts: int) -> Trial:
        point = Point(at=10, value=1.0 + number, time_s=60.0)
        return Trial(
            number=number,
            config={"x": number},
            origin="random",
            points=(point,),
            outcome="finished",
            time_s=60.0 + 5.0 * num_starts,
        )

    each = savings(History(trials=(started(0, 3), started(1, 1)), sign=1, rungs=(10,)))
    assert each is not None
    assert (each.spent_s, each.full_run_s, each.grid_s) == (140.0, 65.0, 130.0)
