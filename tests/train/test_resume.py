"""Resuming alone: bit for bit the run that was never interrupted, and differences said or refused."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.data import Order
from hemostat.errors import HemostatWarning, RecordError, UsageError
from hemostat.recipe import Base, Devices
from hemostat.track import Checkpoints, ledger, load_run, update_run
from hemostat.train import Session, TrainSettings
from hemostat.train.control import Stop

RUNS = Path(".hemostat") / "runs"
SHIFT = 0.0


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def model(width: int = 8) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, width),
        torch.nn.BatchNorm1d(width),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(width, 1),
    )


def data(num: int = 90) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(num, 4, generator=generator) + SHIFT
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def base(**changes) -> Base:
    known = {
        "optimizer": "adamw",
        "lr": 0.01,
        "tuned_batch": 16,
        "epochs": 4,
        "warmup_steps": 3,
        "patience": 3,
    }
    return Base(**(known | changes))


def loop(session: Session, stop_at: int | None = None, judge_every: int = 4) -> list:
    seen = []
    with session:
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            if session.at_window_end:
                seen.append(session.last)
                if session.last.number % judge_every == 0:
                    session.judge(session.last.loss)
                if session.last.number == stop_at:
                    session.stop = Stop("SIGTERM", 75)
    return seen


def begin(num: int = 90, width: int = 8, resume: str | None = None, anyway: tuple = (), **changes) -> Session:
    settings = TrainSettings(resume=resume, resume_anyway=anyway)
    devices = changes.pop("devices", None)
    optimizer = changes.pop("own", None)
    net = model(width)
    return Session(net, optimizer and optimizer(net), data(num), base(**changes), devices, settings)


def resumed(**changes) -> tuple[Session, list, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = begin(resume="last", **changes)
        seen = loop(session)
    return session, seen, [str(item.message) for item in caught if item.category is HemostatWarning]


@pytest.mark.parametrize("stop_at", [1, 5, 8, 13, 23])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_resumed_run_is_bitwise_the_undisturbed_one(stop_at, optimizer):
    """T017, T049."""
    whole = begin(optimizer=optimizer)
    steps = loop(whole)
    first = loop(begin(optimizer=optimizer), stop_at=stop_at)
    session, second, said = resumed(optimizer=optimizer)
    assert first + second == steps  # losses, rates, norms and positions, bit for bit
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, session.model.state_dict()[name]), name
    assert session.stopper.state() == whole.stopper.state()
    assert said == [f"run {session.record.path.name} goes on at step {stop_at} ({first[-1].samples} samples)"]


def test_no_record_is_lost_or_doubled():
    steps = loop(begin(), stop_at=7) + resumed()[1]
    record = load_run(RUNS)
    assert [(step, samples) for step, samples, _ in record.metrics("loss")] == [
        (step.number, step.samples) for step in steps
    ]
    assert record.state == "done"
    assert record.header["attempts"][0]["from"] == "step-000000007"


def test_time_spent_before_counts():
    first = begin()
    loop(first, stop_at=7)
    session, _, _ = resumed()
    assert session.outcome.train_s > first.outcome.train_s > 0.0


def test_an_attempt_that_died_before_it_saved_is_counted_by_its_own_time():
    """Another one follows; the ten hours between them cost nothing."""
    first = begin()
    loop(first, stop_at=7)
    run_dir, began = first.record.path, time.time() - 36_000
    line = {"step": 8, "samples": 119, "time": began + 25, "values": {"loss": 1.0}}
    with (run_dir / "metrics.0.jsonl").open("a") as file:
        file.write(f"{json.dumps({'attempt': 'began', 'time': began})}\n{json.dumps(line)}\n")
    update_run(run_dir, attempts=[{"time": began, "from": "step-000000007", "num_ranks": 1}])
    session, _, _ = resumed()
    summary = load_run(RUNS).summary
    assert 25 <= summary["spent"]["lost"] < 26 and 25 < summary["spent_s"] < 60
    assert [attempt["from"] for attempt in session.attempts] == ["step-000000007"] * 2
    (spent,) = ledger.read_ledger(RUNS)
    assert spent.seconds == summary["spent_s"]


def test_the_random_numbers_go_on_in_a_loop_of_ones_own_optimizer():
    def own(net):
        return torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True)

    whole = begin(own=own)
    steps = loop(whole)
    first = loop(begin(own=own), stop_at=9)
    assert first + resumed(own=own)[1] == steps


def test_a_damaged_checkpoint_is_passed_over_and_named():
    """T079."""
    loop(begin(), stop_at=9)
    checkpoints = Checkpoints(load_run(RUNS).path)
    whole = loop(begin())
    session = begin()
    with session:
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            if session.last.number % 4 == 0:
                session.judge(session.last.loss)
            if session.last.number in (5, 9):
                session.save()
            if session.last.number == 9:
                session.stop = Stop("SIGTERM", 75)
    path = Checkpoints(session.record.path).path(9) / "__0_0.distcp"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    assert checkpoints.published()
    _, second, said = resumed_id(session.record.path.name)
    assert second == whole[5:]
    assert "step-000000009: __0_0.distcp is damaged" in said[0]


def resumed_id(run_id: str) -> tuple[Session, list, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = begin(resume=run_id)
        seen = loop(session)
    return session, seen, [str(item.message) for item in caught if item.category is HemostatWarning]


def test_a_checkpoint_of_a_newer_version_is_refused_and_the_run_stays_as_it_was():
    loop(begin(), stop_at=6)
    record = load_run(RUNS)
    manifest = Checkpoints(record.path).path(6) / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 99, "hemostat": "9.9"}))
    before = (record.path / "run.json").read_bytes(), record.exit
    with pytest.raises(RecordError, match=r"format 99, made with hemostat 9\.9"):
        loop(begin(resume="last"))
    assert ((record.path / "run.json").read_bytes(), load_run(RUNS).exit) == before


def test_without_a_whole_checkpoint_it_says_so():
    session = begin()
    with session:
        pass
    with pytest.raises(RecordError, match=r"has no whole checkpoint yet\. Start it anew"):
        loop(begin(resume="last"))


def test_another_model_is_named():
    loop(begin(), stop_at=5)
    with pytest.raises(
        RecordError, match=r"of another model: 0.weight has shape \(8, 4\) there and \(6, 4\)"
    ):
        loop(begin(resume="last", width=6))


def test_another_model_with_other_names_is_named():
    loop(begin(), stop_at=5)
    session = Session(torch.nn.Linear(4, 1), None, data(), base(), settings=TrainSettings(resume="last"))
    with pytest.raises(RecordError, match=r"it lacks bias, weight and it has 0\.bias, 0\.weight"):
        loop(session)


def test_other_data_are_refused_unless_told():
    loop(begin(), stop_at=5)
    with pytest.raises(UsageError, match=r"90.*resume_anyway='\[\"data\"\]'"):
        loop(begin(resume="last", num=80))
    session, _, said = resumed(num=80, anyway=("data",))
    assert "train_data has 80 samples now and had 90" in said[0]
    assert session.outcome.status == "ended"


def test_another_optimizer_is_refused_unless_told():
    loop(begin(), stop_at=5)
    with pytest.raises(UsageError, match=r"the optimizer is SGD now and was AdamW.*resume_anyway"):
        loop(begin(resume="last", optimizer="sgd"))
    session, _, said = resumed(optimizer="sgd", anyway=("optimizer",))
    assert "its state starts anew" in said[0]
    assert session.outcome.status == "ended"


def test_another_batch_goes_on_at_the_same_sample_and_says_what_changed():
    """T006."""
    first = loop(begin(), stop_at=6)
    session, second, said = resumed(devices=Devices(global_batch=32))
    position = first[-1].samples
    assert position == 90  # six windows are one epoch
    assert second[0].samples == position + 32
    assert second[0].number == 4  # three windows of 32 would have come to that sample
    assert second[-1].samples == 360
    assert second[0].lr == session.recipe.schedule.lr(3)
    assert "global_batch: 16 -> 32" in said[0] and "tuned_batch" not in said[0]


def test_a_changed_setting_is_said():
    loop(begin(), stop_at=6)
    session, _, said = resumed(weight_decay=0.3)
    assert "weight_decay" in said[0]
    assert session.updater.optimizer.param_groups[0]["weight_decay"] == 0.3


def test_a_resume_without_a_record_is_refused():
    with pytest.raises(UsageError, match="needs a record"):
        Session(model(), None, data(), base(), settings=TrainSettings(record=False, resume="last"))


def test_the_seed_of_the_order_is_kept():
    whole = loop(begin())
    first = loop(begin(), stop_at=8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = TrainSettings(resume="last", seed=5)
        session = Session(model(), None, data(), base(), settings=settings)
        second = loop(session)
    assert first + second == whole
    said = [str(item.message) for item in caught if item.category is HemostatWarning]
    assert "the order keeps train.seed=0, though 5 was given" in said[0]


def test_another_order_is_refused(monkeypatch):
    loop(begin(), stop_at=8)
    monkeypatch.setattr(Order, "permutation", "feistel7-v1")
    with pytest.raises(RecordError, match=r"has the order feistel6-v1, this hemostat makes feistel7-v1"):
        loop(begin(resume="last"))


def test_changed_data_of_the_same_size_are_refused_unless_told(monkeypatch):
    loop(begin(), stop_at=8)
    monkeypatch.setattr(f"{__name__}.SHIFT", 1e-3)
    with pytest.raises(UsageError, match=r"train_data has changed.*resume_anyway"):
        loop(begin(resume="last"))
    session, _, said = resumed(anyway=("data",))
    assert "the run goes on with other samples" in said[0]
    assert session.outcome.status == "ended"
