"""What holds under data parallelism holds under every layout: precision, skips, stops, and what must be alike."""

from __future__ import annotations

import pytest
import torch
from test_layouts import Words
from torch import nn

from hemostat.data import Source
from hemostat.errors import HemostatError
from hemostat.plan import Layout
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor
from hemostat.train import Session, TrainSettings
from hemostat.train.loop import Trainer
from hemostat.train.parallel.sharded import local
from hemostat.train.split_model import split_model

TWO = ["fsdp=2", "tp=2", "pp=2"]


class Odd(Words):
    """Words with a fault.

    `fault`: "samples" (each rank reads its own), "weights" (rank 1 builds another model), or "" for none.
    """

    fault: str = ""

    def model(self) -> torch.nn.Module:
        model = super().model().float()
        if self.fault == "weights" and torch.distributed.get_rank() == 1:
            with torch.no_grad():
                model.blocks[2].up.weight[0, 0] += 1e-3
        return model

    def train_data(self):
        data = super().train_data()
        if self.fault == "samples":
            data.tensors[0].add_(torch.distributed.get_rank()).remainder_(67)
        return data


def opened(
    layout: str, fault: str = "", precision: str = "fp32", num_samples: int = 96
) -> tuple[Session, Trainer]:
    task = Odd(fault=fault)
    settings = TrainSettings(record=False, layout=Layout.read(layout), precision=precision)
    source = Source(task.train_data(), "train_data")
    model = split_model(task, task.model(), source, settings.layout)
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=16, total_samples=num_samples)
    session = Session(model, None, source, base, Devices(global_batch=16, accumulation=2), settings)
    return session, Trainer(session, LossDoor(task), None)


def told(layout: str, fault: str) -> str:
    """What this rank raises."""
    try:
        session, trainer = opened(layout, fault)
        with session:
            for batch in session.steps():
                trainer._pass(batch)
    except HemostatError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("layout", ["tp=2", "pp=2"])
def test_ranks_that_read_other_samples_are_told_so_on_all_ranks(ranks, layout):
    """T068."""
    said = ranks(2, told, layout, "samples")
    assert said[0] == said[1]
    assert "ranks 0 and 1 share each sample" in said[0]


@pytest.mark.parametrize("layout", TWO)
def test_a_model_built_otherwise_on_one_rank_is_refused_on_all_ranks(ranks, layout):
    said = ranks(2, told, layout, "weights")
    assert said[0] == said[1]
    assert "another parameter blocks.2.up.weight on rank 1" in said[0]


def with_infinity(layout: str, name: str, precision: str) -> list[tuple[bool, float]]:
    """Whether each step was applied and the scale after it; at the second one a gradient on rank 0 is infinite."""
    session, trainer = opened(layout, precision=precision)
    seen = []
    apply = session.updater.apply

    def spoilt(*args, **kwargs):
        if session.last is not None and session.last.number == 1 and session.world.rank == 0:
            local(dict(session.parts.model.named_parameters())[name].grad).mul_(float("inf"))
        return apply(*args, **kwargs)

    session.updater.apply = spoilt
    with session:
        for batch in session.steps():
            trainer._pass(batch)
            if session.at_window_end:
                seen.append((session.last.applied, session.precision.loss_scale))
    return seen


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("layout", ["pp=2", "fsdp=2", "tp=2"])
def test_an_infinite_gradient_in_one_place_skips_the_step_everywhere(ranks, layout, precision):
    """T037, T039: of a pipeline, the other stage sees none of it."""
    first, second = ranks(2, with_infinity, layout, "blocks.0.up.weight", precision)
    assert first == second
    assert [applied for applied, _ in first] == [True, False, True, True, True, True]
    if precision == "fp16":
        assert first[1][1] == first[0][1] / 2


def losses(layout: str, precision: str) -> list[float]:
    session, trainer = opened(layout, precision=precision)
    seen = []
    with session:
        for batch in session.steps():
            trainer._pass(batch)
            if session.at_window_end:
                seen.append(session.last.loss)
    return seen


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("layout", TWO)
def test_low_precision_trains_as_it_does_under_data_parallelism(ranks, layout, precision):
    plain = ranks(2, losses, "dp=2", precision)[0]
    found = ranks(2, losses, layout, precision)
    assert found[0] == found[1]
    assert found[0] == pytest.approx(plain, rel=2e-2)


def interrupted(layout: str) -> tuple[int, str]:
    """A signal comes to rank 1 only, in the third window."""
    session, trainer = opened(layout)
    with session:
        for batch in session.steps():
            if session.last is not None and session.last.number == 2 and session.world.rank == 1:
                session.control.interrupt.name = "SIGTERM"
            trainer._pass(batch)
    return session.last.number, session.stop.reason if session.stop else ""


@pytest.mark.parametrize("layout", TWO)
def test_a_signal_on_one_rank_ends_the_run_on_all_of_them_after_the_same_step(ranks, layout):
    first, second = ranks(2, interrupted, layout)
    assert first[0] == second[0] == 3
    assert first[1] and second[1]


