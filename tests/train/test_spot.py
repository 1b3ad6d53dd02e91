"""Spot notices, from a server that answers as the clouds do."""

from __future__ import annotations

import threading
import time
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import FieldError, HemostatWarning
from hemostat.recipe import Base
from hemostat.track import load_run
from hemostat.train import Session, TrainSettings
from hemostat.train.spot import SpotWatch

ACTION = '{"action": "terminate", "time": "2026-11-30T08:22:00Z"}'


@pytest.fixture
def metadata():
    """`answers` by (method, path): status and text; `asked` with the headers."""
    kept = SimpleNamespace(answers={}, asked=[])

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kept.asked.append(
                (self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
            )
            status, text = kept.answers.get((self.command, self.path), (404, "<html>not found</html>"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    kept.host = f"127.0.0.1:{server.server_port}"
    kept.url = f"http://{kept.host}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield kept
    server.shutdown()
    server.server_close()


def test_aws_is_asked_with_a_token(metadata, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # never asked
    metadata.answers["PUT", "/latest/api/token"] = (200, "t0k3n")
    watch = SpotWatch("aws")
    assert watch.look() == ""
    put, get = metadata.asked
    assert put[0] == "PUT" and put[2]["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
    assert get[2]["x-aws-ec2-metadata-token"] == "t0k3n"
    metadata.answers["GET", "/latest/meta-data/spot/instance-action"] = (200, ACTION)
    assert watch.look() == "spot notice of AWS (terminate at 2026-11-30T08:22:00Z)"


def test_gcp_is_asked_with_its_header(metadata, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", metadata.host)
    path = "/computeMetadata/v1/instance/preempted"
    metadata.answers["GET", path] = (200, "FALSE")
    watch = SpotWatch("gcp")
    assert watch.look() == ""
    assert metadata.asked[0][2]["metadata-flavor"] == "Google"
    metadata.answers["GET", path] = (200, "TRUE\n")
    assert watch.look() == "spot notice of GCP (preempted)"


@pytest.mark.parametrize("none", [(404, "no"), (200, ""), (200, "False"), (200, " none\n")])
def test_an_address_of_ones_own(metadata, none):
    metadata.answers["GET", "/notice"] = none
    watch = SpotWatch(f"{metadata.url}/notice")
    assert watch.look() == ""
    metadata.answers["GET", "/notice"] = (200, "evicted at 12:00")
    assert watch.look() == f"spot notice from {metadata.url}/notice (evicted at 12:00)"


def session(spot: str | None, epochs: float = 20) -> Session:
    data = TensorDataset(torch.ones(4000, 2))
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=4, epochs=epochs)
    return Session(torch.nn.Linear(2, 1), None, data, base, settings=TrainSettings(spot=spot))


def trained(running: Session, change: object = None, at: int = 5) -> Session:
    with running:
        for (inputs,) in running.steps():
            running.backward(running.model(inputs).sum(), count=len(inputs))
            time.sleep(0.002)
            if running.last.number == at and change is not None:
                change()
    return running


def test_a_notice_saves_the_run_with_75(metadata, tmp_path, monkeypatch):
    """T053: a notice comes in any phase and is one with a signal from there on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SpotWatch.__init__, "__defaults__", (0.05,))
    metadata.answers["GET", "/notice"] = (404, "")
    running = session(f"{metadata.url}/notice")
    trained(running, lambda: metadata.answers.update({("GET", "/notice"): (200, "evicted")}))
    assert 5 <= running.last.number < running.recipe.total_steps
    assert running.stop.status == 75 and running.stop_reason.startswith("spot notice from http://127.0.0.1")
    record = load_run(running.record.path.parent)
    assert record.exit[0] == 75 and "spot notice from" in record.exit[1]
    assert [path.name for path in (record.path / "checkpoints").glob("step-*")] == [
        f"step-{running.last.number:09d}"
    ]
    assert not [
        thread for thread in threading.enumerate() if thread.name == "hemostat-spot" and _lives(thread)
    ]


def _lives(thread: threading.Thread) -> bool:
    thread.join(2.0)
    return thread.is_alive()


def test_an_address_that_is_dead_is_told_once_and_costs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SpotWatch.__init__, "__defaults__", (0.01,))
    running = session("http://127.0.0.1:9/notice", epochs=0.3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(running, lambda: running.control.askers.append(lambda samples: None), at=100)
    told = [str(item.message) for item in caught if item.category is HemostatWarning]
    assert len(told) == 1
    assert told[0].startswith("train.spot=http://127.0.0.1:9/notice: ") and "training goes on" in told[0]
    assert running.outcome.status == "ended"


def test_one_rank_of_a_machine_asks():
    assert SpotWatch.of("aws", 0) is not None
    assert SpotWatch.of("aws", 1) is None and SpotWatch.of(None, 0) is None


def test_another_name_is_refused():
    with pytest.raises(FieldError, match=r"train\.spot='azure': is no place to ask"):
        TrainSettings(spot="azure")
