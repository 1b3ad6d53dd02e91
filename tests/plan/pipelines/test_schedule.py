"""A pipeline is a frozen value that can be compared, written and read back."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from hemostat.plan.pipelines import Action, Pipeline, pipeline


def test_counts_and_places():
    looped = pipeline("interleaved", num_ranks=3, num_micro_batches=6, stages_per_rank=2)
    assert (looped.num_ranks, looped.num_stages, looped.num_micro_batches) == (3, 6, 6)
    assert [looped.rank_of(stage) for stage in range(6)] == [0, 1, 2, 0, 1, 2]
    for rank, actions in enumerate(looped.ranks):
        assert {looped.rank_of(action.stage) for action in actions} == {rank}


def test_it_is_frozen_and_equal_to_its_twin():
    one = pipeline("1f1b", 2, 3)
    assert one == pipeline("1f1b", 2, 3)
    assert hash(one) == hash(pipeline("1f1b", 2, 3))
    assert one != pipeline("1f1b", 2, 4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "mine"


def test_it_comes_back_from_json():
    one = pipeline("zero_bubble", 3, 5)
    again = msgspec.json.decode(msgspec.json.encode(one), type=Pipeline)
    assert again == one
    assert type(again.ranks[0][0]) is Action
