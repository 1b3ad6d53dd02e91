"""The bill: parts that make the whole, and a stop that leaves time for what may come."""

import time

import pytest
import torch

from hemostat.train import TrainSettings
from hemostat.train.callbacks.bill import Bill

MODEL = torch.nn.Linear(4, 1)


def test_the_parts_make_the_whole():
    bill = Bill(TrainSettings(), None, MODEL)
    time.sleep(0.02)
    assert bill.ask(8) is None
    time.sleep(0.05)
    bill.book("evaluation")
    time.sleep(0.01)
    bill.mark()
    time.sleep(0.03)
    bill.book("checkpoints")
    parts = bill.parts()
    assert 0.05 <= parts["evaluation"] < 0.08
    assert 0.03 <= parts["checkpoints"] < 0.05
    assert parts["training"] >= 0.03
    assert sum(parts.values()) == pytest.approx(bill.total_s(), abs=1e-3)


def test_it_stops_before_the_cap_is_passed():
    bill = Bill(TrainSettings(max_hours="3s", usd_per_hour=3600.0), 3600.0, MODEL)
    assert (
        bill.ask(8) is None
    )  # a step, two checkpoints of half a second and the closing fit into three seconds
    bill._longest["evaluation"] = 2.0
    stop = bill.ask(16)
    assert stop.status == 5
    assert stop.reason.startswith("max_hours=3.0 s: ")
    assert "at 16 samples" in stop.reason


def test_a_long_checkpoint_replaces_the_guess():
    bill = Bill(TrainSettings(max_hours="3s"), None, MODEL)
    bill.mark()
    bill.book("checkpoints")  # took no time at all
    assert bill._longest["checkpoints"] < 0.1
    assert Bill(TrainSettings(max_hours="0.5s"), None, MODEL).ask(8).status == 5
