"""Decisions are taken once and are the same on all ranks, whichever rank has the reason."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from hemostat.errors import GuardStop, RankFailureError, TaskError
from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings
from hemostat.train.noise import NoiseMeter
from hemostat.train.process import World
from hemostat.train.self_check import self_check

SETTINGS = TrainSettings(record=False, precision="fp32", max_skips=2)


def open_session(settings: TrainSettings = SETTINGS, num_samples: int = 32, **base: object) -> Session:
    torch.manual_seed(0)
    inputs = torch.randn(num_samples, 4)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True), torch.arange(num_samples))
    hyper = {"optimizer": "sgd", "lr": 0.05, "tuned_batch": 8, "epochs": 2} | base
    return Session(torch.nn.Linear(4, 1), None, data, Base(**hyper), Devices(), settings)


def square_sum(session: Session, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return ((session.model(batch[0]) - batch[1]) ** 2).sum()


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def poisoned(step: int, on_rank: int, times: int) -> dict[str, object]:
    """A loss that is not finite on one rank, for some steps."""
    seen = 0
    with open_session() as session:
        for batch in session.steps():
            seen += 1
            loss = square_sum(session, batch)
            if rank() == on_rank and step <= seen < step + times:
                loss = loss * float("nan")
            session.backward(loss, count=len(batch[0]))
        return {
            "skipped": session.skipped_steps,
            "applied": session.applied_steps,
            "weights": [param.detach().clone() for param in session.model.parameters()],
            "found": [(finding.message, finding.evidence["samples"]) for finding in session.outcome.findings],
        }


def test_a_nan_on_one_rank_is_skipped_by_all_and_counted(ranks):
    """T074, T075, T077."""
    first, second = ranks(2, poisoned, 3, 1, 1)
    assert first["skipped"] == second["skipped"] == 1
    assert first["applied"] == second["applied"] == 7
    assert all(torch.equal(a, b) for a, b in zip(first["weights"], second["weights"], strict=True))
    assert all(torch.isfinite(weight).all() for weight in first["weights"])
    said = "step 3 was skipped on all ranks: loss not finite on rank 1 (epoch 0, samples 20 to 23)."
    assert first["found"] == second["found"] == [(said, [[20, 24]])]


def poisoned_for_good() -> str:
    try:
        poisoned(2, 1, 100)
    except GuardStop as error:
        return str(error)
    return "no guard"


def test_too_many_bad_steps_stop_all_ranks_with_one_reason(ranks):
    first, second = ranks(2, poisoned_for_good)
    assert first == second
    assert "3 steps in a row, up to step 4, there on rank 1 (epoch 0, samples 28 to 31)" in first


def nan_in_data() -> str:
    torch.manual_seed(0)
    inputs = torch.randn(32, 4)
    inputs[11] = float("nan")
    data = TensorDataset(inputs, torch.zeros(32, 1))
    base = Base(optimizer="sgd", lr=0.05, tuned_batch=8, epochs=2)
    with Session(torch.nn.Linear(4, 1), None, data, base, Devices(), SETTINGS) as session:
        try:
            for inputs, targets in session.steps():
                session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
        except TaskError as error:
            return str(error)
    return "no error"


def test_nan_in_the_data_of_one_rank_is_an_error_on_all(ranks):
    first, second = ranks(2, nan_in_data)
    assert first == second
    assert re.match(r"sample 11 of train_data \(rank [01]\) holds NaN", first)


def signalled(on_rank: int) -> tuple[int, str]:
    with open_session() as session:
        for batch in session.steps():
            if rank() == on_rank and session.last is not None and session.last.number == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            session.backward(square_sum(session, batch), count=len(batch[0]))
        return session.last.number, session.stop_reason


def test_a_signal_to_one_rank_stops_all_at_the_same_step(ranks):
    (first_step, first_why), (second_step, second_why) = ranks(2, signalled, 1)
    assert first_step == second_step == 4
    assert first_why == second_why and first_why.startswith("SIGTERM at ")


def judged(patience: int) -> tuple[int, str, float]:
    """Rank 0's own metric improves, rank 1's does not; the pooled one is flat."""
    with open_session(patience=patience, epochs=20, schedule="constant") as session:
        for number, batch in enumerate(session.steps(), start=1):
            session.backward(square_sum(session, batch), count=len(batch[0]))
            own = 1.0 - number / 100 if rank() == 0 else 1.0 + number / 100
            pooled = session.world.sum([own])[0] / session.world.num_ranks
            session.judge(pooled)
        return session.last.number, session.stop_reason, session.stopper.best


def test_early_stop_is_decided_once_from_the_pooled_metric(ranks):
    """T041, T043, T045: one number for all, and a stopper of each rank that has seen the same."""
    first, second = ranks(2, judged, 4)
    assert first == second
    assert "no improvement" in first[1]


def reductions(accumulation: int) -> tuple[int, int]:
    """All-reduces of gradients seen by a DDP comm hook, and optimizer steps."""
    calls = 0
    hook = NoiseMeter._hook

    def counted(meter, state, bucket):
        nonlocal calls
        calls += 1
        return hook(meter, state, bucket)

    NoiseMeter._hook = counted
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=16, epochs=2)
    with Session(
        torch.nn.Linear(4, 1), None, data, base, Devices(accumulation=accumulation), SETTINGS
    ) as session:
        calls = 0  # the one that settled the buckets is no step
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
        NoiseMeter._hook = hook
        return calls, session.applied_steps


def test_gradients_are_reduced_once_a_step_however_many_micro_batches(ranks):
    """T023."""
    for accumulation in (1, 4):
        for calls, steps in ranks(2, reductions, accumulation):
            assert calls == steps == 4


def checked(kind: str) -> str:
    with open_session() as session:

        def right(model: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, int]:
            return ((model(batch[0]) - batch[1]) ** 2).sum(), len(batch[0])

        def mean_of_means(
            model: torch.nn.Module, batch: tuple[torch.Tensor, ...]
        ) -> tuple[torch.Tensor, int]:
            return right(model, batch)[0] / len(batch[0]), 1

        def times_ranks(model: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, int]:
            wrapped = isinstance(model, torch.nn.parallel.DistributedDataParallel)
            return right(model, batch)[0] * (2.0 if wrapped else 1.0), len(batch[0])

        try:
            found = self_check(session, locals()[kind])
        except GuardStop as error:
            return str(error)
        assert all(param.grad is None for param in session.model.parameters())
        return f"ratio {found.ratio:.6f}"


def test_the_self_check_passes_a_right_loss_and_names_a_wrong_one(ranks):
    """T019, T029, T030."""
    assert ranks(2, checked, "right") == ["ratio 1.000000"] * 2
    for said in ranks(2, checked, "mean_of_means"):
        assert "self-check" in said
    for said in ranks(2, checked, "times_ranks"):
        assert "2 times that of one" in said


def unused_branch() -> tuple[tuple[str, ...], int]:
    class Branchy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = torch.nn.Linear(4, 1)
            self.dead = torch.nn.Linear(4, 1)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.used(inputs)

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=8, epochs=1)
    with Session(Branchy(), None, data, base, Devices(), SETTINGS) as session:
        found = self_check(
            session, lambda model, batch: (((model(batch[0]) - batch[1]) ** 2).sum(), len(batch[0]))
        )
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
        return found.unused, session.applied_steps


def test_parameters_without_gradient_are_named_and_the_run_goes_on(ranks):
    """T103."""
    for unused, steps in ranks(2, unused_branch):
        assert unused == ("dead.weight", "dead.bias")
        assert steps == 4


def overflowed() -> tuple[int, int, float, list[float]]:
    """fp16: an infinite gradient on rank 1 only (T018, T037, T038)."""
    settings = TrainSettings(record=False, precision="fp16")
    lrs = []
    with open_session(settings, warmup_steps=3) as session:
        for number, batch in enumerate(session.steps(), start=1):
            loss = square_sum(session, batch)
            if rank() == 1 and number == 2:
                loss = loss * float("inf")
            session.backward(loss.float(), count=len(batch[0]))
            lrs.append(session.last.lr)
        return session.skipped_steps, session.applied_steps, session.precision.scaler.get_scale(), lrs


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_fp16_overflow_on_one_rank_is_skipped_by_all_and_holds_the_schedule(ranks):
    first, second = ranks(2, overflowed)
    assert first == second
    skipped, applied, scale, lrs = first
    assert (skipped, applied, scale) == (1, 7, 32768.0)
    assert lrs[2] == lrs[1]  # the rate of the skipped step is used by the next one


def barrier_without_rank_one() -> str:
    world = World.from_environment("cpu")
    if world.rank == 1:
        time.sleep(3.0)
        return ""
    try:
        world.barrier(1.0)
    except RankFailureError as error:
        return str(error)
    return "nobody was missed"


def test_a_barrier_names_who_is_missing(ranks):
    """T101."""
    assert ranks(2, barrier_without_rank_one)[0] == "rank 0 waited 1 s, but rank 1 did not come"


def unlike_sizes() -> str:
    try:
        open_session(num_samples=32 + rank())
    except TaskError as error:
        return str(error)
    return "no error"


def test_data_of_unlike_sizes_are_refused_on_all_ranks(ranks):
    assert all("another number elsewhere" in said for said in ranks(2, unlike_sizes))


def few_rows() -> dict[str, float]:
    with open_session() as session:
        for batch in session.steps():
            session.backward(square_sum(session, batch), count=len(batch[0]))
        one_row = TensorDataset(torch.full((1, 4), 2.0))
        return session.evaluate(one_row, lambda model, batch: {"sum": (batch[0].sum(), 1)})


def test_fewer_validation_rows_than_ranks(ranks):
    """T055, T061."""
    assert ranks(3, few_rows) == [{"sum": 8.0}] * 3


def other_names() -> str:
    with open_session() as session:
        for batch in session.steps():
            session.backward(square_sum(session, batch), count=len(batch[0]))
        rows = TensorDataset(torch.zeros(4, 1))
        try:
            session.evaluate(rows, lambda model, batch: {f"on {rank()}": (1.0, 1)})
        except TaskError as error:
            return str(error)
    return "no error"


def test_metrics_whose_names_differ_by_rank_are_refused_on_all(ranks):
    assert all("Return the same names" in said for said in ranks(2, other_names))


def batch_norm() -> tuple[float, float]:
    """Running statistics differ by rank until they are averaged for an evaluation (T062)."""
    torch.manual_seed(0)
    inputs = torch.randn(32, 4)
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    data = TensorDataset(inputs, torch.zeros(32, 1))
    base = Base(optimizer="sgd", lr=0.05, tuned_batch=8)
    with Session(model, None, data, base, Devices(), SETTINGS) as session:
        for batch in session.steps():
            session.backward(square_sum(session, batch), count=len(batch[0]))
        before = model[0].running_mean.sum().item()
        session.evaluate(data, lambda model, batch: {"mean": (model(batch[0]).sum(), len(batch[0]))})
        return before, model[0].running_mean.sum().item()


def test_batch_norm_is_the_same_on_all_ranks_when_it_is_judged(ranks):
    (first_before, first), (second_before, second) = ranks(2, batch_norm)
    assert first_before != second_before
    assert first == second == pytest.approx((first_before + second_before) / 2, abs=1e-6)


def partly_empty(rank_without: int | None) -> list[tuple[float, float, int]]:
    """Every third window has no valid item on one rank."""
    steps = []
    with open_session() as session:
        for number, batch in enumerate(session.steps(), start=1):
            empty = rank() == rank_without and number % 3 == 0
            loss = square_sum(session, batch) * (0.0 if empty else 1.0)
            session.backward(loss, count=0 if empty else len(batch[0]))
            steps.append((session.last.loss, session.last.grad_norm, session.applied_steps))
    return steps


def test_a_rank_without_a_valid_item_weighs_nothing_and_stays_in_step(ranks):
    first, second = ranks(2, partly_empty, 1)
    assert first == second
    assert [applied for _, _, applied in first] == list(range(1, len(first) + 1))
    assert first != ranks(2, partly_empty, None)[0]
