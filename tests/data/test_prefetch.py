"""The threads that read ahead: in order, bounded, honest about errors, replaced when stuck, gone when closed."""

import threading
import time

import pytest

from hemostat.data.prefetch import ReadAhead
from hemostat.data.reading import READING
from hemostat.errors import EnvironmentFailure, HemostatWarning


@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_in_order_to_the_end_and_again_at_the_end(num_threads):
    def slow_at_first(number):
        time.sleep(0.002 * (number % 3 == 0))
        return number * 10

    ahead = ReadAhead(iter(range(20)), slow_at_first, num_threads)
    assert list(ahead) == list(range(0, 200, 10))
    assert next(ahead, "over") == "over"
    ahead.close()


def test_no_more_than_depth_are_read_ahead():
    made = []
    ahead = ReadAhead(iter(range(100)), made.append, depth=2)
    time.sleep(0.05)
    assert len(made) == 2
    next(ahead)
    time.sleep(0.05)
    assert len(made) == 3
    ahead.close()


def test_two_threads_work_at_the_same_time():
    meeting = threading.Barrier(2, timeout=10)
    ahead = ReadAhead(iter(range(4)), lambda _: meeting.wait() >= 0, num_threads=2)
    assert list(ahead) == [True] * 4
    ahead.close()


@pytest.mark.parametrize("num_threads", [1, 3])
def test_an_error_comes_after_the_items_before_it(num_threads):
    def fail_at_three(number):
        if number == 3:
            raise ValueError("bad shard")
        return number

    ahead = ReadAhead(iter(range(9)), fail_at_three, num_threads)
    assert [next(ahead) for _ in range(3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(ValueError, match="bad shard"):
            next(ahead)
    ahead.close()


def test_an_error_of_the_plan_comes_through_too():
    def plan():
        yield 1
        raise KeyError("plan")

    ahead = ReadAhead(plan(), lambda number: number)
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="plan"):
        next(ahead)
    ahead.close()


def test_closing_twice_leaves_no_thread():
    before = threading.active_count()
    ahead = ReadAhead(iter(range(100)), lambda number: number, num_threads=3)
    next(ahead)
    ahead.close()
    ahead.close()
    assert threading.active_count() == before


class Sticky:
    """Stands still at one number, as often as it is told to, until it is released."""

    def __init__(self, number, times):
        self.number = number
        self.times = times
        self.release = threading.Event()

    def __call__(self, number):
        READING.cell[0] = number + 1000
        if number == self.number and self.times:
            self.times -= 1
            self.release.wait(30)
        return number


def test_a_stuck_thread_is_named_with_its_stack_and_its_work_is_done_by_another():
    sticky = Sticky(number=4, times=1)
    ahead = ReadAhead(iter(range(10)), sticky, num_threads=2, stall_s=0.2)
    with pytest.warns(HemostatWarning) as caught:
        found = list(ahead)
    assert found == list(range(10)), "none lost, none twice"
    message = str(caught[0].message)
    assert "has not answered for 0.2 s at sample 1004" in message
    assert "self.release.wait(30)" in message
    sticky.release.set()
    ahead.close()


def test_the_same_work_stuck_twice_ends_it():
    sticky = Sticky(number=1, times=2)
    ahead = ReadAhead(iter(range(10)), sticky, stall_s=0.1)
    with (
        pytest.warns(HemostatWarning),
        pytest.raises(EnvironmentFailure, match=r"at sample 1001[\s\S]*2 times"),
    ):
        list(ahead)
    with pytest.raises(EnvironmentFailure):
        next(ahead)
    sticky.release.set()
    ahead.close()


def test_an_error_that_comes_late_from_a_replaced_thread_is_dropped():
    class Late(Sticky):
        def __call__(self, number):
            first = number == self.number and self.times > 0
            super().__call__(number)
            if first:
                raise OSError("the read timed out")
            time.sleep(0.01)
            return number

    late = Late(number=4, times=1)
    ahead = ReadAhead(iter(range(60)), late, num_threads=2, stall_s=0.2)
    found = []
    with pytest.warns(HemostatWarning):
        for number in ahead:
            found.append(number)
            if number == 10:
                late.release.set()  # the thread that was given up wakes, and fails
    assert found == list(range(60))
    ahead.close()
