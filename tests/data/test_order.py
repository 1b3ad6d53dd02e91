"""The permutation: a bijection, fixed for ever, fresh in each epoch, and O(1) at any position."""

from itertools import permutations
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemostat.data import Order
from hemostat.data.order import PERMUTATION
from hemostat.errors import FieldError


@pytest.mark.parametrize("num_samples", [*range(1, 40), 255, 256, 257, 1000, 4097, 100_003])
def test_every_sample_once_per_epoch(num_samples):
    order = Order(num_samples, seed=3)
    for epoch in (0, 1, 17):
        assert np.array_equal(np.sort(order.indices(epoch, 0, num_samples)), np.arange(num_samples))


def test_golden_values_never_change():
    # Computed once with this code. A change here means that no earlier run can be resumed.
    assert PERMUTATION == "feistel6-v1"
    assert Order(10, seed=0).indices(0, 0, 10).tolist() == GOLDEN_10
    assert Order(10**9, seed=42).indices(3, 10**7, 10**7 + 6).tolist() == GOLDEN_1E9
    assert Order(2**30 + 1, seed=-1).indices(1, 5, 9).tolist() == GOLDEN_ODD


GOLDEN_10 = [3, 7, 5, 8, 6, 2, 9, 1, 0, 4]
GOLDEN_1E9 = [975897052, 805693364, 910785019, 935227067, 498994205, 430536671]
GOLDEN_ODD = [462594513, 588328508, 167035866, 345123459]


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(-(2**70), 2**70), st.integers(0, 10**6), st.data())
def test_any_slice_equals_the_whole(num_samples, seed, epoch, data):
    start = data.draw(st.integers(0, num_samples))
    stop = data.draw(st.integers(start, num_samples))
    order = Order(num_samples, seed)
    assert np.array_equal(order.indices(epoch, start, stop), order.indices(epoch, 0, num_samples)[start:stop])


def test_epochs_and_seeds_differ():
    orders = [Order(50, seed).indices(epoch, 0, 50).tolist() for seed in range(20) for epoch in range(20)]
    assert len({tuple(order) for order in orders}) == 400


def test_small_permutations_are_all_reached_and_about_equally_often():
    counts = dict.fromkeys(permutations(range(4)), 0)
    for seed in range(2400):
        counts[tuple(Order(4, seed).indices(0, 0, 4).tolist())] += 1
    chi_square = sum((seen - 100) ** 2 / 100 for seen in counts.values())
    assert chi_square < 49.7  # 23 degrees of freedom, p = 0.001


def test_positions_and_samples_are_not_correlated():
    num_samples, num_keys = 10_000, 30
    positions = np.arange(num_samples)
    values = [Order(num_samples, seed).indices(0, 0, num_samples) for seed in range(num_keys)]
    by_position = [np.corrcoef(positions, value)[0, 1] for value in values]
    by_neighbour = [np.corrcoef(value[:-1], value[1:])[0, 1] for value in values]
    for found in (by_position, by_neighbour):
        assert np.sqrt(np.mean(np.square(found))) < 1.5 / np.sqrt(num_samples)
    fixed_points = np.mean([(value == positions).sum() for value in values])
    assert 0.4 < fixed_points < 1.8  # 1 on average for random permutations


@pytest.mark.parametrize("num_samples", [10**9, 2**30 + 1])
def test_a_position_far_inside_costs_the_same(num_samples):
    order = Order(num_samples, seed=1)
    costs_s = []
    for _ in range(20):
        began = perf_counter()
        order.indices(2, 10**7, 10**7 + 32)
        costs_s.append(perf_counter() - began)
    assert min(costs_s) < 1e-3


@pytest.mark.parametrize("num_samples", [0, -3, 2**62 + 1])
def test_impossible_size(num_samples):
    with pytest.raises(FieldError, match="num_samples"):
        Order(num_samples, seed=0)


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (8, 11)])
def test_a_position_outside_the_epoch_is_refused(start, stop):
    with pytest.raises(FieldError, match=r"positions.*0\.\.9"):
        Order(10, seed=0).indices(0, start, stop)


def test_no_positions_give_no_samples():
    assert Order(10, seed=0).indices(0, 4, 4).shape == (0,)
