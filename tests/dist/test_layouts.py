"""Every layout against one process on the same global batch: losses and weights of five steps, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torch.utils.data import TensorDataset

from hemostat.data import Source
from hemostat.plan import Layout
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor, Task
from hemostat.train import Session, TrainSettings
from hemostat.train.loop import Trainer
from hemostat.train.parallel import dp
from hemostat.train.split_model import split_model

VOCAB, POSITIONS = 67, 10  # of which neither divides by 4


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 3 * dim)
        self.down = nn.Linear(3 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, tied: bool, num_blocks: int = 4, dim: int = 12) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(num_blocks))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCAB, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Words(Task):
    tied: bool = False

    def model(self) -> nn.Module:
        torch.manual_seed(3)
        return Net(self.tied).double()

    def train_data(self) -> TensorDataset:
        generator = torch.Generator().manual_seed(5)
        return TensorDataset(*torch.randint(0, VOCAB, (2, 64, POSITIONS), generator=generator))

    def val_data(self) -> TensorDataset:
        generator = torch.Generator().manual_seed(6)
        return TensorDataset(*torch.randint(0, VOCAB, (2, 13, POSITIONS), generator=generator))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, int]:
        return functional.cross_entropy(
            output.flatten(0, 1), target.flatten(), reduction="sum"
        ), target.numel()

    def tensor_plan(self, model: nn.Module) -> dict[str, str]:
        return {
            "embedding": "vocab_in",
            "blocks.*.norm": "sequence",
            "blocks.*.up": "colwise",
            "blocks.*.down": "rowwise",
            "norm": "sequence",
            "head": "vocab_out",
        }


def own_groups(model: nn.Module) -> torch.optim.Optimizer:
    """As users write it: weight decay on matrices only, built over the whole model."""
    matrices = [param for param in model.parameters() if param.dim() > 1]
    others = [param for param in model.parameters() if param.dim() <= 1]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.3}, {"params": others, "weight_decay": 0.0}], lr=0.01
    )


def trained(layout: str, values: dict, tied: bool, own: bool = False) -> dict:
    """Losses, norms, figures and whole weights after the run."""
    task = Words(tied=tied)
    base = Base(
        optimizer="adamw", lr=0.01, tuned_batch=22, total_samples=110, clip_norm=0.5, monitor="val_loss"
    )
    settings = TrainSettings(record=False, layout=Layout.read(layout) if layout else Layout(), **values)
    source = Source(task.train_data(), "train_data")
    model = split_model(task, task.model(), source, settings.layout)
    devices = Devices(global_batch=22, accumulation=3)
    steps = []
    optimizer = own_groups(model.model) if own else None
    with Session(model, optimizer, source, base, devices, settings) as session:
        trainer = Trainer(session, LossDoor(task), Source(task.val_data(), "val_data"))
        for batch in session.steps():
            trainer._pass(batch)
            if session.at_window_end:
                steps.append((session.last.loss, session.last.grad_norm, session.last.samples))
        figures = session.evaluate(trainer.val_data, trainer._measure)
        weights = whole_weights(session)
    return {"steps": steps, "figures": figures, "weights": weights}


def whole_weights(session: Session) -> dict[str, torch.Tensor]:
    """The parameters of this rank's stages, by name, whole."""
    named = {name: param.detach() for name, param in dp.unwrap(session.model).named_parameters()}
    return {
        name: (param.full_tensor() if isinstance(param, DTensor) else param).clone()
        for name, param in named.items()
    }


def compare(found: dict[str, torch.Tensor], whole: dict[str, torch.Tensor]) -> set[str]:
    """Names that were compared; a tied head has the embedding's name in one process."""
    for name, weight in found.items():
        torch.testing.assert_close(weight, whole.get(name, whole["embedding.weight"]), rtol=0, atol=1e-10)
    return set(found)


LAYOUTS = {
    1: ["recompute=full", "recompute=selective"],
    2: [
        "dp=2",
        "fsdp=2",
        "fsdp=2,reshard=false",
        "tp=2",
        "tp=2,sequence_parallel=false,loss_parallel=false",
        "pp=2",
        "pp=2,schedule=gpipe",
        "pp=2,schedule=interleaved,stages_per_rank=2",
        "pp=2,schedule=zero_bubble",
        "fsdp=2,recompute=selective",
    ],
    4: ["dp=2,fsdp=2", "dp=2,tp=2", "fsdp=2,tp=2", "pp=2,fsdp=2", "pp=2,tp=2", "pp=2,dp=2", "pp=4"],
}
CASES = [(num, layout) for num, layouts in LAYOUTS.items() for layout in layouts]
# eight processes, or minutes of compilation
LONG = [(8, "pp=2,fsdp=2,tp=2"), (8, "dp=2,fsdp=2,tp=2"), (1, "compile=true"), (2, "fsdp=2,compile=true")]


@pytest.fixture(scope="module")
def one_process():
    return {tied: trained("", {}, tied) for tied in (False, True)}


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("num_ranks", "layout"), CASES)
def test_a_layout_trains_as_one_process_does(ranks, one_process, num_ranks, layout, tied):
    """T025, T026, T027: three micro-batches a step; of a pipeline they are the schedule's."""
    whole = one_process[tied]
    found = ranks(num_ranks, trained, layout, {}, tied) if num_ranks > 1 else [trained(layout, {}, tied)]
    seen = set()
    for one in found:
        for step, expected in zip(one["steps"], whole["steps"], strict=True):
            assert step == pytest.approx(expected, abs=1e-10)
        assert one["figures"] == pytest.approx(whole["figures"], abs=1e-10)
        seen |= compare(one["weights"], whole["weights"])
    assert seen >= whole["weights"].keys()


@pytest.mark.parametrize("layout", ["fsdp=2", "tp=2", "pp=2"])
def test_groups_of_an_own_optimizer_follow_a_tied_model(ranks, layout):
    whole = trained("", {}, True, own=True)
    for one in ranks(2, trained, layout, {}, True, True):
        assert one["steps"][-1] == pytest.approx(whole["steps"][-1], abs=1e-10)
        compare(one["weights"], whole["weights"])


@pytest.mark.slow
@pytest.mark.parametrize(("num_ranks", "layout"), LONG)
def test_the_same_of_layouts_that_take_long(ranks, one_process, num_ranks, layout):
    test_a_layout_trains_as_one_process_does(ranks, one_process, num_ranks, layout, False)
