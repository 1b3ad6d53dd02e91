import random

import pytest

from hemostat.recipe.online.noise import MIN_UPDATES, NoiseScale


def squares(rng: random.Random, signal: float, noise: float, batch: int, dim: int = 50) -> float:
    """|mean of `batch` noisy gradients|^2 with |G|^2 = signal and tr(Sigma) = noise."""
    deviation = (noise / dim / batch) ** 0.5
    return sum(((signal / dim) ** 0.5 + rng.gauss(0.0, deviation)) ** 2 for _ in range(dim))


@pytest.mark.parametrize("true_scale", [5.0, 100.0, 2000.0])
def test_the_true_noise_scale_is_found(true_scale):
    rng, meter = random.Random(1), NoiseScale(decay=0.999)
    for _ in range(3000):
        small = sum(squares(rng, 1.0, true_scale, 16) for _ in range(4)) / 4
        meter.update(
            small_square=small, big_square=squares(rng, 1.0, true_scale, 64), small_batch=16, big_batch=64
        )
    assert meter.critical_batch == pytest.approx(true_scale, rel=0.35)


def test_few_updates_say_nothing():
    meter = NoiseScale()
    for number in range(MIN_UPDATES):
        assert meter.critical_batch is None, number
        meter.update(small_square=3.0, big_square=2.0, small_batch=1, big_batch=2)
    assert meter.critical_batch == pytest.approx(2.0)


def test_one_batch_alone_is_passed_over():
    meter = NoiseScale()
    meter.update(small_square=1.0, big_square=1.0, small_batch=8, big_batch=8)
    assert meter.num_updates == 0


def test_a_norm_that_is_not_finite_is_passed_over():
    meter = NoiseScale()
    for bad in (float("nan"), float("inf")):
        meter.update(small_square=bad, big_square=1.0, small_batch=1, big_batch=2)
        meter.update(small_square=1.0, big_square=bad, small_batch=1, big_batch=2)
    assert meter.num_updates == 0


def test_noise_that_hides_the_signal_is_not_a_number():
    meter = NoiseScale()
    for _ in range(50):
        meter.update(small_square=10.0, big_square=1.0, small_batch=1, big_batch=2)
    assert meter.critical_batch is None


def test_the_average_forgets():
    meter = NoiseScale(decay=0.9)
    for true_scale in (10.0, 1000.0):
        for _ in range(200):
            meter.update(
                small_square=1 + true_scale / 8, big_square=1 + true_scale / 32, small_batch=8, big_batch=32
            )
    assert meter.critical_batch == pytest.approx(1000.0, rel=0.01)


def test_the_first_updates_count_alike():
    """Else the estimate would begin at 0 and take hundreds of steps to forget it."""
    meter = NoiseScale(decay=0.999)
    for signal in (1.0, 3.0, 8.0):  # a small batch of 1 and a large one of 2, with tr(Sigma) = 4 of a sample
        meter.update(small_square=signal + 4.0, big_square=signal + 2.0, small_batch=1, big_batch=2)
    assert meter.state() == pytest.approx({"signal": 4.0, "noise": 4.0, "num_updates": 3})
