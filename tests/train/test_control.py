import time

import pytest

from hemostat.errors import BudgetStop, Interrupted
from hemostat.track import create_run, load_run
from hemostat.train import control
from hemostat.train.process import World


@pytest.fixture
def run_dir(tmp_path):
    return create_run(tmp_path, "a-run", {"kind": "train"})


def test_nobody_asks_nothing(run_dir):
    assert control.ControlVote(World(), run_dir).vote(3.0, 2.0, 5.0, samples=10) == (
        3.0,
        2.0,
        5.0,
        False,
        None,
        False,
    )


def test_control_json_stops_at_its_sample(run_dir, monkeypatch):
    monkeypatch.setattr(control, "LOOK_EVERY_S", 0.0)
    vote = control.ControlVote(World(), run_dir)
    load_run(run_dir.parent, "a-run").ask("stop", at_samples=20)
    assert vote.vote(0.0, 1.0, 0.0, samples=19).stop is None
    stop = vote.vote(0.0, 1.0, 0.0, samples=20).stop
    assert stop == ("control.json asked for it at 20 samples", 0, False)
    assert stop.error() is None


def test_a_pause_is_no_end(run_dir, monkeypatch):
    monkeypatch.setattr(control, "LOOK_EVERY_S", 0.0)
    vote = control.ControlVote(World(), run_dir)
    load_run(run_dir.parent, "a-run").ask("pause")
    stop = vote.vote(0.0, 1.0, 0.0, samples=20).stop
    assert stop == ("control.json asked for a pause at 20 samples", 0, True)
    assert stop.error() is None


def test_the_file_is_looked_at_twice_a_second_at_most(run_dir):
    vote = control.ControlVote(World(), run_dir)
    vote.vote(0.0, 1.0, 0.0, samples=1)
    load_run(run_dir.parent, "a-run").ask("stop")
    assert vote.vote(0.0, 1.0, 0.0, samples=2).stop is None


def test_a_signal_stops_with_its_name():
    vote = control.ControlVote(World(), None)
    vote.interrupt.name = "SIGTERM"
    stop = vote.vote(0.0, 1.0, 0.0, samples=7).stop
    assert stop == ("SIGTERM at 7 samples", 75, False)
    error = stop.error("; saved")
    assert (type(error), str(error)) == (Interrupted, "SIGTERM at 7 samples; saved")


def test_who_asks_first_stops_the_run():
    vote = control.ControlVote(World(), None)
    vote.askers += [lambda samples: None, lambda samples: control.Stop(f"spent at {samples}", 5)]
    stop = vote.vote(0.0, 1.0, 0.0, samples=7).stop
    assert stop == ("spent at 7", 5, False) and isinstance(stop.error(), BudgetStop)


def test_a_checkpoint_is_due_after_its_time():
    vote = control.ControlVote(World(), None, save_every_s=0.05)
    assert not vote.vote(0.0, 1.0, 0.0, samples=1).save
    time.sleep(0.06)
    assert vote.vote(0.0, 1.0, 0.0, samples=2).save
    vote.saved()
    assert not vote.vote(0.0, 1.0, 0.0, samples=3).save


def votes_to_save(save_every_s: float) -> list[bool]:
    world = World.from_environment("cpu")
    vote = control.ControlVote(world, None, save_every_s)
    try:
        return [vote.vote(0.0, 1.0, 0.0, samples=number).save for number in range(3)]
    finally:
        world.close()


def test_a_checkpoint_that_rank_0_asks_for_is_due_on_all_ranks(ranks):
    assert ranks(2, votes_to_save, 0.0) == [[True] * 3] * 2
    assert ranks(2, votes_to_save, 600.0) == [[False] * 3] * 2
