"""Holding the batch comes first; then the scaled one."""

import pytest

from hemostat.recipe import Base, Devices, convert

BASE = Base(optimizer="sgd", lr=0.1, tuned_batch=128)


def test_both_ways_are_shown_and_the_chosen_one_is_marked():
    hold, scale = convert(BASE, Devices(num_ranks=8, micro_batch=128)).alternatives
    assert (hold.name, hold.global_batch, hold.micro_batch, hold.lr, hold.chosen) == (
        "hold",
        128,
        16,
        0.1,
        False,
    )
    assert (scale.name, scale.global_batch, scale.chosen) == ("scale", 1024, True)
    assert scale.lr == pytest.approx(0.8)


def test_a_held_batch_still_shows_what_scaling_would_be():
    hold, scale = convert(BASE, Devices(num_ranks=8)).alternatives
    assert hold.chosen
    assert (scale.global_batch, scale.chosen) == (1024, False)


def test_one_device_has_one_way():
    assert [option.name for option in convert(BASE).alternatives] == ["hold"]


def test_a_tuned_batch_smaller_than_the_ranks_cannot_be_held():
    recipe = convert(Base(optimizer="sgd", tuned_batch=4), Devices(num_ranks=8, micro_batch=1))
    assert [option.name for option in recipe.alternatives] == ["scale"]


def test_showing_the_scaled_way_never_refuses_a_held_batch():
    base = Base(optimizer="sgd", tuned_batch=128, critical_batch=130)
    assert convert(base, Devices(num_ranks=64)).alternatives[1].global_batch == 8192
