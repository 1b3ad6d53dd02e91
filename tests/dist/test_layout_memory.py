"""What layouts save, counted by storage: two stages against one process, and shards against whole state."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from hemostat.data import Source
from hemostat.plan import Layout
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor, Task
from hemostat.train import Session, TrainSettings
from hemostat.train.loop import Trainer
from hemostat.train.split_model import split_model
from hemostat.train.storage_meter import STATE, StorageMeter

DIM, NUM_BLOCKS, NUM_WORDS, POSITIONS, SAMPLES = 32, 24, 16, 32, 32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Words(Task):
    def model(self) -> nn.Module:
        torch.manual_seed(0)
        ends = nn.Embedding(NUM_WORDS, DIM), nn.Linear(DIM, NUM_WORDS)
        return nn.Sequential(ends[0], *(Block() for _ in range(NUM_BLOCKS)), ends[1])

    def train_data(self) -> TensorDataset:
        generator = torch.Generator().manual_seed(1)
        return TensorDataset(*torch.randint(0, NUM_WORDS, (2, 2 * SAMPLES, POSITIONS), generator=generator))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, int]:
        loss = functional.cross_entropy(output.flatten(0, 1), target.flatten(), reduction="sum")
        return loss, target.numel()


def measured(layout: str, accumulation: int) -> dict[str, Any]:
    """Peak of the second step, and state right after its update."""
    task = Words()
    base = Base(optimizer="adamw", lr=0.01, tuned_batch=SAMPLES, total_samples=2 * SAMPLES)
    chosen = Layout.read(layout) if layout else Layout()
    settings = TrainSettings(record=False, save=False, self_check=False, guards=(), layout=chosen)
    devices = Devices(global_batch=SAMPLES, accumulation=accumulation)
    source = Source(task.train_data(), "train_data")
    with StorageMeter() as meter:
        model = split_model(task, task.model(), source, chosen)
        with Session(model, None, source, base, devices, settings) as session:
            meter.follow(session.updater.params, session.updater.optimizer)
            trainer = Trainer(session, LossDoor(task), None)
            for batch in session.steps():
                trainer._pass(batch)
                if session.at_window_end and session.last.number == 1:
                    meter.reset_peak()
    return {
        "peak": meter.peak_bytes,
        "state": sum(meter.at_step[kind] for kind in STATE),
        "step": meter.at_step,
    }


@cache
def one_process() -> dict[str, Any]:
    """The whole batch in one micro-batch."""
    return measured("", 1)


def test_two_stages_hold_less_than_half_of_what_one_process_does(ranks):
    found = ranks(2, measured, "pp=2,schedule=1f1b", 8)
    assert max(stage["peak"] for stage in found) <= 0.5 * one_process()["peak"]
    # the first stage holds two micro-batches under way, the last one holds one
    assert found[0]["peak"] > found[1]["peak"]


def test_two_shards_hold_half_of_the_state_each(ranks):
    for shard in ranks(2, measured, "fsdp=2", 1):
        assert shard["state"] == pytest.approx(0.5 * one_process()["state"], rel=0.04)
        assert (
            shard["step"]["other"] < 0.1 * shard["state"]
        )  # the data; gathered parameters would be half of it
