"""The range test leaves no trace, says the same on all ranks and at any number of them, and is recorded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.recipe import Base
from hemostat.track import load_run
from hemostat.train import Session, TrainSettings
from hemostat.train.lr_range import find_range, said
from hemostat.train.parallel import dp


def make_model(dropout: float) -> torch.nn.Module:
    torch.manual_seed(3)
    parts = [torch.nn.Linear(6, 16), torch.nn.Dropout(dropout), torch.nn.Tanh(), torch.nn.Linear(16, 1)]
    if dropout:
        parts.insert(1, torch.nn.BatchNorm1d(16))
    return torch.nn.Sequential(*parts).double()


def make_data(num: int = 205) -> TensorDataset:
    inputs = torch.randn(num, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def squares(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, int]:
    return ((model(batch[0]) - batch[1]) ** 2).sum(), len(batch[0])


def attempt(folder: str, optimizer: str, dropout: float, swept: bool) -> dict[str, object]:
    os.chdir(folder)
    base = Base(optimizer=optimizer, lr=0.01, tuned_batch=16, epochs=1, clip_norm=1.0)
    verdict, order = None, []
    with Session(make_model(dropout), None, make_data(), base, settings=TrainSettings(save=False)) as session:
        if swept:
            verdict = find_range(session, squares)
        before = [param.tolist() for param in dp.unwrap(session.model).parameters()]
        for batch in session.steps():
            order.append(batch[0][:, 0].tolist())
            session.backward(*squares(session.model, batch))
    state = dp.unwrap(session.model).state_dict()
    return {
        "verdict": verdict,
        "said": said(verdict, session) if verdict else "",
        "before": before,
        "order": order,
        "last": session.last,
        "weights": {name: value.tolist() for name, value in state.items()},
        "random": torch.rand(3).tolist(),
    }


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_the_run_after_it_is_bitwise_the_run_without_it(ranks, tmp_path, num_ranks, optimizer):
    without = ranks(num_ranks, attempt, str(tmp_path), optimizer, 0.2, False)
    after = ranks(num_ranks, attempt, str(tmp_path), optimizer, 0.2, True)
    for rank in range(num_ranks):
        for name in ("before", "order", "last", "weights", "random"):
            assert after[rank][name] == without[rank][name], name


def test_one_verdict_on_all_ranks_and_at_any_number_of_them(ranks, tmp_path):
    verdicts = [
        told["verdict"] for num in (1, 2, 3) for told in ranks(num, attempt, str(tmp_path), "sgd", 0.0, True)
    ]
    first = verdicts[0]
    assert first.lr is not None and 0.001 < first.lr < 1
    for verdict in verdicts[1:]:
        for name in ("lr", "steepest", "largest"):
            assert getattr(verdict, name) == pytest.approx(getattr(first, name), rel=1e-9)


def test_it_is_said_and_recorded_and_not_applied(ranks, tmp_path):
    (told,) = ranks(1, attempt, str(tmp_path), "sgd", 0.0, True)
    verdict = told["verdict"]
    assert told["said"].endswith(f"--set lr={verdict.lr:.3g} --set tuned_batch=16")
    header = load_run(Path(tmp_path) / ".hemostat" / "runs").header
    row = {row["field"]: row for row in header["recipe"]}["lr_range"]
    assert row["value"] == verdict.lr and row["before"] == 0.01 and "1506.01186" in row["source"]
    assert header["hyper_parameters"]["lr"] == 0.01
    swept = header["lr_range"]
    assert len(swept["rates"]) == len(swept["losses"]) <= 100
    assert swept["losses"][-1] == "nan" or swept["losses"][-1] > 4 * min(swept["losses"][:-1])


def diverges_on_the_last_rank(folder: str) -> object:
    os.chdir(folder)
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=16, epochs=1)
    settings = TrainSettings(record=False)
    with Session(make_model(0.0), None, make_data(), base, settings=settings) as session:
        numbers = iter(range(1000))

        def compute(
            model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]
        ) -> tuple[torch.Tensor, int]:
            loss, count = squares(model, batch)
            blown = next(numbers) >= 30 and session.world.rank == session.world.num_ranks - 1
            return loss * (1e6 if blown else 1.0), count

        return find_range(session, compute)


def test_a_loss_that_explodes_on_one_rank_ends_it_on_all(ranks, tmp_path):
    """T110."""
    first, second = ranks(2, diverges_on_the_last_rank, str(tmp_path))
    assert first == second
