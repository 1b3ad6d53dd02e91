"""Worker processes: order, errors, death, stalls, growth, and nothing left behind, whatever happens."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset

from hemostat.data import Feed, Source, TrainLoader, Workers
from hemostat.data.jobs import Job
from hemostat.data.processes import Processes
from hemostat.errors import EnvironmentFailure, HemostatWarning, TaskError


class Rows(Dataset):
    """Does something bad at one index, once if there is a marker file to remember it by."""

    def __init__(self, at=None, act=None, marker=None):
        self.at, self.act, self.marker = at, act, marker

    def __len__(self):
        return 80

    def __getitem__(self, index):
        if index == self.at and not (self.marker and self.marker.exists()):
            if self.marker:
                self.marker.touch()
            self.act()
        return torch.full((3,), index), os.getpid()


def jobs(num_batches=10):
    for number in range(num_batches):
        yield Job(torch.arange(8 * number, 8 * number + 8), 0, 8, 8, True, 8 * number + 8)


def pool_of(dataset, stall_s=30.0, num_workers=2, slot_bytes=0):
    return Processes(jobs(), Source(dataset), 0, num_workers, slot_bytes, stall_s)


def rows_of(pool):
    found, pids = [], set()
    for batch, fetch_s in pool:
        found += batch.data[0][:, 0].tolist()
        pids |= set(batch.data[1].tolist())
        assert fetch_s > 0
    return found, pids


def gone(pid):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return True
        time.sleep(0.05)
    return False


def test_in_order_from_several_processes_and_again_at_the_end():
    pool = pool_of(Rows())
    found, pids = rows_of(pool)
    assert found == list(range(80))
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert next(pool, "over") == "over"
    pool.close()
    pool.close()
    assert all(gone(pid) for pid in pids)


def test_batches_that_are_kept_stay_what_they_were():
    pool = pool_of(Rows())
    kept = [batch for batch, _ in pool]
    pool.close()
    assert [row for batch in kept for row in batch.data[0][:, 2].tolist()] == list(range(80))


def sleep_long():
    time.sleep(600)


def test_a_stuck_worker_is_named_killed_and_its_batch_read_by_a_new_one(tmp_path):
    """T073."""
    pool = pool_of(Rows(at=37, act=sleep_long, marker=tmp_path / "once"), stall_s=0.5)
    with pytest.warns(HemostatWarning) as caught:
        found, pids = rows_of(pool)
    assert found == list(range(80)), "none lost, none twice"
    message = str(caught[0].message)
    assert "data worker 0" in message
    assert "has not answered for 0.5 s at sample 37" in message
    assert "in sleep_long" in message
    assert pool.num_restarts == 1
    pool.close()
    assert all(gone(pid) for pid in pids)


def test_a_worker_that_dies_is_replaced(tmp_path):
    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    pool = pool_of(Rows(at=20, act=die, marker=tmp_path / "once"))
    with pytest.warns(HemostatWarning, match=r"has died at sample 20 \(exit code -9\)"):
        assert rows_of(pool)[0] == list(range(80))
    pool.close()


def test_a_segmentation_fault_leaves_its_stack(tmp_path):
    def crash():
        os.kill(os.getpid(), signal.SIGSEGV)

    pool = pool_of(Rows(at=3, act=crash, marker=tmp_path / "once"))
    with pytest.warns(HemostatWarning, match=r"Segmentation fault[\s\S]*in crash"):
        assert rows_of(pool)[0] == list(range(80))
    pool.close()


def test_a_batch_that_costs_two_workers_ends_the_run():
    pool = pool_of(Rows(at=37, act=sleep_long), stall_s=0.3)
    with (
        pytest.warns(HemostatWarning),
        pytest.raises(EnvironmentFailure, match=r"at sample 37[\s\S]*has cost 2 workers. Mend or leave out"),
    ):
        rows_of(pool)
    pool.close()


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def bus_error():
    os.kill(os.getpid(), signal.SIGBUS)


def leave():
    os._exit(3)


@pytest.mark.parametrize(
    ("act", "fix"),
    [
        (kill, "memory ran out: lower train.workers.num"),
        (bus_error, "file was shortened"),
        (leave, "Mend or leave"),
    ],
)
def test_what_to_do_about_a_sample_that_kills_its_readers(act, fix):
    pool = pool_of(Rows(at=3, act=act))
    with (
        pytest.warns(HemostatWarning),
        pytest.raises(EnvironmentFailure, match="has cost 2 workers") as caught,
    ):
        rows_of(pool)
    last = str(caught.value).splitlines()[-1]
    assert fix in last and "stall_s" not in last
    pool.close()


def test_an_exception_names_sample_and_line_and_comes_after_the_batches_before_it():
    def broken():
        raise ValueError("broken image")

    pool = pool_of(Rows(at=37, act=broken))
    found = []
    with pytest.raises(
        TaskError, match=r"sample 37 raised ValueError: broken image at .*test_processes"
    ) as caught:
        for batch, _ in pool:
            found += batch.data[0][:, 0].tolist()
    assert found == list(range(32))
    assert "in broken" in caught.value.__notes__[0]
    pool.close()


def test_a_batch_larger_than_its_slot_gets_a_larger_one():
    class Growing(Rows):
        def __getitem__(self, index):
            return torch.full((3 + 40 * index * index,), index)[None][:, :3], torch.zeros(40 * index**2 + 1)

        def __getitems__(self, indices):
            top = max(indices)
            return torch.tensor(indices)[:, None].expand(-1, 3), torch.full(
                (40 * top * top + 1,), os.getpid()
            )

    pool = pool_of(Growing())
    assert rows_of(pool)[0] == list(range(80))
    pool.close()


def test_workers_ignore_what_is_meant_for_the_parent(tmp_path):
    def term():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    pool = pool_of(Rows(at=5, act=term))
    assert rows_of(pool)[0] == list(range(80))
    assert pool.num_restarts == 0
    pool.close()


SCRIPT = """
import os, sys, time, torch
from hemostat.data import Feed, TrainLoader, Workers

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 10000
    def __getitem__(self, index): return os.getpid()

feed = Feed(seed=0, global_batch=8, total_samples=10000)
loader = TrainLoader(Rows(), feed, workers=Workers(mode="processes", num=2))
pids = set()
for number, batch in enumerate(loader):
    pids |= set(batch.data.tolist())
    if number == 20:
        print(*pids, flush=True)
        {end}
"""


@pytest.mark.parametrize(
    "end",
    [
        "os.kill(os.getpid(), 9)",
        "os._exit(3)",
        "sys.exit(4)",
        "raise RuntimeError",
        "kept = iter(loader); break",
    ],
)
def test_no_process_outlives_its_parent(end):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(end=end)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    pids = done.stdout.split()
    assert len(pids) == 2, done.stderr
    assert all(gone(pid) for pid in pids)


def test_no_process_is_left_after_an_exception_in_the_loop():
    def train():
        for number, batch in enumerate(loader):
            pids.update(batch.data[1].tolist())
            if number == 15:
                raise RuntimeError("from the training step")

    pids = set()
    feed = Feed(seed=0, global_batch=4, total_samples=400)
    loader = TrainLoader(Rows(), feed, workers=Workers(mode="processes", num=2))
    with pytest.raises(RuntimeError, match="from the training step"):
        train()
    loader.close()
    assert all(gone(pid) for pid in pids)
