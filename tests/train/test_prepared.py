"""A script that keeps its loops: epochs, breaks, idle lines, and an end without `with`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hemostat.errors import TaskError, UnknownNameError
from hemostat.recipe import Devices
from hemostat.train import TrainSettings, prepare

QUIET = TrainSettings(record=False)


def prepared(epochs: float = 2, devices: Devices | None = None, num: int = 20, **base):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(num, 3)), batch_size=8, shuffle=True)
    return prepare(model, optimizer, loader, devices, QUIET, epochs=epochs, **base)


def step(session, model, batch) -> None:
    session.backward(model(batch[0]).square().sum(), len(batch[0]))


def test_each_pass_is_one_epoch_and_the_run_ends_with_the_last():
    session, model, _, loader = prepared()
    seen = [[len(batch[0]) for batch in loader if not step(session, model, batch)] for _ in range(4)]
    session.close()
    assert seen == [[8, 8, 4], [8, 8, 4], [], []]
    assert session.outcome.reason == "the run reached its end"
    assert session.last.lr == pytest.approx(0.1)


@pytest.mark.parametrize("devices", [None, Devices(accumulation=3), Devices(accumulation=8)])
def test_the_length_is_that_of_one_epoch(devices):
    session, model, _, loader = prepared(devices=devices)
    passes = [sum(1 for batch in loader if not step(session, model, batch)) for _ in range(2)]
    session.close()
    assert passes == [len(loader)] * 2


def test_the_recipe_is_read_off_the_optimizer_and_the_loader():
    session, *_ = prepared(schedule="cosine", clip_norm=1.0)
    session.close()
    recipe = session.recipe
    assert (recipe.optimizer, recipe.lr, recipe.global_batch, recipe.clip_norm) == ("sgd", 0.1, 8, 1.0)


def test_idle_lines_change_nothing():
    def weights(idle: bool) -> torch.Tensor:
        session, model, optimizer, loader = prepared(devices=Devices(accumulation=2))
        for _ in range(2):
            for batch in loader:
                if idle:
                    optimizer.zero_grad()
                step(session, model, batch)
                if idle:
                    optimizer.step()
        session.close()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
        return torch.cat([param.detach().flatten() for param in model.parameters()])

    assert torch.equal(weights(True), weights(False))


def test_the_raw_optimizer_must_not_step():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    raw = torch.optim.SGD(model.parameters(), lr=0.1)
    session, model, _, loader = prepare(model, raw, TensorDataset(torch.randn(8, 3)), settings=QUIET)
    with pytest.raises(TaskError, match=r"optimizer\.step\(\) was called beside"):
        for batch in loader:
            step(session, model, batch)
            raw.step()
    session.close()
    raw.step()  # afterwards it is the user's again


def test_after_a_break_the_next_pass_goes_on():
    session, model, _, loader = prepared()
    for batch in loader:
        step(session, model, batch)
        break
    rest = [len(batch[0]) for batch in loader if not step(session, model, batch)]
    session.close()
    assert rest == [8, 4]


def test_a_batch_without_backward_is_an_error_at_the_end_of_an_epoch_too():
    session, model, _, loader = prepared()
    with pytest.raises(TaskError, match="Call it once a batch"):
        for number, batch in enumerate(loader):
            if number < 2:
                step(session, model, batch)
    session.close()


def test_a_with_block_around_it_is_no_second_run():
    session, model, _, loader = prepared(epochs=1)
    with session:
        for batch in loader:
            step(session, model, batch)
    session.close()
    assert session.outcome.steps == 3


def test_an_unknown_field_is_named():
    with pytest.raises(UnknownNameError, match=r"prepare='epoch'.*Did you mean 'epochs'"):
        prepared(epoch=3)


SCRIPT = """
import sys, torch, hemostat
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.ones(8, 2))
session, model, optimizer, loader = hemostat.prepare(model, optimizer, data, tuned_batch=4, epochs=2)
for (inputs,) in loader:
    session.backward(model(inputs).sum(), len(inputs))
    if sys.argv[1:]:
        raise ValueError("a mistake of the script")
"""


@pytest.mark.parametrize(
    ("arguments", "reason"), [((), "the loop was left"), (("x",), "a mistake of the script")]
)
def test_a_run_that_nobody_closed_ends_with_the_process(arguments, reason, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == len(arguments), done.stderr
    (header,) = (tmp_path / ".hemostat" / "runs").glob("*/run.json")
    summary = json.loads(header.read_text())["summary"]
    assert (summary["reason"], summary["steps"]) == (reason, 1 if arguments else 2)
