"""Probing: times and gains of one way."""

import time

import pytest
import torch

from hemostat.data import Source
from hemostat.data.probing import Subject, unfit


@pytest.fixture
def subject():
    batch = {"x": torch.zeros(4, 2), "name": "a"}
    return Subject(Source([0, 1, 2, 3]), 4, 0.02, 0.01, batch, budget_s=0.05)


def test_a_time_is_that_of_one_call(subject):
    assert 0.002 <= subject.timed(lambda: time.sleep(0.002)) < 0.02


def test_gains_compare_with_one_thread(subject):
    assert subject.gain(0.005) == 2
    assert subject.gain_without(0.005) == 2
    assert subject.gain_without(0.05) == pytest.approx(20)  # it cannot save more than there is


def test_leaves_and_ways_that_do_not_apply(subject):
    assert [leaf.shape for leaf in subject.leaves] == [(4, 2)]
    assert unfit("uint8", "why") == ("uint8", None, "why", False)
