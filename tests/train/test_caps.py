import json
import time

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import BudgetStop, FieldError
from hemostat.recipe import Base
from hemostat.recipe.caps import CLOSING_S
from hemostat.track import load_run
from hemostat.track.attempts import LAUNCHED
from hemostat.train import Session, TrainSettings
from hemostat.train.lr_range import find_range


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
    with pytest.raises(BudgetStop, match=r"max_hours=40\.0 s: .* is spent before the first step of this"):
        run(capped)
    assert capped.last is None and load_run(capped.record.path.parent).exit[0] == 5


def test_attempts_that_saved_nothing_are_paid_for(session):
    capped = session(max_hours="40s")
    capped.spending.start_anew(38.0)
    parts = capped.spending.parts()
    assert parts["lost"] == 38.0 and sum(parts.values()) == pytest.approx(capped.spending.total_s(), abs=0.05)
    assert 38.0 < capped.spending.total_s() < 40.0
    with pytest.raises(BudgetStop, match=r"max_hours=40\.0 s: .* is spent before the first step of this"):
        capped.spending.refuse_if_spent(2.0)


def test_without_caps_nobody_is_asked(session):
    assert len(session().control.askers) == 1 and len(session(max_hours=4).control.askers) == 2


def compute(model, batch):
    inputs, targets = batch
    return ((model(inputs) - targets) ** 2).sum(), len(inputs)


def test_a_range_test_stops_within_the_cap_and_leaves_the_weights(session):
    capped = session(max_hours="3s")
    before = [param.detach().clone() for param in capped.model.parameters()]
    start_s = time.perf_counter()
    with pytest.raises(BudgetStop, match="and what comes next may take"), capped:
        find_range(capped, compute)
    assert time.perf_counter() - start_s < 3.0
    assert all(torch.equal(a, b) for a, b in zip(before, capped.model.parameters(), strict=True))


def test_a_search_for_the_micro_batch_looks_between_two_tries(session):
    capped, sizes = session(max_hours="60s"), []

    def passes():
        sizes.append(capped.recipe.micro_batch)
        capped.spending._unseen_s += 35  # as if they had taken so long
        raise torch.OutOfMemoryError("too much")

    with pytest.raises(BudgetStop, match="is spent before the first step"), capped:
        capped.back_off.until_it_fits(passes, searching=True)
    assert sizes == [4, 2]


@pytest.mark.filterwarnings("ignore:run .* goes on at step")
def test_an_evaluation_after_a_resume_is_not_begun_when_it_would_pass_the_cap(session):
    first = session(max_hours="60s")
    first.spending._evaluations = [30.0, 30.0]
    run(first, stop_after=5)
    spent_s = summary_of(first)["spent_s"]
    for left_s, status in ((20.0, 5), (45.0, None)):
        again = session(max_hours=f"{spent_s + left_s}s", resume="last")
        with again:
            stop = again.spending.stop_before_evaluation()
        assert (stop and stop.status) == status
        assert stop is None or "and what comes before the next look may take" in stop.reason


def test_a_run_that_never_comes_to_a_vote_leaves_at_the_cap(session):
    capped = session(max_hours="4s", keep=3)
    start_s = time.perf_counter()
    with (
        pytest.raises(BudgetStop, match=r"max_hours=4\.0 s is reached in loop after step 3, where"),
        capped,
    ):
        for inputs, targets in capped.steps():
            if capped.last is not None and capped.last.number == 3:
                capped.save()
                time.sleep(30)
            capped.backward(((capped.model(inputs) - targets) ** 2).sum(), count=len(inputs))
    assert time.perf_counter() - start_s < 10
    record = load_run(capped.record.path.parent)
    assert record.exit[0] == 5 and "the last checkpoint is step-000000003" in record.exit[1]
    assert record.summary["status"] == "failed" and record.summary["spent_s"] >= 4.0


@pytest.mark.parametrize(("steps", "longest_s"), [([0.1, 0.9, 0.2], 0.9), ([0.1], 0.1)])
def test_the_longest_step_of_late_is_what_must_fit(session, steps, longest_s):
    capped = session(max_hours="60s")
    capped.spending._steps.extend(steps)
    capped.spending._looked_s = time.perf_counter()
    left_s = longest_s + CLOSING_S + capped.spending._checkpoint_s()
    capped.spending._unseen_s = 60.0 - left_s + 0.05 - (time.perf_counter() - capped.spending._made_s)
    assert capped.spending._ask(4).status == 5
    capped.spending._unseen_s -= 0.2
    capped.spending._steps = type(capped.spending._steps)(steps, maxlen=32)
    assert capped.spending._ask(8) is None


@pytest.mark.filterwarnings("ignore:run .* goes on at step")
def test_what_was_spent_at_the_best_point_and_what_was_lost_outlive_a_resume(session):
    first = session()
    with first:
        for number, (inputs, targets) in enumerate(first.steps(), start=1):
            first.backward(((first.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            if number == 3:
                first.judge(0.5)
                first.save("best")
            if number == 12:
                break
        best_s = first.spending.best_s
        first.saver = None  # killed: nothing is saved at the end
    again = session(resume="last")
    with again:
        assert again.last.number == 3
        assert again.spending.best_s == best_s > 0.0
        lost_s = again.spending.parts()["lost"]
        assert 9 * 0.05 <= lost_s < 3.0  # nine steps come again
        for _ in again.steps():
            break
    assert summary_of(again)["spent"]["lost"] == pytest.approx(lost_s)
