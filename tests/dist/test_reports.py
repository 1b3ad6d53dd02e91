"""Public bug reports that take several ranks to show: each with what is right here."""

from __future__ import annotations

import os
import random
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import Dataset, TensorDataset

from hemostat.data import Feed, Order, Source, TrainLoader, Workers
from hemostat.errors import HemostatWarning
from hemostat.recipe import Base, Devices
from hemostat.track import Checkpoints, RunRecord
from hemostat.train import Session, TrainSettings, record
from hemostat.train.control import Stop
from hemostat.train.tensor_files import tensor_shapes
from hemostat.train.weights import read_weights

QUIET = TrainSettings(record=False)


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def rows(num: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(num, 4, generator=torch.Generator().manual_seed(5), dtype=dtype)
    return inputs, inputs.sum(1, keepdim=True)


def make_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 1)).double()


def square_sum(model: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return ((model(batch[0]) - batch[1]) ** 2).sum()


def on_a_plateau() -> tuple[list[float], int]:
    """The metric is flat from the first evaluation on; one evaluation a step."""
    base = Base(
        optimizer="sgd",
        lr=0.08,
        tuned_batch=8,
        epochs=4,
        schedule="constant",
        warmup_steps=0,
        plateau_patience=2,
    )
    rates = []
    with Session(make_model(), None, TensorDataset(*rows(16)), base, settings=QUIET) as session:
        for batch in session.steps():
            session.backward(square_sum(session.model, batch), count=len(batch[0]))
            session.judge(1.0)
            rates.append(session.updater.optimizer.param_groups[0]["lr"])
        return rates, session.stopper.state()["bad_evals"]


def test_one_plateau_update_an_evaluation_and_one_rate_on_all_ranks(ranks):
    """T005, T046: the best at the first, three flat ones, and the rate is cut for the step behind them."""
    alone = ranks(1, on_a_plateau)[0]
    assert alone[0] == [0.08] * 4 + [0.04] * 3 + [0.02]
    assert ranks(2, on_a_plateau) == [alone, alone]


def first_step(accumulation: int) -> list[torch.Tensor]:
    base = Base(optimizer="sgd", lr=1.0, tuned_batch=8, epochs=20, warmup_steps=10)
    torch.manual_seed(3)
    model = torch.nn.Linear(4, 1).double()
    before = [param.detach().clone() for param in model.parameters()]
    data = TensorDataset(*rows(16))
    with Session(model, None, data, base, Devices(accumulation=accumulation), QUIET) as session:
        for batch in session.steps():
            session.backward(square_sum(session.model, batch), count=len(batch[0]))
            if session.last is not None:
                break
        rate = session.recipe.schedule.lr(0)
    moved = [(a - b).detach() for a, b in zip(before, model.parameters(), strict=True)]
    return [rate, *moved]


def test_the_first_update_is_made_at_the_rate_of_the_warm_up(ranks):
    """T013: |change of w| is warm-up rate times gradient, in closed form."""
    inputs, targets = rows(16)
    shown = Order(16, seed=0).indices(0, 0, 8)
    torch.manual_seed(3)
    model = torch.nn.Linear(4, 1).double()
    loss = ((model(inputs[shown]) - targets[shown]) ** 2).mean()
    grads = torch.autograd.grad(loss, list(model.parameters()))
    for num_ranks, accumulation in ((1, 1), (2, 2)):
        for rate, *moved in ranks(num_ranks, first_step, accumulation):
            assert 0 < rate <= 0.2  # far from the peak of 1
            for change, grad in zip(moved, grads, strict=True):
                torch.testing.assert_close(change, rate * grad, rtol=0, atol=1e-14)


def partly_valid() -> list[torch.Tensor]:
    """One sample in three has no valid item; under small batches a rank may have none at all."""
    inputs, targets = rows(24)
    valid = (torch.arange(24) % 3 == 0).double() * (torch.arange(24) > 11)
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=4, epochs=3, schedule="constant", warmup_steps=0)
    torch.manual_seed(3)
    model = torch.nn.Linear(4, 1).double()
    data = TensorDataset(inputs, targets, valid)
    with Session(model, None, data, base, settings=QUIET) as session:
        empty = 0
        for inputs, targets, valid in session.steps():
            loss = (((session.model(inputs) - targets) ** 2).squeeze(1) * valid).sum()
            empty += not valid.any()
            session.backward(loss, count=valid.sum())
    return [torch.tensor([empty, session.skipped_steps]), *(param.detach() for param in model.parameters())]


