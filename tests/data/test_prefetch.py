"""The thread that reads ahead: in order, bounded, honest about errors, gone when closed."""

import threading
import time

import pytest

from hemostat.data.prefetch import ReadAhead


def counter(limit, error=StopIteration, made=None):
    numbers = iter(range(limit))

    def make():
        number = next(numbers, None)
        if number is None:
            raise error
        if made is not None:
            made.append(number)
        return number

    return make


def test_in_order_to_the_end_and_again_at_the_end():
    ahead = ReadAhead(counter(20))
    assert list(ahead) == list(range(20))
    assert next(ahead, "over") == "over"
    ahead.close()


def test_no_more_than_depth_are_read_ahead():
    made = []
    ahead = ReadAhead(counter(100, made=made), depth=2)
    time.sleep(0.05)
    assert len(made) == 2
    next(ahead)
    time.sleep(0.05)
    assert len(made) == 3
    ahead.close()


def test_an_error_comes_after_the_items_before_it():
    ahead = ReadAhead(counter(3, error=ValueError("bad shard")))
    assert [next(ahead) for _ in range(3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(ValueError, match="bad shard"):
            next(ahead)
    ahead.close()


def test_closing_twice_leaves_no_thread():
    before = threading.active_count()
    ahead = ReadAhead(counter(100))
    next(ahead)
    ahead.close()
    ahead.close()
    assert threading.active_count() == before
