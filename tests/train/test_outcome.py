import json
import time

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import GuardStop
from hemostat.recipe import Base
from hemostat.track import load_run
from hemostat.train import Session, TrainSettings
from hemostat.train.control import Stop


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = TensorDataset(torch.randn(16, 2), torch.randn(16, 1))
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=4, epochs=2)
    return Session(torch.nn.Linear(2, 1), None, data, base, settings=TrainSettings(usd_per_hour=7.2))


def run(session, stop_after=None, error=None):
    with session:
        for number, (inputs, targets) in enumerate(session.steps(), start=1):
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            if number == stop_after:
                if error:
                    raise error
                break


def recorded(tmp_path):
    record = load_run(tmp_path / ".hemostat" / "runs")
    return record, json.loads((record.path / "run.json").read_text())["summary"]


def test_a_plain_loop_leaves_a_complete_record(session, tmp_path):
    run(session)
    record, summary = recorded(tmp_path)
    assert (record.state, summary["status"]) == ("done", "ended")
    assert (summary["reason"], summary["steps"], summary["samples"]) == ("the run reached its end", 8, 32)
    assert summary["usd"] == pytest.approx(summary["spent_s"] * 0.002)
    assert summary["waited"]


def test_a_loop_that_is_left_early_says_so(session, tmp_path):
    run(session, stop_after=3)
    record, summary = recorded(tmp_path)
    assert (record.state, summary["status"], summary["reason"]) == ("left", "left", "the loop was left")
    assert record.exit == (0, "")


def test_a_loop_that_was_told_to_stop_is_done(session, tmp_path):
    with session:
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            session.stop = Stop("enough")
    record, summary = recorded(tmp_path)
    assert (record.state, summary["status"], summary["steps"]) == ("done", "stopped", 1)


def test_a_loop_that_raises_is_recorded_as_failed(session, tmp_path):
    with pytest.raises(ValueError, match="mine"):
        run(session, stop_after=3, error=ValueError("mine"))
    record, summary = recorded(tmp_path)
    assert (record.state, summary["reason"], summary["steps"]) == ("failed", "mine", 3)
    assert summary["status"] == "failed"


def test_a_guard_keeps_its_status(session, tmp_path):
    with pytest.raises(GuardStop):
        run(session, stop_after=1, error=GuardStop("enough"))
    assert recorded(tmp_path)[0].exit == (4, "enough")


def test_judging_is_remembered(session):
    with session:
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            session.judge({2: 0.5, 4: 0.3}.get(session.last.number, 1.0))
    assert (session.outcome.best, session.outcome.best_step) == (0.3, 4)


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        time.sleep(0.03)  # a run under a second is not judged
        return torch.zeros(2), torch.zeros(1)


def test_a_run_that_waits_for_data_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=4, epochs=3)
    run(Session(torch.nn.Linear(2, 1), None, Slow(), base, settings=TrainSettings()))
    summary = recorded(tmp_path)[1]
    assert summary["waited"].startswith("input-bound: ")
    assert summary["feed_hint"].startswith("store the samples decoded")
    assert 0 < summary["median_wait_s"] <= summary["p99_wait_s"] <= summary["longest_wait_s"]
