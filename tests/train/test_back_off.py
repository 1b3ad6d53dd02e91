"""One rank: the window is taken again, statistics and all, and what was found outlives a resume."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import EnvironmentFailure, HemostatWarning
from hemostat.recipe import Base, Devices, convert
from hemostat.train import Session, TrainSettings
from hemostat.train.back_off import recut
from hemostat.train.control import Stop


class Limited(torch.nn.Module):
    """Refuses batches of more rows than its limit, after its running statistics have moved."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.linear, self.limit = torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1), limit

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(inputs)
        if len(inputs) > self.limit:
            raise torch.OutOfMemoryError(f"{len(inputs)} rows")
        return self.linear(hidden)


def make_data() -> TensorDataset:
    torch.manual_seed(1)
    inputs = torch.randn(64, 4)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def run(
    model: torch.nn.Module, settings: TrainSettings, stop_at: int | None = None, **devices: int
) -> Session:
    base = Base(optimizer="sgd", lr=0.05, tuned_batch=32, epochs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        with Session(model, None, make_data(), base, Devices(**devices), settings) as session:
            for inputs, targets in session.steps():
                with session.back_off.guard():
                    session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
                if session.at_window_end and session.last.number == stop_at:
                    session.stop = Stop("SIGTERM", 75)
    return session


QUIET = TrainSettings(record=False)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_running_statistics_are_those_of_a_run_that_began_smaller(accumulation):
    session = run(first := Limited(8), QUIET, accumulation=accumulation)
    run(second := Limited(8), QUIET, accumulation=4)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name
    assert (session.recipe.micro_batch, session.recipe.accumulation) == (8, 4)
    assert session.last.samples == 128
    before = [finding.evidence["before"] for finding in session.outcome.findings]
    assert before == [32, 16][-len(before) :]


class RefusesOnce(torch.nn.Linear):
    """Refuses one pass: the second of a window, when the first has left its gradients."""

    calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == 2:
            raise torch.OutOfMemoryError(f"{len(inputs)} rows")
        return super().forward(inputs)


def test_the_noise_scale_knows_nothing_of_a_window_that_was_given_up():
    torch.manual_seed(0)
    given_up = run(RefusesOnce(4, 1), QUIET, accumulation=2)
    torch.manual_seed(0)
    smaller = run(torch.nn.Linear(4, 1), QUIET, accumulation=4)
    assert given_up.recipe.accumulation == 4
    assert given_up.noise.state() == smaller.noise.state()
    assert given_up.noise.state()["num_updates"] == 4


def test_all_waits_of_the_run_are_counted():
    session = run(Limited(8), QUIET)
    assert session.loader.waits.num_fetches == 1 + 1 + 4 * 4  # two that were given up


def test_one_sample_too_much_is_an_error_that_says_what_to_do():
    with pytest.raises(EnvironmentFailure, match="micro_batch=1: memory ran out at step 1 with one sample"):
        run(torch.nn.Sequential(Refuses(), torch.nn.Linear(4, 1)), QUIET)


class Refuses(torch.nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError(f"{len(inputs)} rows")


class Fails(torch.nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("shapes")


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="shapes"):
        run(Fails(4, 1), QUIET)


def test_memory_that_runs_out_in_the_update_is_not_taken_for_the_pass(monkeypatch):
    def refuse(*_):
        raise torch.OutOfMemoryError("moments")

    monkeypatch.setattr(torch.optim.SGD, "step", refuse)
    with pytest.raises(torch.OutOfMemoryError, match="moments"):
        run(Limited(64), QUIET)


def test_a_resumed_run_keeps_what_was_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(Limited(8), TrainSettings(), stop_at=2)
    again = run(model := Limited(64), TrainSettings(resume="last"))
    assert (again.recipe.micro_batch, again.recipe.accumulation, again.last.number) == (8, 4, 4)
    undisturbed = Limited(64)
    run(undisturbed, QUIET, accumulation=4)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), undisturbed.parameters(), strict=True))
    header = json.loads((again.record.path / "run.json").read_text())
    assert header["batch"] == {"global_batch": 32, "micro_batch": 8, "accumulation": 4, "num_ranks": 1}
    assert [found["code"] for found in header["summary"]["findings"]] == ["HG140", "HG140"]
    row = next(row for row in header["recipe"] if row["field"] == "micro_batch")
    assert (row["value"], row["why"]) == (8, "more did not fit before the resume")


@pytest.mark.parametrize(
    ("ranks", "accumulation", "cut"), [(2, 2, (6, 2)), (2, 5, (3, 5)), (5, 2, (3, 2)), (2, 99, (1, 12))]
)
def test_a_new_cut_holds_the_global_batch(ranks, accumulation, cut):
    recipe = recut(
        convert(Base(lr=0.1, tuned_batch=24), Devices(num_ranks=ranks)), accumulation, "memory ran out"
    )
    assert (recipe.micro_batch, recipe.accumulation) == cut
    assert recipe.global_batch == 24
    assert {row.field: row.value for row in recipe.values}["accumulation"] == cut[1]
