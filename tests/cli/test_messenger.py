"""Who is told, and how often, when real runs end in each of their ways."""

import base64
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hemostat.cli import messenger
from hemostat.cli.project import Project
from hemostat.report import NotifySettings
from hemostat.track import Recorder, create_run, update_run, write_exit

TASK = """
import time, torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    optimizer: str = "sgd"
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 4
    patience: int = 3
    poison: bool = False
    nap_s: float = 0.0

    def model(self):
        return torch.nn.Linear(3, 1)

    def train_data(self):
        x = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
        return TensorDataset(x, x.sum(1, keepdim=True))

    def val_data(self):
        return self.train_data()

    def loss(self, output, target):
        time.sleep(self.nap_s)
        total = ((output - target) ** 2).sum()
        return total * float("nan") if self.poison and torch.is_grad_enabled() else total, len(target)
"""
TITLES = {
    "ended": "has ended",
    "guard": "was stopped by a guard",
    "cap": "has reached its cap",
    "killed": "has crashed",
}


@pytest.fixture
def here(tmp_path, monkeypatch, webhook, mail_server):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HEMOSTAT_NOTIFY", mail_server.url)
    (tmp_path / "line.py").write_text(TASK)
    (tmp_path / "hemostat.toml").write_text(f'[notify]\nurls = ["{webhook.url}"]\n')
    return tmp_path


def start(*words):
    command = [sys.executable, "-m", "hemostat", "train", "line.py:Line", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


def the_message(webhook, mail_server):
    (message,) = webhook.got
    assert len(mail_server.got) == 1
    return message["title"], message["message"], message


def assert_no_secret(folder, said):
    texts = [path.read_text(errors="replace") for path in folder.glob(".hemostat/**/*.json*")]
    assert texts and all("hunter2" not in text and "secret-path" not in text for text in [*texts, said])


def test_a_normal_end(here, webhook, mail_server):
    status, said = finish(start())
    title, body, message = the_message(webhook, mail_server)
    assert status == 0 and title.endswith(TITLES["ended"])
    assert "the run reached its end" in body and "Best val_loss" in body and "hemostat runs show" in body
    assert message["attachments"][0]["filename"] == "loss.png"
    assert_no_secret(here, said)


@pytest.mark.slow
def test_an_early_stop_is_an_end(here, webhook, mail_server):
    status, said = finish(
        start("--set", "epochs=400", "--set", "lr=0.3", "--set", "schedule=constant", "--set", "patience=2")
    )
    title, body, _ = the_message(webhook, mail_server)
    assert status == 0 and title.endswith(TITLES["ended"]) and "reached its end" not in body, said


@pytest.mark.slow
def test_a_guard(here, webhook, mail_server):
    status, said = finish(start("--set", "poison=true", "--set", "train.max_skips=1"))
    first, message = webhook.got  # the first step that was skipped, and the end
    title, body = message["title"], message["message"]
    assert first["title"].startswith("hemostat: HG007") and "skipped" in first["message"]
    assert status == 4 and title.endswith(TITLES["guard"]), said
    (run,) = here.glob(".hemostat/runs/2*")
    assert f"go on: hemostat train --resume {run.name}\n" in body


def test_kill_9_of_all_ranks(here, webhook, mail_server):
    process = start("--nproc", "2", "--set", "epochs=1000", "--set", "nap_s=0.02", "--set", "patience=1000")
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not list(here.glob(".hemostat/runs/*/checkpoints/step-*")):
        time.sleep(0.2)
    ranks = ranks_of(next(here.glob(".hemostat/runs/2*")))
    assert len(ranks) == 2
    for pid in ranks:
        os.kill(pid, signal.SIGKILL)
    status, said = finish(process)
    title, body, message = the_message(webhook, mail_server)
    (run,) = here.glob(".hemostat/runs/2*")
    assert status == 3 and title.endswith(TITLES["killed"]), said
    assert "SIGKILL" in body and f"go on: hemostat train --resume {run.name}" in body
    assert message["attachments"][0]["filename"] == "loss.png"


@pytest.mark.slow
def test_a_cap_and_a_budget_line_are_told_each_once(here, webhook, mail_server):
    settings = (here / "hemostat.toml").read_text()
    (here / "hemostat.toml").write_text(f"[budget]\nusd = 0.01\n{settings}")
    words = (
        "--set",
        "epochs=1000",
        "--set",
        "nap_s=0.02",
        "--set",
        "train.usd_per_hour=3.6",
        "--max-usd",
        "0.012",
    )
    status, said = finish(start(*words, "--set", "patience=1000"))
    assert status == 5
    titles = sorted(message["title"] for message in webhook.got)
    assert titles[1] == "hemostat: the project's budget" and titles[0].endswith(TITLES["cap"])
    assert len(titles) == len(mail_server.got) == 2 and said.count("of the project's budget is spent") == 1
    status, said = finish(start())
    assert status == 5 and "budget.usd=$0.01" in said and len(webhook.got) == 2  # refused: no run, no news
    status, said = finish(start("--set", "train.over_budget=true"))
    assert status == 0 and webhook.got[-1]["title"].endswith(TITLES["ended"]) and len(webhook.got) == 3


SPIKE = {"code": "HG001", "severity": 1, "message": "The loss has a spike.", "fix": "Look at batch 7."}


@pytest.fixture
def told(here, webhook, monkeypatch):
    """A run with a loss, a messenger for it, and a wait for what it has sent: titles and pictures."""
    monkeypatch.setattr(messenger, "LOOK_S", 0.05)
    monkeypatch.delenv("HEMOSTAT_NOTIFY")
    run_dir = create_run(here, "a-run", {"kind": "train"})
    with Recorder(run_dir, 0) as recorder:
        recorder.log(1, 8, {"loss": 1.0})
        recorder.log(2, 16, {"loss": 9.0})

    def sent(num):
        deadline = time.monotonic() + 30
        while len(webhook.got) < num and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)  # for one too many
        assert len(webhook.got) == num
        return webhook.got[-1]

    return SimpleNamespace(
        run_dir=run_dir,
        sent=sent,
        messenger=lambda **more: messenger.Messenger(
            run_dir, Project(notify=NotifySettings(urls=(webhook.url,))), **more
        ),
    )


