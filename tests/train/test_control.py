import pytest

from hemostat.track import create_run, load_run
from hemostat.train import control
from hemostat.train.process import World


@pytest.fixture
def run_dir(tmp_path):
    return create_run(tmp_path, "a-run", {"kind": "train"})


def test_nobody_asks_nothing(run_dir):
    assert control.ControlVote(World(), run_dir).vote(3.0, 2.0, 5.0, samples=10) == (3.0, 2.0, 5.0, "")


def test_control_json_stops_at_its_sample(run_dir, monkeypatch):
    monkeypatch.setattr(control, "LOOK_EVERY_S", 0.0)
    vote = control.ControlVote(World(), run_dir)
    load_run(run_dir.parent, "a-run").ask("stop", at_samples=20)
    assert vote.vote(0.0, 1.0, 0.0, samples=19).stop_reason == ""
    assert vote.vote(0.0, 1.0, 0.0, samples=20).stop_reason == "control.json asked for it at 20 samples"
    assert not vote.interrupted


def test_the_file_is_looked_at_twice_a_second_at_most(run_dir):
    vote = control.ControlVote(World(), run_dir)
    vote.vote(0.0, 1.0, 0.0, samples=1)
    load_run(run_dir.parent, "a-run").ask("stop")
    assert vote.vote(0.0, 1.0, 0.0, samples=2).stop_reason == ""


def test_a_signal_stops_with_its_name():
    vote = control.ControlVote(World(), None)
    vote.interrupt.name = "SIGTERM"
    assert vote.vote(0.0, 1.0, 0.0, samples=7).stop_reason == "SIGTERM at 7 samples"
    assert vote.interrupted
