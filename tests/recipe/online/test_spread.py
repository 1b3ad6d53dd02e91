"""Median and MAD against numbers worked out by hand and against a normal sample."""

import random

import pytest

from hemostat.recipe.online.spread import robust_spread


def test_by_hand():
    # |x - 4| of 1 2 4 6 20 is 3 2 0 2 16, whose median is 2
    assert robust_spread([1.0, 2.0, 4.0, 6.0, 20.0]) == (4.0, 1.4826 * 2)


def test_a_normal_sample_gives_its_standard_deviation():
    rng = random.Random(0)
    spread = robust_spread(rng.gauss(5.0, 0.5) for _ in range(20_000))
    assert spread.middle == pytest.approx(5.0, abs=0.02)
    assert spread.deviation == pytest.approx(0.5, rel=0.03)