def test_ranks_without_a_valid_item_leave_the_pooled_gradient_as_it_is(ranks):
    """T078."""
    alone = ranks(1, partly_valid)[0]
    for num_ranks in (2, 4):
        for empty, *weights in ranks(num_ranks, partly_valid):
            assert empty[0] > 0 and empty[1] == alone[0][1]  # a window without any is skipped by all
            for mine, whole in zip(weights, alone[1:], strict=True):
                torch.testing.assert_close(mine, whole, rtol=0, atol=1e-13)


def uneven(num_samples: int) -> tuple[list[int], list[int], int, list[float]]:
    """Steps at which it was judged, positions, micro-batches of this rank, and the rows that it has read."""
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=8, epochs=2)
    data = TensorDataset(torch.arange(float(num_samples)).unsqueeze(1))
    judged, positions, seen, num = [], [], [], 0
    with Session(torch.nn.Linear(1, 1), None, data, base, Devices(accumulation=4), QUIET) as session:
        for (inputs,) in session.steps():
            num += 1
            seen += inputs[:, 0].tolist() if session.batch.num_samples else []
            session.backward(session.model(inputs).sum(), count=len(inputs))
            if session.at_window_end:
                positions.append(session.last.samples)
                if session.last.number % 2 == 0:
                    session.evaluate(data, lambda model, batch: {"sum": (batch[0].sum(), len(batch[0]))})
                    judged.append(session.last.number)
    return judged, positions, num, seen


@pytest.mark.parametrize("num_samples", [15, 9])
def test_ranks_with_unlike_shares_take_the_same_steps_and_are_judged_together(ranks, num_samples):
    """T069, T070: the data do not go into the ranks, the window or the micro-batches."""
    answers = ranks(2, uneven, num_samples)
    assert answers[0][:2] == answers[1][:2]
    assert answers[0][0] == [2, 4] and answers[0][1][-1] == 2 * num_samples
    both = sorted(answers[0][3] + answers[1][3])
    assert both == sorted(2 * list(map(float, range(num_samples))))  # each sample once an epoch
    assert len(answers[0][3]) != len(answers[1][3])


def opened(folder: str) -> tuple[list[str], int]:
    """Files of the run that this rank has opened to write."""
    os.chdir(folder)
    names: list[str] = []
    listening = True

    def hook(event: str, args: tuple[object, ...]) -> None:
        if listening and event == "open" and isinstance(args[0], str | os.PathLike):
            writes = (
                "w" in str(args[1] or "")
                or "a" in str(args[1] or "")
                or bool(args[2] & (os.O_WRONLY | os.O_RDWR))
            )
            if writes and ".hemostat" in str(Path(str(args[0])).resolve()):
                names.append(Path(str(args[0])).resolve().name)

    sys.addaudithook(hook)
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=8, epochs=2)
    with Session(make_model(), None, TensorDataset(*rows(32)), base) as session:
        for batch in session.steps():
            session.backward(square_sum(session.model, batch), count=len(batch[0]))
            if session.last.number == 3:
                session.save()
    listening = False
    return names, session.last.number


def test_each_file_of_a_run_has_one_writer(ranks, tmp_path):
    """T083."""
    (first, steps), (second, _) = ranks(2, opened, str(tmp_path))
    assert steps == 8
    assert {"state.json", "rank.0.json", "__0_0.distcp", "metrics.0.jsonl"} <= set(first)
    assert {"rank.1.json", "__1_0.distcp", "metrics.1.jsonl"} <= set(second)
    assert not set(first) & set(second)


def late_folders(folder: str) -> list[str]:
    """Rank 0 is a second late with every folder that it makes."""
    os.chdir(folder)
    if rank() == 0:
        begin, make = Checkpoints.begin, record.create_run
        Checkpoints.begin = lambda self, step: (time.sleep(1.0), begin(self, step))[1]
        record.create_run = lambda *words: (time.sleep(1.0), make(*words))[1]
    try:
        base = Base(optimizer="sgd", lr=0.01, tuned_batch=8, epochs=1)
        with Session(make_model(), None, TensorDataset(*rows(32)), base) as session:
            for batch in session.steps():
                session.backward(square_sum(session.model, batch), count=len(batch[0]))
    finally:
        if rank() == 0:
            Checkpoints.begin, record.create_run = begin, make
    return [path.name for path in Checkpoints(session.record.path).published()]