def test_a_layout_of_another_number_of_processes_is_refused_on_all_ranks(ranks):
    said = ranks(2, told, "fsdp=4", "")
    assert said[0] == said[1]
    assert "makes 4 processes" in said[0] and "there are 2" in said[0]


def test_more_stages_than_blocks_are_refused_on_all_ranks(ranks):
    said = ranks(2, told, "pp=2,schedule=interleaved,stages_per_rank=4", "")
    assert said[0] == said[1]
    assert "8" in said[0] and "4" in said[0] and "block" in said[0]


class Joined(Odd):
    """Its figures are objects of torchmetrics."""

    def metrics(self, output, target):
        import torchmetrics

        if not hasattr(Joined, "kept"):
            Joined.kept = torchmetrics.MeanMetric()
        Joined.kept.update = lambda output, target: None
        return {"mean": Joined.kept}


def judged(layout: str) -> str:
    session, _ = opened(layout)
    trainer = Trainer(session, LossDoor(Joined()), None)
    try:
        with session:
            session.evaluate(Source(Joined().val_data(), "val_data"), trainer._measure)
    except HemostatError as error:
        return str(error)
    return ""


def test_objects_that_join_the_ranks_by_themselves_are_refused_where_ranks_share_samples(ranks):
    pytest.importorskip("torchmetrics")
    assert all("layout tp=2" in said for said in ranks(2, judged, "tp=2"))


def noise(layout: str) -> dict[str, float]:
    session, trainer = opened(layout, num_samples=400)
    with session:
        for batch in session.steps():
            trainer._pass(batch)
    return session.noise.state()


def test_the_noise_scale_is_that_of_one_process_under_tp_and_none_where_parts_are_not_seen(ranks):
    alone = noise("dp=1")
    assert alone["num_updates"] == 25
    for state in ranks(2, noise, "tp=2"):
        assert state == pytest.approx(alone, rel=1e-2)
    assert all(state["num_updates"] == 0 for state in ranks(2, noise, "fsdp=2") + ranks(2, noise, "pp=2"))


class Forking(nn.Module):
    """Which of two branches is taken depends on the samples, and so on the rank."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.left(x) if x.sum() > 0 else self.right(x)


def forked() -> str:
    torch.manual_seed(0)
    signs = torch.ones(16, 4) * torch.tensor([1.0, -1.0]).repeat(8)[:, None]
    data = torch.utils.data.TensorDataset(signs, torch.zeros(16, 1))
    settings = TrainSettings(record=False, layout=Layout(fsdp=2), self_check=False)
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=2, epochs=4)
    try:
        with Session(Forking(), None, data, base, settings=settings) as session:
            for x, y in session.steps():
                session.backward(((session.model(x) - y) ** 2).sum(), count=len(x))
    except HemostatError as error:
        return str(error)
    return ""


def test_ranks_that_took_different_branches_are_told_so_before_an_update(ranks):
    said = ranks(2, forked)
    assert said[0] == said[1]
    assert "gradients for different parameters" in said[0]


def looped(layout: str) -> str:
    """A plain loop over a session."""
    settings = TrainSettings(record=False, layout=Layout.read(layout))
    torch.manual_seed(0)
    model, data = (
        nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)),
        torch.utils.data.TensorDataset(torch.ones(8, 4)),
    )
    try:
        with Session(model, None, data, Base(lr=0.1, tuned_batch=4, epochs=1), settings=settings) as session:
            for (x,) in session.steps():
                session.backward(torch.ones((), requires_grad=True) * x.sum(), count=len(x))
    except HemostatError as error:
        return str(error)
    return ""


def test_a_loop_of_ones_own_is_refused_under_stages(ranks):
    said = ranks(2, looped, "pp=2")
    assert said[0] == said[1]
    assert "has no place under pp=2" in said[0]


def frozen() -> str:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    model[0].requires_grad_(False)
    settings = TrainSettings(record=False, layout=Layout(pp=2))
    data = torch.utils.data.TensorDataset(torch.ones(8, 4))
    try:
        Session(model, None, data, Base(lr=0.1, tuned_batch=4, epochs=1), settings=settings)
    except HemostatError as error:
        return str(error)
    return ""


def test_a_rank_with_nothing_to_train_is_refused_on_all_ranks(ranks):
    said = ranks(2, frozen)
    assert said[0] == said[1]
    assert "pipeline rank 0 gets no parameter that requires a gradient" in said[0]


def gathered(layout: str, precision: str) -> tuple[set[str], set[str]]:
    """Dtypes of the parameters as a block computes with them, and as this rank keeps them."""
    session, trainer = opened(layout, precision=precision)
    seen: set[str] = set()

    def look(module, inputs):
        seen.update(str(param.dtype) for param in module.parameters())

    session.parts.model.blocks[0].register_forward_pre_hook(look)
    with session:
        for batch in session.steps():
            trainer._pass(batch)
            break
        kept = {str(param.dtype) for param in session.parts.model.parameters()}
    return seen, kept


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
def test_shards_are_rounded_before_they_are_gathered_and_kept_in_float32(ranks, precision):
    dtype = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}[precision]
    for seen, kept in ranks(2, gathered, "fsdp=2", precision):
        assert seen == {dtype}
        assert kept == {"torch.float32"}
