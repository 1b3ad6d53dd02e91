"""What is shared by the callbacks, fed by hand: the record, the guards, who stops and why."""

import json
import math

import pytest
import torch

from hemostat.errors import HemostatWarning
from hemostat.track import load_run
from hemostat.train import TrainSettings
from hemostat.train.callbacks.followed_run import FollowedRun
from hemostat.train.callbacks.told import Told
from hemostat.train.record import DEFAULT_ROOT

TURN = [1.0, 0.8, 0.7, 0.66, 0.63, 0.65, 0.7, 0.76, 0.84, 0.93, 1.03]


MADE = []
MODEL = torch.nn.Linear(4, 1)


@pytest.fixture(autouse=True)
def _closed():
    yield
    while MADE:
        MADE.pop().close()


def new_run(settings=None, **told):
    told = {"library": "by hand 1.0", "values": {"lr": 0.1, "global_batch": 8, "seed": 5}} | told
    MADE.append(FollowedRun(Told(**told), settings or TrainSettings(), MODEL, torch.device("cpu")))
    return MADE[-1]


def feed(run, num, loss=lambda number: 1.0 + 0.01 * (number % 5), start=1):
    for number in range(start, start + num):
        if run.step(number, 8 * number, loss(number), lr=0.1, grad_norm=1.0) is not None:
            break


def recorded():
    return load_run(DEFAULT_ROOT, "last")


def test_the_record_says_what_was_told():
    run = new_run(options={"learning_rate": 0.1, "device": torch.device("cpu")}, total_steps=3)
    feed(run, 2)
    run.step(3, 24, None, lr=math.nan)
    run.evaluated({"val_loss": 0.5, "accuracy": 0.75})
    run.close()
    record = recorded()
    assert record.state == "done"
    assert record.metrics("loss") == [(1, 8, 1.01), (2, 16, 1.02)]
    assert record.metrics("grad_norm")[0] == (1, 8, 1.0)
    assert record.metrics("val_loss") == [(3, 24, 0.5)]
    assert record.header["hyper_parameters"]["global_batch"] == 8
    assert record.header["task"]["values"]["learning_rate"] == 0.1
    assert record.header["seed"] == 5
    assert record.header["provenance"]["packages"]["torch"]
    summary = record.summary
    assert (summary["steps"], summary["samples"], summary["best"], summary["best_step"]) == (3, 24, 0.5, 3)
    assert "p99_wait_s" not in summary  # it was not measured
    assert json.loads((record.path / "exit.0.json").read_text())["status"] == 0


def test_a_divergence_stops_and_a_spike_is_said():
    run = new_run(total_steps=200)
    with pytest.warns(HemostatWarning) as said:
        feed(run, 200, lambda number: 1.0 + 0.01 * (number % 5) + 50.0 * (number > 80))
    assert [finding.code for finding in run.outcome.findings] == ["HG001", "HG002"]
    assert run.outcome.findings[0].fix.startswith("Look at its batch: samples 640 to 647 in the order of the")
    assert (run.stop.status, run.last.number, len(said)) == (4, 130, 2)
    run.close()
    assert (recorded().state, recorded().summary["status"]) == ("guard", "stopped")


def test_steps_between_two_losses_are_counted():
    run = new_run(total_steps=2000, loss_every_steps=10)
    with pytest.warns(HemostatWarning) as said:
        for number in range(1, 2000):
            loss = 1.0 + 50.0 * (number > 800) if number % 10 == 0 else None
            if run.step(number, 8 * number, loss, lr=0.1):
                break
    assert run.last.number == 1300
    assert "for 500 steps" in str(said[-1].message)


def test_overfitting_is_said():
    run = new_run()
    with pytest.warns(HemostatWarning, match="HG005: overfitting has begun at about 32 samples"):
        for number, value in enumerate(TURN):
            run.step(number, 8 * number, 1 / (number + 1), lr=0.1)
            assert run.evaluated({"val_loss": value}) is None
    assert (run.outcome.best, run.outcome.best_step) == (0.63, 4)
    run.close()
    assert recorded().summary["after_best_s"] >= 0


def test_losses_that_are_not_finite_stop_after_so_many_in_a_row():
    run = new_run(TrainSettings(max_skips=2))
    feed(run, 20, lambda number: math.nan if number % 3 or number > 9 else 1.0)
    assert (run.last.number, run.stop.status) == (12, 4)
    assert run.stop.reason == "the loss was not finite 3 times in a row"


def test_somebody_outside_may_stop_it():
    run = new_run()
    recorded().ask("stop", at_samples=40)
    run._control.askers[0].__self__._next_look_s = 0.0  # it looks twice a second
    feed(run, 20)
    assert (run.last.samples, run.stop.status) == (40, 0)


def test_an_exception_and_a_loop_that_was_left_are_told_apart():
    run = new_run()
    feed(run, 2)
    run.close(ValueError("a bad batch"))
    assert (recorded().state, recorded().summary["reason"]) == ("failed", "a bad batch")
    run.close()
    assert recorded().summary["reason"] == "a bad batch"
    assert run.step(3, 24, 1.0, lr=0.1) is None  # closed: nothing is written any more
    assert recorded().summary["steps"] == 2
    run = new_run()
    feed(run, 2)
    run._left()
    assert recorded().state == "left"


def test_no_random_number_is_drawn():
    before = torch.random.get_rng_state()
    run = new_run()
    feed(run, 5)
    run.evaluated({"val_loss": 1.0})
    run.close()
    assert torch.equal(before, torch.random.get_rng_state())


def on_two_ranks(folder):
    import os

    import torch.distributed as dist

    os.chdir(folder)
    run = new_run(TrainSettings(max_skips=0))
    for number in range(1, 9):
        loss = math.nan if number == 5 and dist.get_rank() == 1 else float(dist.get_rank())
        if run.step(number, 8 * number, loss, lr=0.1):
            break
    run.evaluated({"val_loss": 2.0 * dist.get_rank()} | ({"own": 1.0} if dist.get_rank() else {}))
    run.close()
    return run.last.number, run.stop.status, run.outcome.best, str(run.record.path)


def test_a_reason_on_one_rank_stops_both_at_the_same_step(ranks, tmp_path):
    first, second = ranks(2, on_two_ranks, str(tmp_path))
    assert first == second
    assert first[:3] == (5, 4, 1.0)
    record = recorded()
    assert record.metrics("loss")[:2] == [(1, 8, 0.5), (2, 16, 0.5)]
    assert record.headline["hardware"]["num_ranks"] == 2
