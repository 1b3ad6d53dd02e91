import json
import time

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import BudgetStop, FieldError
from hemostat.recipe import Base
from hemostat.track import load_run
from hemostat.track.attempts import LAUNCHED
from hemostat.train import Session, TrainSettings


class Slow(torch.nn.Linear):
    """A layer that takes its time."""

    def forward(self, rows):
        time.sleep(0.05)
        return super().forward(rows)


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(**settings):
        rows = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))  # a resume wants the same data
        data = TensorDataset(rows[:, :2].clone(), rows[:, 2:].clone())
        base = Base(optimizer="sgd", lr=0.01, tuned_batch=4, epochs=20)
        return Session(Slow(2, 1), None, data, base, settings=TrainSettings(**settings))

    return make


def run(session, stop_after=None, evaluate_every=0):
    start_s = time.perf_counter()
    with session:
        for number, (inputs, targets) in enumerate(session.steps(), start=1):
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            if evaluate_every and number % evaluate_every == 0:
                rows = TensorDataset(torch.randn(8, 2), torch.randn(8, 1))
                values = session.evaluate(rows, lambda model, batch: {"val_loss": (model(batch[0]).sum(), 8)})
                session.judge(values["val_loss"] if number == evaluate_every else 1e9)
            if number == stop_after:
                break
    return time.perf_counter() - start_s


def summary_of(session):
    return json.loads((session.record.path / "run.json").read_text())["summary"]


def test_a_run_is_saved_and_stops_before_its_hours_are_passed(session):
    capped = session(max_hours="3s")
    took_s = run(capped)
    assert took_s < 3.0 and capped.last.samples < capped.recipe.total_samples
    record = load_run(capped.record.path.parent)
    assert record.exit[0] == 5 and record.state == "budget"
    assert record.exit[1].startswith("max_hours=3.0 s: ") and "may take" in record.exit[1]
    assert summary_of(capped)["spent_s"] < 3.0
    assert [path.name for path in (record.path / "checkpoints").glob("step-*")] == [
        f"step-{capped.last.number:09d}"
    ]


def test_a_run_stops_before_its_dollars_are_passed(session):
    capped = session(max_usd="$0.10", usd_per_hour=120.0)  # three seconds
    run(capped)
    assert capped.stop.status == 5 and "max_usd=$0.10" in capped.stop_reason
    assert 0.0 < summary_of(capped)["usd"] < 0.1


def test_dollars_without_a_price_are_refused_before_anything(session, tmp_path):
    with pytest.raises(FieldError, match="needs the price of an hour"):
        session(max_usd=1)
    assert not list(tmp_path.glob(".hemostat/runs/*/metrics*"))


@pytest.mark.filterwarnings("ignore:run .* goes on at step")
def test_the_earlier_attempt_counts_and_a_spent_cap_trains_nothing(session):
    first = session(max_hours="3s")
    run(first)
    spent_s, steps = summary_of(first)["spent_s"], first.last.number
    again = session(max_hours=f"{spent_s + 0.2}s", resume="last")
    with pytest.raises(BudgetStop, match="is spent before the first step"), again:
        pass
    assert again.last.number == steps
    third = session(max_hours=f"{spent_s + 4}s", resume="last")
    run(third)
    assert third.last.number > steps and summary_of(third)["spent_s"] < spent_s + 4


def test_a_long_evaluation_is_not_begun_when_it_would_pass_the_cap(session):
    capped = session(max_hours="60s")
    capped.spending.num_val_samples = 10**6
    every = capped.recipe.eval_every_steps
    run(capped)
    assert capped.last.number == every and capped.stop.status == 5


def test_the_parts_of_the_bill_make_the_whole(session):
    paid = session(usd_per_hour=36.0)
    run(paid, stop_after=20, evaluate_every=5)
    summary = summary_of(paid)
    parts = summary["spent"]
    assert set(parts) == {"training", "evaluation", "checkpoints", "data", "start", "lost"}
    assert sum(parts.values()) == pytest.approx(summary["spent_s"], abs=0.02)
    assert (
        parts["evaluation"] > 0.15
        and parts["checkpoints"] > 0
        and parts["training"] > 0.9
        and parts["lost"] == 0
    )
    assert 0.7 < summary["after_best_s"] < summary["spent_s"]
    assert summary["usd"] == pytest.approx(summary["spent_s"] / 100)
    assert summary["usd_after_best"] == pytest.approx(summary["after_best_s"] / 100)


def test_start_up_counts_from_the_launch(session, monkeypatch):
    monkeypatch.setenv(LAUNCHED, str(time.monotonic() - 50))
    assert 50 <= session().spending.parts()["start"] < 60
    capped = session(max_hours="40s")
    run(capped)
    assert capped.last.number == 1 and capped.stop.status == 5
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # the earlier attempt has counted it
    assert session().spending.parts()["start"] < 5


def test_without_caps_nobody_is_asked(session):
    assert len(session().control.askers) == 1 and len(session(max_hours=4).control.askers) == 2
