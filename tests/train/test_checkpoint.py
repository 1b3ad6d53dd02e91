"""The saver: what was saved is read back, large states in the background, and a full disk leaves what was there."""

from __future__ import annotations

import errno
import threading

import pytest
import torch

from hemostat.errors import RecordError
from hemostat.track import Checkpoints
from hemostat.train import checkpoint
from hemostat.train.checkpoint import Saver, State
from hemostat.train.process import World
from hemostat.train.tensor_files import read_tensors, tensor_shapes


def state(step: int, size: int = 8) -> State:
    generator = torch.Generator().manual_seed(step)
    tensors = {
        "model/weight": torch.randn(size, 3, generator=generator),
        "optimizer/weight/step": torch.tensor(float(step)),
        "model/count": torch.tensor([step]),
        "model/half": torch.randn(4, generator=generator).to(torch.bfloat16),
    }
    return State(tensors, {"step": step, "samples": 10 * step}, {"rng": [1, 2]})


def test_what_was_saved_is_read_back_bit_for_bit(tmp_path):
    saved = state(3)
    saver = Saver(World(), tmp_path, keep=2)
    saver.save(saved, best=True)
    path, troubles = Checkpoints(tmp_path).last_whole()
    assert troubles == [] and Checkpoints(tmp_path).best() == path
    shapes = tensor_shapes(path)
    assert {name: (shape.size, shape.dtype) for name, shape in shapes.items()} == {
        name: (tensor.shape, tensor.dtype) for name, tensor in saved.tensors.items()
    }
    into = {name: torch.zeros(shape.size, dtype=shape.dtype) for name, shape in shapes.items()}
    read_tensors(into, path)
    assert all(torch.equal(into[name], tensor) for name, tensor in saved.tensors.items())


def test_a_large_state_is_written_in_the_background_as_it_was(tmp_path, monkeypatch):
    """T095."""
    monkeypatch.setattr(checkpoint, "BACKGROUND_BYTES", 16)
    begun, go = threading.Event(), threading.Event()
    begin = Checkpoints.begin

    def slow_begin(self, step):
        begun.set()
        assert go.wait(10)
        return begin(self, step)

    monkeypatch.setattr(Checkpoints, "begin", slow_begin)
    saved = state(5)
    before = saved.tensors["model/weight"].clone()
    saver = Saver(World(), tmp_path, keep=2)
    saver.save(saved, best=False)
    assert begun.wait(10) and not Checkpoints(tmp_path).published()
    saved.tensors["model/weight"].zero_()  # training goes on
    go.set()
    saver.wait()
    into = {"model/weight": torch.zeros(8, 3)}
    read_tensors(into, Checkpoints(tmp_path).path(5))
    assert torch.equal(into["model/weight"], before)
    saver.close()


def test_only_the_newest_and_the_best_stay(tmp_path):
    saver = Saver(World(), tmp_path, keep=2)
    for step in range(1, 7):
        saver.save(state(step), best=step == 2)
    assert [path.name[-1] for path in Checkpoints(tmp_path).published()] == ["2", "5", "6"]


def test_a_full_disk_leaves_the_checkpoint_before_and_says_so(tmp_path, monkeypatch):
    saver = Saver(World(), tmp_path, keep=2)
    saver.save(state(1), best=False)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hemostat.train.tensor_files.save", full)
    with pytest.raises(RecordError, match=r"not saved: .*No space left.* step-000000001 is whole.*--resume"):
        saver.save(state(2), best=False)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000001"]


def test_what_failed_in_the_background_is_raised_at_the_next_call(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "BACKGROUND_BYTES", 16)
    (tmp_path / "checkpoints").write_text("a file in the way")
    saver = Saver(World(), tmp_path, keep=2)
    saver.save(state(1), best=False)
    with pytest.raises(RecordError, match="cannot be written"):
        saver.save(state(2), best=False)
    saver.close()


def test_of_steps_900_to_1100_the_newest_two_are_kept(tmp_path):
    """T086: as text, step 1100 would come before step 900."""
    saver = Saver(World(), tmp_path, keep=2)
    for step in (900, 950, 1000, 1050, 1100):
        saver.save(state(step), best=step == 950)
    checkpoints = Checkpoints(tmp_path)
    assert [checkpoints.manifest(path).step for path in checkpoints.published()] == [950, 1050, 1100]
    assert checkpoints.manifest(checkpoints.last_whole()[0]).step == 1100
