"""The table of docs/own_loop.md: what a loop of one's own has, and what it gives up, row by row."""

from __future__ import annotations

import os
import re
import signal

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import hemostat
from hemostat import Base, Session
from hemostat.cli.main import run as hemostat_run
from hemostat.errors import HemostatError, TaskError
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.track import RunRecord, load_run
from hemostat.train import TrainSettings, check_loss, train
from hemostat.train.weights import read_weights

QUIET = TrainSettings(record=False)
ROW = re.compile(r"^\| .*\|$", re.MULTILINE)


@pytest.fixture(scope="module")
def table(examples) -> list[list[str]]:
    page = (examples.parent / "docs" / "own_loop.md").read_text(encoding="utf-8")
    inner = page.split("<!-- own-loop:gives-up -->")[1].split("<!-- /own-loop -->")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in ROW.findall(inner)][2:]


def test_every_row_has_a_test_that_exists_or_a_link(table, examples):
    tests = (examples.parent / "tests").rglob("test_*.py")
    names = {
        name for path in tests for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(table) >= 8
    for row in table:
        shown = re.findall(r"`(test_\w+)`", row[-1])
        assert set(shown) <= names, row
        assert shown or re.search(r"\]\(\w+\.md\)", row[-1]), row


@pytest.fixture
def parts():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 1), TensorDataset(torch.randn(32, 3), torch.randn(32, 1))


def loss_of(model, batch) -> torch.Tensor:
    return (model(batch[0]) - batch[1]).square().sum()


def loop(session: Session) -> Session:
    with session:
        for batch in session.steps():
            session.backward(loss_of(session.model, batch), len(batch[0]))
    return session


def base(**given) -> Base:
    return Base(**{"optimizer": "sgd", "lr": 0.05, "tuned_batch": 8, "epochs": 2} | given)


def test_the_wait_is_in_the_outcome(parts):
    outcome = loop(Session(parts[0], None, parts[1], base(), settings=QUIET)).outcome
    assert 0 < outcome.wait_share < 1
    assert outcome.waited


