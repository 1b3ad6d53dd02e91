"""Agreement of rungs with the end, and what follows from it."""

from __future__ import annotations

import pytest

from hemostat.tune.evidence import MIN_TRIALS, agreement, is_control, trusted_rung
from hemostat.tune.trial import History, Point, Trial

RUNGS = (1, 3, 9)


def history(early: list[float], middle: list[float], late: list[float]) -> History:
    trials = tuple(
        Trial(
            number=number,
            config={},
            origin="test",
            outcome="finished",
            points=tuple(
                Point(at=at, value=value, time_s=1.0 * at) for at, value in zip(RUNGS, values, strict=True)
            ),
        )
        for number, values in enumerate(zip(early, middle, late, strict=True))
    )
    return History(trials=trials, sign=1, rungs=RUNGS)


RISING = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
FALLING = RISING[::-1]


@pytest.mark.parametrize(
    ("early", "middle", "trusted"),
    [(RISING, RISING, 1), (FALLING, RISING, 3), (FALLING, FALLING, 9)],
)
def test_a_rung_that_misleads_is_left_out(early, middle, trusted):
    assert trusted_rung(history(early, middle, RISING)) == trusted


def test_too_few_trials_say_nothing():
    few = history(FALLING[1:], FALLING[1:], RISING[1:])
    assert agreement(few, 1) is None
    assert trusted_rung(few) == 1


def test_one_swap_of_two_neighbours_is_one_pair_of_fifteen():
    swapped = [0.2, 0.1, *RISING[2:]]
    assert agreement(history(swapped, RISING, RISING), 1) == pytest.approx(14 / 15)


def test_one_in_five_is_a_control_until_the_rungs_can_be_judged():
    none = History(trials=(), sign=1, rungs=RUNGS)
    assert [number for number in range(20) if is_control(none, number)] == [4, 9, 14, 19]
    enough = history(RISING, RISING, RISING)
    assert len(enough.trials) == MIN_TRIALS
    assert not any(is_control(enough, number) for number in range(20))
