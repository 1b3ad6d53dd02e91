"""A loop under a real `accelerate.Accelerator`: recorded, guarded, stopped together, and the same weights."""

# ruff: noqa: E402 - what needs the library comes after it was asked for

import pytest
import torch

accelerate = pytest.importorskip("accelerate", reason="pip install 'hemostat[accelerate]'")

from hemostat.errors import HemostatWarning
from hemostat.track import load_run
from hemostat.train import TrainSettings
from hemostat.train.callbacks import AccelerateRun
from hemostat.train.record import DEFAULT_ROOT


def loop(*, follow=None, num_steps=12, at=10**9, accumulation=1):
    """A loop of somebody's; `follow(accelerator, model, optimizer)` makes the run."""
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulation)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.2), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.randn(8 * num_steps * accumulation, 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs), 8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    run = follow(accelerator, model, optimizer) if follow else None
    losses, norm = [], None
    for (x,) in loader:
        with accelerator.accumulate(model):
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss = loss + 50.0 * (len(losses) >= at)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        if run is not None and run.step(loss, norm):
            break
    if run is not None:
        run.close()
    return model, losses, run


def test_the_weights_are_those_without_it_and_the_run_is_in_the_records():
    follow = lambda *made: AccelerateRun(  # noqa: E731
        *made, TrainSettings(usd_per_hour=3.0), global_batch=16, total_steps=12, epochs=1
    )
    bare, losses, _ = loop(accumulation=2)
    followed, _, _ = loop(accumulation=2, follow=follow)
    pairs = zip(bare.state_dict().values(), followed.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    record = load_run(DEFAULT_ROOT, "last")
    means = [sum(losses[first : first + 2]) / 2 for first in range(0, 24, 2)]
    assert [value for _, _, value in record.metrics("loss")] == pytest.approx(means)
    assert len(record.metrics("grad_norm")) == 12
    values = record.header["hyper_parameters"]
    assert (values["lr"], values["accumulation"], values["precision"], values["epochs"]) == (
        0.05,
        2,
        "fp32",
        1,
    )
    assert (record.state, record.summary["samples"]) == ("done", 192)


def test_a_divergence_ends_the_loop():
    with pytest.warns(HemostatWarning):
        _, losses, run = loop(
            num_steps=200, at=40, follow=lambda *made: AccelerateRun(*made, total_steps=200)
        )
    assert (len(losses), run.run.stop.status) == (90, 4)
    assert load_run(DEFAULT_ROOT, "last").state == "guard"


def test_what_the_loop_says_of_its_evaluations_and_checkpoints_is_booked():
    accelerator, model = accelerate.Accelerator(cpu=True), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with AccelerateRun(accelerator, model, optimizer, monitor="accuracy", mode="max") as run:
        for accuracy in (0.5, 0.7, 0.6):
            assert not run.step(1.0)
            run.begin_evaluation()
            assert not run.evaluated(accuracy=accuracy, val_loss=1.0)
            run.saved()
    summary = load_run(DEFAULT_ROOT, "last").summary
    assert (summary["best"], summary["best_step"], summary["num_evaluations"]) == (0.7, 2, 3)
    assert summary["spent"]["evaluation"] > 0
    assert summary["spent"]["checkpoints"] > 0


def test_an_exception_and_a_loop_that_was_left():
    accelerator, model = accelerate.Accelerator(cpu=True), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with (
        pytest.raises(ValueError, match="a bad row"),
        AccelerateRun(accelerator, model, optimizer) as run,
    ):
        run.step(1.0)
        raise ValueError("a bad row")
    assert load_run(DEFAULT_ROOT, "last").state == "failed"
    with AccelerateRun(accelerator, model, optimizer, total_steps=9) as run:
        run.step(1.0)
    assert load_run(DEFAULT_ROOT, "last").state == "left"


SCRIPT = """
import json, math, torch, accelerate
from hemostat.train import TrainSettings
from hemostat.train.callbacks import AccelerateRun

accelerator = accelerate.Accelerator(cpu=True)
rank = accelerator.process_index

def steps(settings=None, trigger=0, bad=0, num=10**6):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer = accelerator.prepare(model, optimizer)
    run, number = AccelerateRun(accelerator, model, optimizer, settings, global_batch=16), 0
    while number < num:
        number += 1
        loss = model(torch.ones(8, 4) * (rank + 1)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 1 and number == trigger:
            accelerator.set_trigger()
        if run.step(math.nan if rank == 1 and number == bad else loss):
            break
    run.close()
    return number, run.run.stop.status

told = [steps(trigger=5), steps(TrainSettings(max_skips=0), bad=7), steps(TrainSettings(max_hours="3s"))]
print("TOLD", json.dumps([rank, told]))
"""


def test_two_processes_stop_together_whichever_has_the_reason(two_processes):
    (_, first), (_, second) = two_processes(SCRIPT)
    assert first == second
    assert first[:2] == [[5, 0], [7, 4]]
    assert first[2][1] == 5
