"""Stopped and resumed on N ranks: bit for bit the undisturbed run; on another number of ranks: every sample once."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from hemostat.errors import HemostatError, HemostatWarning
from hemostat.recipe import Base
from hemostat.track import load_run
from hemostat.train import Session, TrainSettings
from hemostat.train.control import Stop
from hemostat.train.parallel import dp


def make_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 33),
        torch.nn.BatchNorm1d(33),
        torch.nn.Dropout(0.2),
        torch.nn.Tanh(),
        torch.nn.Linear(33, 17),
        torch.nn.Linear(17, 1),
    )


def make_data() -> TensorDataset:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(104, 6, generator=generator)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def attempt(folder: str, stop_at: int | None, resume: bool) -> dict[str, object]:
    os.chdir(folder)
    settings = TrainSettings(resume="last" if resume else None)
    base = Base(optimizer="adamw", lr=0.01, tuned_batch=24, epochs=3, clip_norm=1.0)
    steps, order = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        with Session(make_model(), None, make_data(), base, settings=settings) as session:
            for inputs, targets in session.steps():
                order.append((session.last.samples if session.last else 0, inputs[:, 0].tolist()))
                session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
                steps.append(session.last)
                if session.last.number == stop_at:
                    session.stop = Stop("SIGTERM", 75)
    weights = [value.clone() for value in dp.unwrap(session.model).state_dict().values()]
    return {"steps": steps, "weights": weights, "order": order}


def in_turn(tmp_path: Path, name: str) -> str:
    (tmp_path / name).mkdir(exist_ok=True)
    return str(tmp_path / name)


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
@pytest.mark.parametrize("stop_at", [1, 7])
def test_a_resumed_run_is_bitwise_the_undisturbed_one(ranks, tmp_path, num_ranks, stop_at):
    """T017, T089, T093, T097."""
    whole = ranks(num_ranks, attempt, in_turn(tmp_path, "whole"), None, False)
    first = ranks(num_ranks, attempt, in_turn(tmp_path, "cut"), stop_at, False)
    second = ranks(num_ranks, attempt, in_turn(tmp_path, "cut"), None, True)
    for rank in range(num_ranks):
        assert first[rank]["steps"] + second[rank]["steps"] == whole[rank]["steps"]
        pairs = zip(whole[rank]["weights"], second[rank]["weights"], strict=True)
        assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1), (1, 4)])
def test_on_other_ranks_every_sample_comes_once_and_rates_are_the_same(ranks, tmp_path, before, after):
    """T001, T002, T082, T091, T098, T099."""
    folder = in_turn(tmp_path, "run")
    whole = ranks(1, attempt, in_turn(tmp_path, "whole"), None, False)[0]
    first = ranks(before, attempt, folder, 4, False)
    second = ranks(after, attempt, folder, None, True)
    steps = first[0]["steps"] + second[0]["steps"]
    assert [(s.number, s.samples, s.lr) for s in steps] == [
        (s.number, s.samples, s.lr) for s in whole["steps"]
    ]
    seen = [value for part in (first, second) for _, value in in_order(part)]
    assert seen == [value for _, values in whole["order"] for value in values]
    metrics = load_run(Path(folder) / ".hemostat" / "runs").metrics("loss")
    assert [step for step, _, _ in metrics] == list(range(1, 16))


def in_order(part: list[dict[str, object]]) -> list[tuple[int, float]]:
    """The samples of all ranks in the order of the global batches."""
    joined = []
    for windows in zip(*(rank["order"] for rank in part), strict=True):
        joined += [(at, value) for at, values in windows for value in values]
    return joined


def buckets(num_steps: int) -> list[list[int]]:
    """Sizes of the buckets of each step of a DDP model whose gradients come in an unusual order."""
    torch.manual_seed(0)
    layers = torch.nn.ModuleDict({name: torch.nn.Linear(8, 8) for name in "abcd"})

    class Crossed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for name in "dbca":
                x = torch.tanh(self.layers[name](x))
            return x

    seen: list[list[int]] = []

    def hook(_: object, bucket):  # type: ignore[no-untyped-def]
        seen[-1] += [id(param) for param in bucket.parameters()]
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])

    model = torch.nn.parallel.DistributedDataParallel(Crossed(), bucket_cap_mb=0.0001)
    model.register_comm_hook(None, hook)
    seen.append([])
    dp.settle(model)
    for _ in range(num_steps):
        seen.append([])
        model(torch.randn(4, 8)).sum().backward()
    numbers = {id(param): number for number, param in enumerate(model.module.parameters())}
    return [[numbers[param] for param in step] for step in seen[1:]]


def test_buckets_do_not_change_after_they_were_settled(ranks):
    for steps in ranks(2, buckets, 4):
        assert len(steps[0]) == 8
        assert all(step == steps[0] for step in steps)


def halves(folder: str, stop_at: int | None, resume: bool) -> tuple[list[object], float]:
    os.chdir(folder)
    settings = TrainSettings(resume="last" if resume else None, precision="fp16")
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=24, epochs=2)
    steps = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        with Session(torch.nn.Linear(6, 1), None, make_data(), base, settings=settings) as session:
            session.precision.scaler._growth_interval = 3
            for inputs, targets in session.steps():
                loss = ((session.model(inputs) - targets) ** 2).sum()
                if session.loader.feed.rank == 1 and len(steps) + 7 * resume == 5:
                    loss = loss * float("inf")
                session.backward(loss, count=len(inputs))
                steps.append((*session.last, session.precision.loss_scale))
                if session.last.number == stop_at:
                    session.stop = Stop("SIGTERM", 75)
    return steps, session.precision.loss_scale


def test_the_loss_scale_takes_the_same_path_after_a_resume(ranks, tmp_path):
    """T039."""
    whole = ranks(2, halves, in_turn(tmp_path, "whole"), None, False)[0]
    first = ranks(2, halves, in_turn(tmp_path, "cut"), 7, False)[0]
    second = ranks(2, halves, in_turn(tmp_path, "cut"), None, True)[0]
    assert repr(first[0] + second[0]) == repr(whole[0])  # a skipped step has a NaN
    assert len({step[-1] for step in whole[0]}) == 2  # it grew, and was halved after the infinity
    assert [step[5] for step in whole[0]].count(False) == 1


def refused(folder: str) -> str:
    os.chdir(folder)
    try:
        attempt(folder, None, True)
    except (HemostatError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "went on"


def test_one_rank_that_cannot_go_on_stops_all_whatever_it_raised(ranks, tmp_path):
    folder = in_turn(tmp_path, "run")
    ranks(2, attempt, folder, 4, False)
    (own,) = Path(folder).glob(".hemostat/runs/*/checkpoints/*4/rank.1.json")
    values = json.loads(own.read_text())
    values["rng"]["python"] = [1]  # its keys are right, and nobody looks further
    own.write_text(json.dumps(values))
    manifest = own.with_name("manifest.json")
    fields = json.loads(manifest.read_text())  # whole as bytes, and nonsense
    digest = hashlib.sha256(own.read_bytes()).hexdigest()
    fields["files"][own.name] = {"num_bytes": own.stat().st_size, "sha256": digest}
    manifest.write_text(json.dumps(fields))
    first, second = ranks(2, refused, folder)
    assert first.startswith("RecordError: another rank could not go on from") and "ValueError" in first
    assert second.startswith("ValueError: ")