def test_a_folder_that_comes_late_is_waited_for(ranks, tmp_path):
    """T081."""
    assert ranks(2, late_folders, str(tmp_path)) == [["step-000000004"]] * 2


def resumed(folder: str, stop_at: int | None, blind: int | None) -> tuple[int, list[torch.Tensor]]:
    """Resume while one rank sees no checkpoint, as on a volume whose listings come late."""
    os.chdir(folder)
    look = Checkpoints.published
    if rank() == blind:
        Checkpoints.published = lambda self: []
    try:
        settings = TrainSettings(resume=None if stop_at else "last")
        base = Base(optimizer="adamw", lr=0.01, tuned_batch=8, epochs=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HemostatWarning)
            with Session(make_model(), None, TensorDataset(*rows(32)), base, settings=settings) as session:
                before = session.last.number if session.last else 0
                for batch in session.steps():
                    session.backward(square_sum(session.model, batch), count=len(batch[0]))
                    if session.last.number == stop_at:
                        session.stop = Stop("SIGTERM", 75)
    finally:
        Checkpoints.published = look
    return before, [param.detach().clone() for param in session.model.parameters()]


def test_one_rank_looks_for_the_checkpoint_and_tells_the_others(ranks, tmp_path):
    """T051, T082."""
    ranks(2, resumed, str(tmp_path), 3, None)
    (first, weights), (second, others) = ranks(2, resumed, str(tmp_path), None, 1)
    assert first == second == 3
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


def saved(folder: str, resume: bool) -> tuple[list[str], list[str], float, float]:
    """Names in the newest checkpoint, those that came back otherwise, the metric as logged and as the file has it."""
    os.chdir(folder)
    data = TensorDataset(*rows(32))
    settings = TrainSettings(resume="last" if resume else None)
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=8, epochs=2, monitor="loss")
    other: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        with Session(make_model(), None, data, base, settings=settings) as session:
            if resume:
                before = read_weights(RunRecord(session.record.path), "last").state
                now = session.parts.judged.state_dict()
                other = [name for name in now if not torch.equal(now[name], before[name])]
            for batch in session.steps():
                session.backward(square_sum(session.model, batch), count=len(batch[0]))
                if session.last.number == 4 and not resume:
                    session.stop = Stop("SIGTERM", 75)
            logged = session.evaluate(
                data, lambda model, batch: {"loss": (square_sum(model, batch), len(batch[0]))}
            )
    path = Checkpoints(session.record.path).published()[-1]
    fresh = make_model()
    fresh.load_state_dict(read_weights(RunRecord(session.record.path), "last").state)
    fresh.eval()
    with torch.no_grad():
        again = float(square_sum(fresh, data.tensors)) / len(data)
    names = [name.removeprefix("model/") for name in tensor_shapes(path) if name.startswith("model/")]
    return sorted(names), other, logged["loss"], again


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_weights_go_to_another_number_of_ranks_under_their_own_names(ranks, tmp_path, before, after):
    """T062, T085: no name has a wrapper's prefix, every byte comes back, and the file is judged as the run was."""
    for num_ranks, resume in ((before, False), (after, True)):
        for names, other, logged, again in ranks(num_ranks, saved, str(tmp_path), resume):
            assert names == sorted(make_model().state_dict())
            assert not other
            assert again == pytest.approx(logged, rel=1e-12)


class Draws(Dataset):
    """Each sample draws from the three generators of its process."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(
            [random.random(), float(np.random.rand()), float(torch.rand(()).double())]
        ).double()


def test_two_workers_on_each_of_two_ranks_draw_apart_and_again_the_same():
    """T065."""

    def drawn() -> list[float]:
        found: list[float] = []
        for own in range(2):
            feed = Feed(seed=3, global_batch=8, total_samples=96, rank=own, num_ranks=2)
            workers = Workers(mode="processes", num=2)
            loader = TrainLoader(Source(Draws(), "train_data"), feed, workers=workers)
            for micro in loader:
                found += micro.data.flatten().tolist()
            loader.close()
        return found

    first = drawn()
    assert len(first) == 3 * 96
    assert len({round(value, 6) for value in first}) == len(first)
    assert drawn() == first
