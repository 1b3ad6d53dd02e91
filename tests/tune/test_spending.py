from __future__ import annotations

import random

import pytest

from hemostat.tune.budget import Budget
from hemostat.tune.spending import Spending
from hemostat.tune.trial import Point, Trial
from hemostat.tune.workers import Order


def begin(spending, number, until=10, issued_s=0.0, **config):
    order = Order(trial=number, config=config, start=0, until=until, seed=0, issued_s=issued_s)
    trial = Trial(number=number, config=config, origin="random")
    spending.started(order, trial)
    return trial


def measure(spending, trial, at, time_s):
    spending.measured(trial, Point(at=at, value=1.0, time_s=time_s))


def finished(spending, number, time_s, **config):
    trial = begin(spending, number, **config)
    measure(spending, trial, 10, time_s)
    spending.ended(number, time_s, whole=True)


def test_a_stretch_is_priced_by_the_slow_trials_and_the_longest_save():
    spending = Spending(Budget(save_s=3.0))
    assert spending.price_s({}, 10) is None
    for number in range(40):
        finished(spending, number, 10.0 + number)
    assert spending.price_s({}, 10) == pytest.approx(10.0 + 37 + 3.0)  # the 38th of 40
    assert spending.cheapest_s(10) == pytest.approx(13.0)


def test_before_anything_is_measured_the_forecast_counts():
    assert Spending(Budget(s_per_unit=2.0, save_s=1.0)).price_s({}, 10) == 21.0


def test_configurations_that_take_longer_have_their_own_price():
    spending = Spending(Budget(speed=("batch",)))
    finished(spending, 0, 10.0, batch=8)
    finished(spending, 1, 50.0, batch=64)
    assert spending.price_s({"batch": 8}, 10) == pytest.approx(10.0)
    assert spending.price_s({"batch": 64}, 10) == pytest.approx(50.0)
    assert spending.price_s({"batch": 128}, 10) == pytest.approx(50.0)  # not known: the slow ones of all


def test_a_trial_that_goes_on_is_priced_by_its_own_time_and_a_fifth():
    spending = Spending(Budget())
    finished(spending, 0, 90.0)
    trial = begin(spending, 1)
    measure(spending, trial, 1, 2.0)
    assert spending.price_s({}, 5, trial=1) == pytest.approx(12.0)


def test_a_retry_is_measured_from_its_own_start():
    spending = Spending(Budget(max_device_s=100.0, s_per_unit=1.0))
    known = tuple(Point(at=at, value=1.0, time_s=2.0 * at) for at in (1, 2, 3))
    trial = Trial(number=0, config={}, origin="random", points=known)
    spending.started(Order(trial=0, config={}, start=1, until=4, seed=0), trial)
    measure(spending, trial, 4, 8.0)
    spending.ended(0, 7.0, whole=True)  # 6 for the positions from 1 to 4, the rest for the save
    assert spending.stop_s == pytest.approx(2.0)


def test_saves_are_measured_and_doubled():
    spending = Spending(Budget(save_s=1.0))
    trial = begin(spending, 0)
    measure(spending, trial, 10, 100.0)
    spending.ended(0, 107.0, whole=True)
    assert spending.stop_s == pytest.approx(14.0)


def test_nothing_starts_that_the_cap_does_not_carry():
    spending = Spending(Budget(max_device_s=100.0, s_per_unit=1.0))
    assert spending.affords(100.0, 0.0) and not spending.affords(100.1, 0.0)
    begin(spending, 0, until=60)
    assert spending.affords(40.0, 0.0) and not spending.affords(41.0, 0.0)
    clocked = Spending(Budget(max_s=50.0))
    assert clocked.affords(20.0, 30.0) and not clocked.affords(20.0, 30.1)
    assert clocked.affords(None, 49.0) and not clocked.affords(None, 50.0)


def test_the_clock_stops_everybody_in_time_and_ends_them_at_the_cap():
    spending = Spending(Budget(max_s=50.0, save_s=5.0))
    begin(spending, 0), begin(spending, 1)
    assert spending.deadline_s(10.0) == 45.0
    assert spending.overdue(44.9) == [] and spending.overdue(45.0) == [0, 1]
    spending.asked(0, 45.0), spending.asked(1, 45.0)
    assert spending.deadline_s(45.0) == 50.0
    assert spending.overdue(49.0) == [] and spending.overdue(50.0) == [0, 1]


def test_who_takes_longer_than_priced_is_stopped_and_the_others_finish():
    spending = Spending(Budget(max_device_s=50.0, s_per_unit=2.0))
    slow, other = begin(spending, 0), begin(spending, 1)
    measure(spending, slow, 1, 2.0), measure(spending, other, 1, 2.0)
    assert spending.deadline_s(2.0) == pytest.approx(25.0)  # 40 are held back; both late from 20, 5 each
    measure(spending, slow, 3, 14.0)
    assert spending.overdue(14.0) == [0]
    spending.asked(0, 14.0)
    assert spending.overdue(14.0) == [] and spending.overdue(19.0) == []


def test_without_a_cap_nothing_is_ever_due():
    spending = Spending(Budget())
    begin(spending, 0)
    assert spending.deadline_s(1e9) is None and spending.overdue(1e9) == []


@pytest.mark.parametrize("seed", range(30))
def test_at_its_deadline_somebody_is_due(seed):
    rng = random.Random(seed)
    spending = Spending(Budget(max_device_s=200.0, s_per_unit=2.0, save_s=rng.choice((0.0, 3.0))))
    now_s = 0.0
    for number in range(4):
        measure(spending, begin(spending, number, issued_s=0.0), 1, rng.uniform(1.0, 6.0))
    for _ in range(20):
        for number in spending.overdue(now_s):
            if number in waiting(spending):
                spending.asked(number, now_s)
        deadline_s = spending.deadline_s(now_s)
        if not waiting(spending):
            return
        assert deadline_s is not None and now_s <= deadline_s <= 200.0 / 4 + 1e-6
        now_s = deadline_s
        assert spending.overdue(now_s)
    raise AssertionError("the stops never end")


def waiting(spending):
    return {number for number, stretch in spending._running.items() if stretch.asked_s is None}
