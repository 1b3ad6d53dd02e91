"""One rank that cannot do its part is known to all, whatever it raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from hemostat.errors import RecordError
from hemostat.track import Checkpoints
from hemostat.train.checkpoint import Saver, State
from hemostat.train.process import World
from hemostat.train.together import together


def part(rank: int) -> str:
    if rank == 1:
        raise KeyError("shard")
    return f"done by {rank}"


def pooled() -> tuple[list[object], str, bool]:
    world = World.from_environment("cpu")
    try:
        results, failure = together(world, lambda: part(world.rank))
        return results, failure.text, failure.own is not None
    finally:
        world.close()


def test_all_ranks_learn_of_it(ranks):
    for rank, answer in enumerate(ranks(2, pooled)):
        assert answer == (["done by 0", None], "KeyError: 'shard'", rank == 1)


def save_badly(folder: Path) -> str:
    world = World.from_environment("cpu")
    saver = Saver(world, folder, keep=2)
    own = {"unfit": {1, 2}} if world.rank == 1 else {}  # JSON takes no set: a TypeError on one rank
    try:
        saver.save(State({}, {"step": 1, "samples": 8}, own), best=False)
    except RecordError as error:
        return f"{error} {list((folder / 'checkpoints').iterdir())}"
    finally:
        saver.close()
        world.close()
    return "saved"


def test_a_checkpoint_that_one_rank_cannot_write_is_refused_by_all(ranks, tmp_path):
    answers = ranks(2, save_badly, tmp_path)
    for answer in answers:
        assert "the checkpoint was not saved: TypeError: Object of type set" in answer
    assert Checkpoints(tmp_path).published() == []


def test_what_was_no_error_of_ours_is_kept():
    _, failure = together(World(), lambda: int("x"))
    with pytest.raises(ValueError, match="invalid literal"):
        raise failure.own
