"""The thread of a rank: it beats, brings the stack of a long phase, wakes a late wait, and leaves nothing."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from hemostat.track.beats import read_beats
from hemostat.train.heartbeat import Heartbeat
from hemostat.train.interrupt import Interrupt
from hemostat.train.process import World


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_beats_with_the_stack_of_a_long_phase_and_leaves_nothing(tmp_path):
    world = World(rank=1, num_ranks=2, device="cpu")
    heartbeat = Heartbeat(world, tmp_path, stall_s=0.2)
    world.pulse.stepped(4)
    world.pulse.enter("data")
    heartbeat.start(Interrupt())
    wait_for(lambda: read_beats(tmp_path) and read_beats(tmp_path)[0].stack)
    (beat,) = read_beats(tmp_path)
    assert (beat.rank, beat.phase, beat.step, beat.stall_s) == (1, "data", 4, 0.2)
    assert "wait_for" in beat.stack
    world.pulse.enter("forward")
    wait_for(lambda: read_beats(tmp_path)[0].phase == "forward" and not read_beats(tmp_path)[0].stack)
    heartbeat.close()
    heartbeat.close()
    assert not list(tmp_path.iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name == "hemostat-heartbeat"]


def test_rank_0_tells_of_a_hang_where_no_launcher_does(tmp_path, capsys):
    worlds = [World(rank=rank, num_ranks=2, device="cpu") for rank in range(2)]
    worlds[0].pulse.enter("reduce")
    worlds[1].pulse.enter("forward")
    beats = [Heartbeat(world, tmp_path, stall_s=0.4) for world in worlds]
    for heartbeat in beats:
        heartbeat.start(Interrupt())
    time.sleep(1.2)
    for heartbeat in beats:
        heartbeat.close()
    said = capsys.readouterr().err
    assert said.count("error: rank 1 hangs in forward after step 0") == 1 and "It stands at" in said


def test_one_rank_alone_writes_nothing(tmp_path):
    heartbeat = Heartbeat(World(), tmp_path, stall_s=0.2)
    heartbeat.start(Interrupt())
    time.sleep(0.1)
    heartbeat.close()
    assert not list(tmp_path.iterdir())


def test_a_wait_for_data_ends_when_its_grace_is_over(tmp_path):
    world = World()
    interrupt = Interrupt(world.pulse, grace_s=0.3)
    heartbeat = Heartbeat(world, tmp_path, stall_s=0.4)
    interrupt.install()
    heartbeat.start(interrupt)
    try:
        world.pulse.enter("data")
        signal.raise_signal(signal.SIGTERM)
        began_s = time.monotonic()
        with pytest.raises(
            KeyboardInterrupt, match=r"the data of step 1 did not come within 0.3 s; there is no checkpoint"
        ):
            time.sleep(20)
        assert time.monotonic() - began_s < 5
    finally:
        interrupt.remove()
        heartbeat.close()


def test_a_signal_outside_of_a_wait_for_data_is_only_noted():
    world = World()
    interrupt = Interrupt(world.pulse, grace_s=0.0)
    heartbeat = Heartbeat(world, None, stall_s=0.2)
    interrupt.install()
    heartbeat.start(interrupt)
    try:
        world.pulse.enter("forward")
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.4)
        assert interrupt.name == "SIGTERM"
    finally:
        interrupt.remove()
        heartbeat.close()
