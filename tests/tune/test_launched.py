"""Trials as real processes: measured, paused, promoted, stopped, killed; nothing is lost and nothing comes twice."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from hemostat.errors import FieldError
from hemostat.launch import BACKENDS
from hemostat.track import RunRecord
from hemostat.tune.launched import LaunchedWorkers, Site
from hemostat.tune.trial_jobs import ScriptJobs
from hemostat.tune.workers import Clock, End, Order, Progress

PRINTS = """
import sys, time
lr, fault = float(sys.argv[1]), sys.argv[2]
for epoch in range(1, 5):
    if fault == "sleep" and epoch == 3: time.sleep(60)
    print(f"epoch {epoch} loss: {lr / epoch}", flush=True)
    if fault == "memory" and epoch == 2: raise MemoryError("8 GiB")
    if fault == "nan" and epoch == 2: print("epoch 3 loss: nan"); break
"""
# takes one sample per step, saves at each, and can be told to pause; `starts.log` has the step of each start
PAUSES = """
import os, pathlib, sys, time
from hemostat.track import Recorder, control
run = pathlib.Path(os.environ["HEMOSTAT_RUN_DIR"])
state = run / "state.txt"
at = int(state.read_text()) if state.exists() else 0
with (run / "starts.log").open("a") as log: log.write(f"{at}\\n")
with Recorder(run, rank=0) as recorder:
    while at < 12 and not control().due(at):
        time.sleep(float(sys.argv[2]))
        at += 1
        recorder.log(at, at, {"loss": float(sys.argv[1]) / at})
        (run / "half").write_text(str(at)); (run / "half").replace(state)
