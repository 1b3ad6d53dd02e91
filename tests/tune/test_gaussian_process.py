"""The process: what it was told, what lies between, names, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

from hemostat.tune.gaussian_process import GaussianProcess

ORDERED = np.array([False])
PLACES = np.linspace(0, 1, 9)[:, None]


def test_it_goes_through_smooth_values_and_is_unsure_between_far_ones():
    values = np.sin(5 * PLACES[:, 0])
    process = GaussianProcess(PLACES, values, ORDERED)
    mean, spread = process.predict(np.array([[0.3125], [0.25]]))
    assert mean[0] == pytest.approx(np.sin(5 * 0.3125), abs=0.05)
    assert spread[0] > spread[1]


def test_a_unit_changes_nothing():
    values = (PLACES[:, 0] - 0.4) ** 2
    one, other = (GaussianProcess(PLACES, scale * values + 7, ORDERED) for scale in (1.0, 1000.0))
    at = np.array([[0.33]])
    assert (other.predict(at)[0] - 7) / 1000 == pytest.approx(one.predict(at)[0] - 7, rel=1e-6)


def test_names_are_equally_far_apart():
    points = np.array([[0.0], [0.5], [1.0]] * 3)
    values = np.array([1.0, 0.0, 0.0] * 3) + 0.01 * np.arange(9)
    named = GaussianProcess(points, values, np.array([True]))
    _, spread = named.predict(np.array([[0.2], [0.9]]))  # two names that were never seen
    assert spread[0] == pytest.approx(spread[1])


def test_a_point_that_is_expected_is_no_longer_unknown():
    process = GaussianProcess(PLACES[:3], np.array([0.0, 1.0, 0.5]), ORDERED)
    before, unsure = process.predict(np.array([[0.9]]))
    process.expect(np.array([[0.9]]))
    after, sure = process.predict(np.array([[0.9]]))
    assert sure[0] < unsure[0] / 2
    assert after[0] == pytest.approx(before[0], abs=0.05)


def test_the_gradient_is_that_of_the_loss():
    generator = np.random.default_rng(3)
    points = generator.random((12, 3))
    process = GaussianProcess(points, np.sin(4 * points[:, 0]) + points[:, 1], np.zeros(3, dtype=bool))
    apart = process._apart(points, points)
    logs = np.array([-0.5, 0.2, 0.4, -3.0])
    _, gradient = process._loss(apart, logs)
    for place in range(4):
        step = np.zeros(4)
        step[place] = 1e-5
        slope = (process._loss(apart, logs + step)[0] - process._loss(apart, logs - step)[0]) / 2e-5
        assert gradient[place] == pytest.approx(slope, rel=1e-4)


def test_equal_values_are_no_fault():
    mean, spread = GaussianProcess(PLACES, np.ones(9), ORDERED).predict(PLACES)
    assert np.isfinite(mean).all()
    assert (spread > 0).all()
