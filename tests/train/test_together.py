"""One rank that cannot do its part is known to all, whatever it raised."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import RecordError, TaskError
from hemostat.recipe import Base
from hemostat.track import Checkpoints
from hemostat.train import Session, TrainSettings
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


def judged_by_each(improves: bool) -> tuple[str, int]:
    """A metric that nobody has reduced: rank 0's improves, rank 1's does not."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    base = Base(optimizer="sgd", lr=0.05, tuned_batch=8, epochs=20, patience=2)
    with Session(torch.nn.Linear(4, 1), None, data, base, settings=TrainSettings(record=False)) as session:
        try:
            for number, batch in enumerate(session.steps(), start=1):
                session.backward(((session.model(batch[0]) - batch[1]) ** 2).sum(), count=len(batch[0]))
                session.judge(1.0 - number / 100 if session.world.rank == 0 and improves else 1.0)
        except TaskError as error:
            return str(error), session.stopper.state()["bad_evals"]
    return "no error", 0


def test_a_metric_that_differs_by_rank_is_refused_on_all_ranks(ranks):
    """T041, T042, T043, T045, T046: each rank would stop, or halve its rate, by its own number."""
    first, second = ranks(2, judged_by_each, True)
    assert first == second
    assert first[0].startswith(
        "val_loss is 0.99 on rank 0, 1.0 on rank 1: it must be one number over all ranks"
    )
    assert first[1] == 0  # nobody's stopper has seen it
