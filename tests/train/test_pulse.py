"""Where a rank stands, what setting it costs, and who is late."""

from __future__ import annotations

import time
import timeit

from hemostat.track import RunRecord
from hemostat.train.pulse import Pulse


def test_a_step_passes_through_its_phases():
    pulse, seen = Pulse(), []
    for phase in ("data", None, "backward", "reduce"):
        pulse.enter(phase) if phase else pulse.hand_out()
        seen.append(pulse.at[:4])
    pulse.stepped(1)
    assert pulse.at.step == 0, "the place changes with the next phase"
    pulse.enter("evaluate")
    pulse.meet()
    seen.append(pulse.at[:4])
    assert seen == [
        ("data", 0, 0, 0),
        ("forward", 0, 1, 0),
        ("backward", 0, 1, 0),
        ("reduce", 0, 1, 0),
        ("evaluate", 1, 0, 1),
    ]


def test_setting_a_phase_costs_less_than_a_microsecond():
    pulse = Pulse()
    best_s = min(timeit.repeat(lambda: pulse.enter("data"), number=1000, repeat=50)) / 1000
    assert best_s < 1e-6


def test_who_is_late_is_told_by_the_times_of_the_beats(tmp_path):
    pulse = Pulse()
    assert pulse.who_is_late() == ""
    pulse.run_dir = tmp_path
    assert pulse.who_is_late() == ""
    record = RunRecord(tmp_path)
    record.beat(0, phase="reduce", phase_s=40.0, stall_s=30, time=time.time())
    record.beat(1, phase="forward", phase_s=1.0, stall_s=30, time=time.time() - 50)
    assert pulse.who_is_late().startswith("rank 1 hangs in forward after step 0 for 51 s")
