"""The saver: what was saved is read back, large states in the background, and a full disk leaves what was there."""

from __future__ import annotations

import contextlib
import resource
import threading
from pathlib import Path

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


def refused_at_step_2(run_dir: Path, large: State, said: str) -> None:
    """What was saved before is whole, nothing half is left, and the message has the cause and the way on."""
    saver = Saver(World(), run_dir, keep=2)
    saver.save(state(1), best=False)
    with pytest.raises(RecordError) as caught:
        saver.save(large, best=False)
    told = str(caught.value)
    assert "the checkpoint was not saved: " in told and said in told
    assert "step-000000001 is whole; go on from it: hemostat train --resume a-run --runs " in told
    assert [path.name for path in (run_dir / "checkpoints").iterdir()] == ["step-000000001"]
    assert Checkpoints(run_dir).last_whole()[0] == Checkpoints(run_dir).path(1)


@pytest.mark.parametrize("in_background", [False, True])
def test_a_full_disk_leaves_the_checkpoint_before_and_says_so(disk_of, monkeypatch, in_background):
    run_dir = disk_of("1m") / "a-run"
    refused_at_step_2(run_dir, state(2, size=400_000), "the disk is full. Free some space")
    if in_background:
        monkeypatch.setattr(checkpoint, "BACKGROUND_BYTES", 16)
        saver = Saver(World(), run_dir, keep=2)
        saver.save(state(2, size=400_000), best=False)
        with pytest.raises(RecordError, match=r"the disk is full\. Free some space"):
            saver.wait()
        saver.close()


def test_a_disk_that_is_full_up_to_the_last_page_is_named_too(disk_of):
    disk = disk_of("1m")
    saver = Saver(World(), disk / "a-run", keep=2)
    saver.save(state(1), best=False)
    with contextlib.suppress(OSError), (disk / "fill").open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
    with pytest.raises(RecordError, match="the disk is full"):
        saver.save(state(2), best=False)
    (disk / "fill").unlink()
    saver.save(state(2), best=False)
    assert Checkpoints(disk / "a-run").last_whole()[0].name == "step-000000002"


def test_a_limit_of_the_file_size_leaves_the_checkpoint_before_and_says_so(tmp_path):
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, usual[1]))
    try:
        refused_at_step_2(
            tmp_path / "a-run", state(2, size=100_000), "the file-size limit is reached. Raise `ulimit"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


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
