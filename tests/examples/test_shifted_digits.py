"""Augmentation by sample_rng: other draws on each rank and worker, the same ones after a resume."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from hemostat.data import Feed, TrainLoader, Workers

EPOCH = 1437


@pytest.fixture
def shifted(example):
    return example("shifted_digits")


def images(data, *, start=0, mode="none", **feed) -> torch.Tensor:
    """What one rank reads up to the end of two epochs, in order."""
    whole = Feed(**{"seed": 3, "global_batch": 48, "total_samples": 2 * EPOCH} | feed)
    loader = TrainLoader(
        data, whole, start_samples=start, workers=Workers(mode=mode, num=None if mode == "none" else 2)
    )
    found = torch.cat([micro.data[0][: micro.num_samples] for micro in loader])
    loader.close()
    return found


class Shifts:
    """A dot in the middle of each image, so that an image shows its shift."""

    def __len__(self):
        return EPOCH

    def __getitem__(self, index):
        dot = torch.zeros(64)
        dot[3 * 8 + 3] = 1.0
        return dot, torch.tensor(index)


def test_each_rank_and_each_sample_has_draws_of_its_own(shifted):
    """T065."""
    whole = images(shifted.Shifted(Shifts())).argmax(dim=1)
    first, second = (
        images(shifted.Shifted(Shifts()), rank=rank, num_ranks=2).argmax(dim=1) for rank in range(2)
    )
    num = min(len(first), len(second))
    assert (first[:num] == second[:num]).float().mean() < 0.2  # nine shifts: 1 in 9 agree by chance
    assert (whole[:EPOCH] == whole[EPOCH:]).float().mean() < 0.2  # the second epoch has another order
    assert whole.unique().tolist() == [8 * row + column for row in (2, 3, 4) for column in (2, 3, 4)]


def test_the_next_epoch_draws_anew(shifted):
    data = shifted.Shifted(Shifts())
    feed = Feed(seed=3, global_batch=EPOCH, total_samples=2 * EPOCH)
    one, two = (
        dict(zip(batch.data[1].tolist(), batch.data[0].argmax(dim=1).tolist(), strict=True))
        for batch in TrainLoader(data, feed)
    )
    assert one.keys() == two.keys()
    assert sum(one[index] == two[index] for index in one) / EPOCH < 0.2


@pytest.mark.parametrize("mode", ["threads", "processes"])
def test_workers_read_what_one_thread_reads(shifted, mode):
    data = shifted.ShiftedDigits().train_data()
    assert torch.equal(images(data, mode=mode), images(data))


@pytest.mark.parametrize("mode", ["none", "threads", "processes"])
def test_a_resume_in_the_second_epoch_reads_what_an_unbroken_run_reads(shifted, mode):
    data = shifted.ShiftedDigits().train_data()
    position = EPOCH + 480
    assert torch.equal(images(data, start=position, mode=mode), images(data)[position:])


TASK = """
import random
from digits import Digits, load
from torch.utils.data import Dataset
class Careless(Dataset):
    def __init__(self): self.images = load()[0]
    def __len__(self): return len(self.images)
    def __getitem__(self, index):
        image, target = self.images[index]
        return image.reshape(8, 8).roll(random.randrange(-1, 2), dims=0).flatten(), target
class CarelessDigits(Digits):
    def train_data(self): return Careless()
"""


def test_training_says_where_an_augmentation_is_careless(examples, tmp_path):
    (tmp_path / "careless.py").write_text(TASK)
    note = "note: two reads of the same samples of train_data differ"
    for task, num_notes in (
        (f"{examples}/shifted_digits.py:ShiftedDigits", 0),
        ("careless.py:CarelessDigits", 1),
    ):
        command = [sys.executable, "-m", "hemostat", "train", task, "--no-plot", "--nproc", "2"]
        command += ["--set", "epochs=0.1", "--set", "warmup_steps=0"]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(examples), os.environ.get("PYTHONPATH", "")])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout + done.stderr
        assert said.count(note) == num_notes, said
        assert "self-check could not compare" not in said