"""


@pytest.fixture
def workers(tmp_path, request):
    made = []

    def make(
        code: str, *words: str, length: int = 4, num: int = 1, metric: str = "loss", ranks: int = 1, **change
    ) -> LaunchedWorkers:
        (tmp_path / "script.py").write_text(code)
        command = (sys.executable, str(tmp_path / "script.py"), "{lr}", *words)
        jobs = ScriptJobs(command, ("lr",), ranks, metric, can_pause=code is PAUSES)
        slots = tuple({"SLOT": str(slot)} for slot in range(num))
        site = Site(study="s", root=tmp_path / "runs", length=length, step=1, slots=slots, **change)
        made.append(LaunchedWorkers(BACKENDS["local"], jobs, site))
        return made[-1]

    yield make
    for one in made:
        one.__exit__(None, None, None)


def comes_true(what) -> None:
    deadline_s = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def order(until: int, start: int = 0, trial: int = 0, **change) -> Order:
    return Order(trial=trial, config={"lr": 1.0}, start=start, until=until, seed=1, **change)


def events(workers: LaunchedWorkers, until=lambda event: isinstance(event, End)) -> list[Progress | End]:
    found: list[Progress | End] = []
    while not found or not until(found[-1]):
        event = workers.wait(workers.now_s() + 30)
        assert event is not None, found
        found.append(event)
    return found


def values(found) -> list[tuple[int, float]]:
    return [(event.point.at, round(event.point.value, 6)) for event in found if isinstance(event, Progress)]


def test_a_script_that_prints_is_a_trial(workers, tmp_path):
    with workers(PRINTS, "well") as crew:
        crew.start(order(4))
        found = events(crew)
    assert values(found) == [(1, 1.0), (2, 0.5), (3, 0.333333), (4, 0.25)]
    assert (found[-1].outcome, found[-1].why) == ("finished", "")
    times = [event.point.time_s for event in found[:-1]]
    assert times == sorted(times)
    assert found[-1].time_s >= times[-1] > 0
    record = RunRecord(tmp_path / "runs" / "s-t000")
    assert record.header["study"] == "s"
    assert record.header["summary"]["best"] == 0.25


@pytest.mark.parametrize(("fault", "outcome"), [("memory", "out_of_memory"), ("nan", "nan")])
def test_failures_are_told_apart(workers, fault, outcome):
    with workers(PRINTS, fault) as crew:
        crew.start(order(4))
        found = events(crew)
    assert found[-1].outcome == outcome
    assert values(found)[:2] == [(1, 1.0), (2, 0.5)]


def test_a_script_that_cannot_pause_is_stopped_and_begins_anew(workers):
    with workers(PRINTS, "sleep") as crew:
        crew.start(order(4))
        events(crew, lambda event: isinstance(event, Progress) and event.point.at == 2)
        crew.stop(0)
        assert events(crew)[-1].outcome == "stopped"
        crew.start(order(4))
        assert values(events(crew, lambda event: isinstance(event, Progress) and event.point.at == 2)) == [
            (1, 1.0),
            (2, 0.5),
        ]


def test_a_pause_and_a_promotion_go_on_from_the_checkpoint(workers, tmp_path):
    with workers(PAUSES, "0.01", length=12) as crew:
        crew.start(order(3))
        first = events(crew)
        assert [at for at, _ in values(first)] == [1, 2, 3]
        assert first[-1].outcome == "paused"
        crew.start(order(12, start=3, issued_s=crew.now_s()))
        second = events(crew)
    assert [at for at, _ in values(second)] == list(range(4, 13))
    assert second[-1].outcome == "finished"
    assert second[0].point.time_s > first[-2].point.time_s
    assert (tmp_path / "runs" / "s-t000" / "starts.log").read_text() == "0\n3\n"


def test_kill_9_of_a_trial_loses_nothing_and_doubles_nothing(workers, tmp_path):
    run_dir = tmp_path / "runs" / "s-t000"
    code = PAUSES.replace("at += 1", "at += 1; (run / 'pid').write_text(str(os.getpid()))")
    (tmp_path / "script.py").write_text(code)
    crew = workers(PAUSES, "0.05", length=12)
    (tmp_path / "script.py").write_text(code)
    with crew:
        crew.start(order(12))
        found = events(crew, lambda event: isinstance(event, Progress) and event.point.at == 4)
        os.kill(int((run_dir / "pid").read_text()), signal.SIGKILL)
        found += events(crew)
        assert found[-1].outcome == "crash"
        assert "SIGKILL" in found[-1].why
        crew.start(order(12, start=0))
        again = events(crew)
    assert again[-1].outcome == "finished"
    both = dict(values(found)) | dict(values(again))
    assert both == {at: round(1 / at, 6) for at in range(1, 13)}
    begun = [int(line) for line in (run_dir / "starts.log").read_text().split()]
    assert begun[0] == 0
    assert begun[1] >= 4


def test_an_end_that_nobody_heard_of_is_not_run_again(workers, tmp_path):
    with workers(PAUSES, "0.01", length=12) as crew:
        crew.start(order(3))
        before = events(crew)
    with workers(PAUSES, "0.01", length=12) as crew:  # its journal was cut before the end
        crew.start(order(3))
        assert values(events(crew)) == values(before)
    assert (tmp_path / "runs" / "s-t000" / "starts.log").read_text() == "0\n"


def test_a_second_stop_ends_it_at_once(workers):
    with workers(
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)"
    ) as crew:
        crew.start(order(4))
        time.sleep(0.5)
        begun_s = time.monotonic()
        crew.stop(0)
        crew.stop(0)
        assert events(crew)[-1].outcome == "stopped"
        assert time.monotonic() - begun_s < 20


def test_leaving_ends_what_runs(workers, tmp_path):
    crew = workers("import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(60)")
    crew.start(order(4))
    output = tmp_path / "runs" / "s-t000" / "output.log"
    comes_true(lambda: output.exists() and "pid" in output.read_text())
    crew.__exit__(None, None, None)
    comes_true(lambda: not is_alive(int(output.read_text().split()[1])))


def test_every_worker_has_its_own_devices_and_gets_them_back(workers, tmp_path):
    code = "import os, time\ntime.sleep(0.2)\nprint('slot', os.environ['SLOT'], 'epoch 4 loss: 1')\n"
    with workers(code, num=2) as crew:
        crew.start(order(4, trial=0))
        crew.start(order(4, trial=1))
        events(crew)
        crew.start(order(4, trial=2))
        events(crew)
        events(crew)
    slots = [
        (tmp_path / "runs" / f"s-t00{trial}" / "output.log").read_text().split()[1] for trial in range(3)
    ]
    assert sorted(slots[:2]) == ["0", "1"]
    assert slots[2] in "01"


def test_a_metric_that_never_appears_is_said_with_what_did(workers):
    with workers(PRINTS, "well", metric="accuracy") as crew:
        crew.start(order(4))
        with pytest.raises(
            FieldError, match=r"metric='accuracy': never appeared in run s-t000.*It gave: loss"
        ):
            events(crew)


def test_a_trial_may_have_several_ranks(workers):
    code = "import os\nif os.environ['RANK'] == '1': print('epoch 4 loss:', os.environ['WORLD_SIZE'], flush=True)\n"
    with workers(code, ranks=2) as crew:
        crew.start(order(4))
        found = events(crew)
    assert values(found) == [(1, 2.0), (2, 2.0), (3, 2.0), (4, 2.0)]
    assert found[-1].outcome == "finished"


def test_without_a_length_the_last_value_counts(workers):
    with workers(PRINTS, "well", length=1, only_end=True) as crew:
        crew.start(order(1))
        found = events(crew)
    assert values(found) == [(1, 0.25)]
    assert found[-1].outcome == "finished"


def test_waiting_ends_when_its_time_has_come(workers):
    with workers(PRINTS, "sleep") as crew:
        crew.start(order(4))
        events(crew, lambda event: isinstance(event, Progress) and event.point.at == 2)
        assert crew.wait(crew.now_s() + 0.2) is None


def test_the_clock_is_that_of_the_study(tmp_path):
    jobs = ScriptJobs(("true", "{lr}"), ("lr",), 1, "loss", can_pause=False)
    site = Site(study="s", root=tmp_path, length=1, step=1, slots=({},))
    assert LaunchedWorkers(BACKENDS["local"], jobs, site, Clock(50.0)).now_s() >= 50.0
