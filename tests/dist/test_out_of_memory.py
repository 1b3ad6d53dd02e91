"""Memory runs out on some rank, anywhere in a window: all ranks go on in lockstep with half the micro-batch."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from hemostat.data import Source
from hemostat.errors import EnvironmentFailure, HemostatWarning
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor, Task
from hemostat.train import Session, TrainSettings, prepare
from hemostat.train.loop import Trainer

SETTINGS = TrainSettings(record=False, precision="fp32")
SHARE = 12


class Gate(torch.autograd.Function):
    """Lets tensors pass; its backward refuses memory when the plan says so."""

    @staticmethod
    def forward(ctx, inputs, plan):  # type: ignore[no-untyped-def]
        ctx.plan = plan
        return inputs.clone()

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        ctx.plan.meet("backward")
        return grad, None


class Plan:
    """Refuses memory once: on a rank, in forward or backward of the n-th micro-batch that this rank computes."""

    def __init__(self, on_rank: int, where: str, at_pass: int) -> None:
        self.mine = on_rank == (dist.get_rank() if dist.is_initialized() else 0)
        self.where, self.at_pass = where, at_pass
        self.num_passes = 0
        self.refused = 0

    def meet(self, where: str) -> None:
        if where == "forward":
            self.num_passes += 1
        if self.mine and where == self.where and self.num_passes == self.at_pass and not self.refused:
            self.refused += 1
            raise torch.OutOfMemoryError("injected")


class Net(torch.nn.Module):
    """Three layers, each larger than a bucket below, with running statistics and the gate in the middle."""

    def __init__(self, plan: Plan | None, *, unused: bool = False) -> None:
        super().__init__()
        self.first = torch.nn.Linear(5, 9)
        self.middle = torch.nn.Linear(9, 7)
        self.last = torch.nn.Linear(7, 3)
        self.spare = torch.nn.Linear(2, 2) if unused else None
        self.register_buffer("seen", torch.zeros(1))
        self.plan = plan
        self.double()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen += len(inputs)
        hidden = torch.tanh(self.first(inputs))
        if self.plan is not None and self.training:
            self.plan.meet("forward")
            hidden = Gate.apply(hidden, self.plan)
        return self.last(torch.tanh(self.middle(hidden)))


def make_data(num_samples: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(num_samples, 5, generator=generator, dtype=torch.float64)
    return TensorDataset(inputs, torch.randint(0, 3, (num_samples,), generator=generator))


def trained(
    plan: tuple[int, str, int] | None, accumulation: int, *, unused: bool = False
) -> dict[str, object]:
    """Two epochs of 2 full windows and a ragged one, with buckets so small that there are several."""
    num_ranks = dist.get_world_size() if dist.is_initialized() else 1
    base = Base(optimizer="adamw", lr=0.05, tuned_batch=SHARE * num_ranks, epochs=2, clip_norm=0.7)
    devices = Devices(accumulation=accumulation)
    torch.manual_seed(3)
    mine = Plan(*plan) if plan else None
    order, steps, buckets = [], [], 0
    with warnings.catch_warnings(), small_buckets():
        warnings.simplefilter("ignore", HemostatWarning)
        model, data = Net(mine, unused=unused), make_data(30 * num_ranks - 1)
        with Session(model, None, data, base, devices, SETTINGS) as session:
            if unused:
                session.wrap(session.model, find_unused=True)
            buckets = len(session.bucket_sizes)
            rows: list[float] = []
            for inputs, targets in session.steps():
                before = session.last
                with session.back_off.guard():
                    loss = torch.nn.functional.cross_entropy(session.model(inputs), targets, reduction="sum")
                    session.backward(loss, count=len(inputs))
                rows += inputs[:, 0].tolist()
                if session.last is not before:
                    steps.append(session.last)
                    order += rows
                if session.at_window_end or not session.window_loss._losses:  # applied, or given up
                    rows = []
    return {
        "weights": [param.detach().clone() for param in model.parameters()],
        "seen": model.seen.item(),
        "steps": [(s.number, s.samples, s.loss, s.lr, s.grad_norm) for s in steps],
        "order": order,
        "cut": (session.recipe.micro_batch, session.recipe.accumulation, session.recipe.global_batch),
        "findings": [(found.code, found.message) for found in session.outcome.findings],
        "refused": mine.refused if mine else 0,
        "buckets": buckets,
    }


@contextmanager
def small_buckets():
    """DDP cuts the gradients into many buckets; the processes of the pool are left as they were."""
    ddp = torch.nn.parallel.DistributedDataParallel
    init = ddp.__init__

    def small(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        init(self, *args, **kwargs, bucket_cap_mb=0.0001)

    ddp.__init__ = small
    try:
        yield
    finally:
        ddp.__init__ = init


def check_equal(num_ranks: int, results: list[dict[str, object]], expected: list[dict[str, object]]) -> None:
    for result, right in zip(results, expected, strict=True):
        assert (
            result["cut"]
            == right["cut"]
            == (SHARE // 2 if right["cut"][1] == 2 else 3, right["cut"][1], SHARE * num_ranks)
        )
        assert result["order"] == right["order"]
        assert result["seen"] == right["seen"]
        assert len(result["steps"]) == len(right["steps"]) == 6
        for seen, step in zip(result["steps"], right["steps"], strict=True):
            assert seen == pytest.approx(step, rel=1e-12, abs=1e-12)
        for seen, weight in zip(result["weights"], right["weights"], strict=True):
            torch.testing.assert_close(seen, weight, rtol=0, atol=1e-12)


PLACES = [  # accumulation at the start, and the pass of the rank at which memory runs out
    pytest.param(1, 1, id="first window"),
    pytest.param(1, 3, id="ragged window"),
    pytest.param(2, 3, id="earlier micro-batch"),
    pytest.param(2, 4, id="last micro-batch"),
]


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize(("accumulation", "at_pass"), PLACES)
def test_the_run_is_that_of_the_smaller_micro_batch(ranks, num_ranks, where, accumulation, at_pass):
    """T107: also in backward, where some gradients are on their way to the other ranks already."""
    on_rank = num_ranks - 1
    results = ranks(num_ranks, trained, (on_rank, where, at_pass), accumulation)
    expected = ranks(num_ranks, trained, None, 2 * accumulation)
    check_equal(num_ranks, results, expected)
    assert [result["refused"] for result in results] == [int(rank == on_rank) for rank in range(num_ranks)]
    before = SHARE // accumulation
    who = f"on all ranks after rank {on_rank}" if num_ranks > 1 else "after memory"
    for result in results:
        assert result["buckets"] == (3 if num_ranks > 1 else 0)
        step = (at_pass - 1) // accumulation + 1
        assert result["findings"] == [
            (
                "HG140",
                f"micro_batch {before} -> {before // 2} {who} ran out{' of memory' * (num_ranks > 1)} at step {step}.",
            )
        ]


def unused(plan: tuple[int, str, int] | None, accumulation: int) -> dict[str, object]:
    return trained(plan, accumulation, unused=True)


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_with_parameters_that_get_no_gradient(ranks, where):
    results, expected = ranks(2, unused, (0, where, 2), 1), ranks(2, unused, None, 2)
    check_equal(2, results, expected)


class Limited(torch.nn.Module):
    """Refuses more rows than this rank's limit while it is trained."""

    def __init__(self, limits: tuple[int, ...]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.limit = torch.nn.Linear(4, 1), limits[dist.get_rank()]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training and len(inputs) > self.limit:
            raise torch.OutOfMemoryError(f"{len(inputs)} rows")
        return self.linear(inputs)


class Squares(Task):
    def loss(self, output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, int]:
        return ((output - target) ** 2).sum(), len(target)


def rows(num: int) -> TensorDataset:
    torch.manual_seed(1)
    inputs = torch.randn(num, 4)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def followed(limits: tuple[int, ...], search: bool) -> dict[str, object]:
    """The trainer, judged after every step: each rank must come to each evaluation as often as the others."""
    settings = TrainSettings(record=False, find_micro_batch=search)
    base = Base(
        optimizer="sgd", lr=0.05, tuned_batch=48 * len(limits), epochs=2, eval_every_samples=48 * len(limits)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        with Session(Limited(limits), None, rows(96 * len(limits)), base, settings=settings) as session:
            Trainer(session, LossDoor(Squares()), Source(rows(11), "val_data")).run()
    return {
        "cut": (session.recipe.micro_batch, session.recipe.accumulation),
        "evaluations": session.outcome.num_evaluations,
        "final": session.outcome.final,
        "said": [found.message for found in session.outcome.findings],
    }


def test_the_search_finds_what_fits_on_every_rank(ranks):
    """T109: limits of 24 and 16 rows give 12, the largest half of the share of 48 that both can hold."""
    for result in ranks(2, followed, (24, 16), True):
        assert result["cut"] == (12, 4)
        assert result["said"] == []
        assert result["evaluations"] == 4


def test_unlike_limits_are_found_on_the_way_and_the_evaluations_stay_in_step(ranks):
    first, second = ranks(2, followed, (24, 16), False)
    assert first == second
    assert first["said"] == [
        "micro_batch 48 -> 24 on all ranks after ranks 0, 1 ran out of memory at step 1.",
        "micro_batch 24 -> 12 on all ranks after rank 1 ran out of memory at step 1.",
    ]
    assert first["cut"] == (12, 4)
    assert first["evaluations"] == 4
    searched = ranks(2, followed, (24, 16), True)[0]
    assert first["final"] == pytest.approx(searched["final"], rel=1e-5)


def hopeless(limits: tuple[int, ...]) -> str:
    try:
        followed(limits, False)
    except EnvironmentFailure as error:
        return str(error)
    return "no error"


def test_where_one_sample_is_too_much_all_ranks_say_so(ranks):
    for said in ranks(2, hopeless, (64, 0)):
        assert said.startswith(
            "micro_batch=1: rank 1 ran out of memory at step 1 with one sample at a time. Use"
        )


def kept_loop() -> tuple[int, int, int, list[float]]:
    """A script that keeps its loops and the model that `prepare` gave it, where backward runs out of memory."""
    torch.manual_seed(3)
    plan = Plan(1, "backward", 3)
    model = Net(plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = torch.utils.data.DataLoader(make_data(48), batch_size=24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        session, wrapped, _, batches = prepare(model, optimizer, loader, settings=SETTINGS, epochs=2)
        for _ in range(2):
            for inputs, targets in batches:
                loss = torch.nn.functional.cross_entropy(wrapped(inputs), targets, reduction="sum")
                session.backward(loss, count=len(inputs))
        session.close()
    return (
        session.last.number,
        session.last.samples,
        session.recipe.micro_batch,
        [param.sum().item() for param in model.parameters()],
    )


def test_a_script_that_holds_the_wrapped_model_goes_on_with_it(ranks):
    first, second = ranks(2, kept_loop)
    assert first == second
    assert first[:3] == (4, 96, 6)