def test_a_verdict_that_does_not_end_the_run_is_told_as_it_happens(told):
    with told.messenger():
        update_run(told.run_dir, verdicts=[SPIKE])
        message = told.sent(1)
        # the same one again is no news, and an error comes with the end
        update_run(told.run_dir, verdicts=[SPIKE, SPIKE, {**SPIKE, "code": "HG002", "severity": 2}])
        told.sent(1)
        update_run(told.run_dir, verdicts=[SPIKE, {**SPIKE, "message": "Another spike."}])
        assert "Another spike." in told.sent(2)["message"]
    assert message["title"] == "hemostat: HG001 in run a-run"
    assert (
        "spike. Look at batch 7." in message["message"] and f"kill -TERM {os.getpid()}" in message["message"]
    )
    assert message["attachments"][0]["filename"] == "loss.png"


def test_a_resumed_run_tells_nothing_twice(told):
    update_run(told.run_dir, verdicts=[SPIKE])
    with told.messenger() as resumed:
        time.sleep(0.3)
        update_run(told.run_dir, verdicts=[SPIKE, {**SPIKE, "message": "Another spike."}])
        assert "Another spike." in told.sent(1)["message"]
        write_exit(told.run_dir, 0, 137, "rank 0 was killed")
        resumed.ended(3)
        assert told.sent(2)["title"] == "hemostat: run a-run has crashed"


def test_the_picture_is_of_now_and_none_is_sent_where_none_is_wanted(told):
    (told.run_dir / "loss.png").write_bytes(b"of an attempt long ago")
    write_exit(told.run_dir, 0, 137, "rank 0 was killed")
    with told.messenger() as crashed:
        crashed.ended(3)
        (picture,) = told.sent(1)["attachments"]
    assert base64.b64decode(picture["base64"]).startswith(b"\x89PNG")
    with told.messenger(draws=False) as crashed:
        crashed.ended(3)
        assert told.sent(2)["attachments"] == []


def test_a_paused_run_names_the_way_on(told):
    write_exit(told.run_dir, 0, 0, "")
    update_run(told.run_dir, summary={"status": "paused", "reason": "control.json asked for a pause"})
    with told.messenger() as paused:
        (told.run_dir / "checkpoints" / "step-000000002").mkdir(parents=True)
        paused.ended(0)
        message = told.sent(1)
    assert message["title"] == "hemostat: run a-run was paused"
    assert "go on: hemostat train --resume a-run" in message["message"]


def test_a_typing_error_is_no_news(here, webhook, mail_server):
    status, _ = finish(start("--set", "lr=fast"))
    assert status == 2 and webhook.got == [] and mail_server.got == []


@pytest.mark.slow
def test_a_dead_address_is_a_note_and_nothing_more(here, webhook):
    webhook.answer = 500
    status, said = finish(start())
    assert status == 0 and "note: notification 1 (json) was not taken" in said
    assert_no_secret(here, said)


def ranks_of(run_dir):
    """Processes of the job that joined as a rank."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        ours = f"HEMOSTAT_RUN_DIR={run_dir.resolve()}".encode() in environment
        if ours and any(item.startswith(b"LOCAL_RANK=") for item in environment):
            found.append(int(folder.name))
    return found