def test_the_run_is_recorded_and_can_be_stopped(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Session(*parts[:1], None, parts[1], base()) as session:
        for number, batch in enumerate(session.steps()):
            session.backward(loss_of(session.model, batch), len(batch[0]))
            if number == 1:
                os.kill(os.getpid(), signal.SIGTERM)
    assert "SIGTERM" in session.outcome.reason
    assert session.last.number == 3
    run = load_run(session.record.path.parent, session.record.path.name)
    assert len(run.metrics("loss")) == 3
    assert run.header["data"]["tier"] == "full" and run.header["data"]["num_samples"] == 32
    assert run.header["provenance"] and run.header["recipe"]


def test_the_schedule_of_each_door(parts):
    model, data = parts
    rates = []
    with Session(model, None, data, base(warmup_steps=4), settings=QUIET) as session:
        for batch in session.steps():
            session.backward(loss_of(model, batch), len(batch[0]))
            rates.append(session.last.lr)
    assert rates[0] < max(rates) > rates[-1]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session, model, _, loader = hemostat.prepare(
        model, optimizer, DataLoader(data, 8), settings=QUIET, epochs=2
    )
    rates = []
    for batch in loader:
        session.backward(loss_of(model, batch), len(batch[0]))
        rates.append(session.last.lr)
    session.close()
    assert rates == [pytest.approx(0.05)] * 4


def test_a_loop_is_judged_only_when_it_asks(parts):
    model, data = parts
    silent = loop(Session(model, None, data, base(patience=1, schedule="constant"), settings=QUIET))
    assert silent.outcome.best is None and silent.last.number == 8

    def measure(model, batch):
        return {"val_loss": (loss_of(model, batch), len(batch[0]))}

    with Session(
        model, None, data, base(patience=1, schedule="constant", epochs=20), settings=QUIET
    ) as asking:
        for batch in asking.steps():
            asking.backward(loss_of(model, batch), len(batch[0]))
            asking.evaluate(data, measure)
            asking.judge(1.0)
    assert asking.last.number < 80
    assert asking.outcome.final["val_loss"] > 0
    assert asking.outcome.reason != "the run reached its end"


def mean(model, batch):
    return (model(batch[0]) - batch[1]).square().mean(), len(batch[0])


def test_a_mean_goes_unseen_without_the_check(parts):
    model, data = parts
    with Session(model, None, data, base(), Devices(accumulation=2), QUIET) as session:
        for batch in session.steps():
            session.backward(*mean(session.model, batch))
    assert session.applied_steps == 8
    with pytest.raises(TaskError, match="mean returns a mean where a sum belongs"):
        check_loss(Session(model, None, data, base(), settings=QUIET), mean)


TASK = """
import torch, hemostat
class Line(hemostat.Task):
    lr: float = 0.05
    optimizer: str = "sgd"
    tuned_batch: int = 8
    def model(self): return torch.nn.Linear(3, 1)
    def train_data(self): return torch.utils.data.TensorDataset(torch.ones(32, 3), torch.ones(32, 1))
    val_data = train_data
    def loss(self, output, target): return (output - target).{kind}, len(target)
"""


@pytest.fixture
def task_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(kind: str = "square().sum()"):
        (tmp_path / "line.py").write_text(TASK.replace("{kind}", kind))
        return load_task("line.py:Line", {})

    return write


def test_a_task_is_checked_by_itself(task_file):
    with pytest.raises(HemostatError, match="a mean where a sum belongs"):
        train(task_file("square().mean()"), Devices(), TrainSettings())


def test_the_last_weights_are_saved_and_the_best_when_the_loop_says_so(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = loop(Session(parts[0], None, parts[1], base()))
    saved = read_weights(RunRecord(session.record.path))
    assert (saved.name, saved.step) == ("last", session.last.number)
    with Session(parts[0], None, parts[1], base()) as session:
        for batch in session.steps():
            session.backward(loss_of(session.model, batch), len(batch[0]))
            if session.last.number == 2:
                session.save("best")
    saved = read_weights(RunRecord(session.record.path))
    assert (saved.name, saved.step) == ("best", 2)


def test_a_loop_is_judged_by_a_task_that_is_named(parts, task_file, tmp_path, capfd):
    task_file()
    loop(Session(parts[0], None, parts[1], base(), settings=TrainSettings(save=False)))
    unsaved = "error: run "
    for words in (["evaluate", "last"], ["export", "last", "out"]):
        assert hemostat_run(words) == 2
        said = capfd.readouterr().err
        assert said.startswith(unsaved) and said.count("\n") == 1 and "save=False" in said
    with Session(parts[0], None, parts[1], base()) as session:
        for batch in session.steps():
            session.backward(loss_of(session.model, batch), len(batch[0]))
    for words in (["evaluate", "last"], ["export", "last", "out"]):
        assert hemostat_run(words) == 2
        said = capfd.readouterr().err
        assert said.count("\n") == 1 and "no task is recorded" in said and "--task FILE.py:CLASS" in said
        assert hemostat_run([*words, "--task", "line.py:Line"]) == 0
    capfd.readouterr()
    (judged,) = load_run(tmp_path / ".hemostat" / "runs").evaluations()
    expected = loss_of(parts[0], (torch.ones(1, 3), torch.ones(1, 1))).item()
    assert judged["figures"]["val_loss"]["value"] == pytest.approx(expected, rel=1e-5)
    inputs = torch.randn(4, 3)
    for source in ("last", "out"):
        again = hemostat.load(source, model=torch.nn.Linear(3, 1))
        assert torch.equal(again(inputs), parts[0](inputs))


def test_a_loop_prints_nothing(parts, task_file, capfd):
    loop(Session(parts[0], None, parts[1], base(), settings=QUIET))
    assert capfd.readouterr() == ("", "")


def test_the_record_has_no_task(parts, task_file, tmp_path):
    session = loop(Session(parts[0], None, parts[1], base()))
    alone = load_run(session.record.path.parent, session.record.path.name).header
    train(task_file(), Devices(), TrainSettings())
    folders = {path.parent for path in (tmp_path / ".hemostat" / "runs").glob("*/run.json")}
    (run,) = folders - {session.record.path.resolve()}
    assert "task" in load_run(run.parent, run.name).header
    assert "task" not in alone
