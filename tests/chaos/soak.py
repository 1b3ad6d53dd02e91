"""A long run with faults at random: memory stays flat, no file handle and no thread is left behind.

`make soak`, or `python tests/chaos/soak.py --seconds 600 --seed 0`: prints the figures, exit 1 where something grows.
NaN on one rank, slow data, stopped ranks and killed ones; processes of one attempt are compared with themselves.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from faults import Run

LOOK_S = 0.25
SETTLING = 0.35  # of an attempt: first passes, first checkpoints and caches are no leak
MAX_GROWTH_BYTES_PER_S = 40 * 1024
NOISE_BYTES = 3 * 1024**2
# all guards are on, and compare the ranks often; NaN on one rank, and ranks that stand still, must not stop the run
SETTINGS = ("epochs=100000", "trouble=0.02", "train.compare_every_steps=20", "train.stall_s=20")


class Watched:
    """What one process has used over its life."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.seen: list[tuple[float, int, int, int]] = []  # second, resident bytes, handles, threads

    def look(self, pid: int) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            resident_bytes = 1024 * int(status["VmRSS"].split()[0])
            num_handles = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            self.seen.append((time.monotonic(), resident_bytes, num_handles, int(status["Threads"])))

    def settled(self) -> list[tuple[float, int, int, int]]:
        return self.seen[int(SETTLING * len(self.seen)) :]

    def slope_bytes_per_s(self) -> float:
        """Between the medians of the first and the last third, which no single peak moves."""
        seen = self.settled()
        third = len(seen) // 3
        first, last = seen[:third], seen[-third:]
        rise_bytes = median(row[1] for row in last) - median(row[1] for row in first)
        return rise_bytes / (median(row[0] for row in last) - median(row[0] for row in first))

    def faults(self) -> list[str]:
        """What has grown; handles and threads are compared by their lowest counts, which a leak lifts."""
        seen = self.settled()
        third = len(seen) // 3
        found = []
        span_s = seen[-1][0] - seen[0][0]
        slope = self.slope_bytes_per_s()
        if slope > MAX_GROWTH_BYTES_PER_S and slope * span_s > NOISE_BYTES:
            found.append(f"memory grows by {slope / 1024:.1f} KiB/s")
        for index, what in ((2, "file handles"), (3, "threads")):
            before, after = (min(row[index] for row in part) for part in (seen[:third], seen[-third:]))
            if after > before:
                found.append(f"{what} grow from {before} to {after}")
        return found

    def line(self) -> str:
        seen = self.settled()
        handles, threads = [row[2] for row in seen], [row[3] for row in seen]
        return (
            f"{self.who}: {seen[-1][0] - seen[0][0]:.0f} s, {seen[-1][1] / 1024**2:.0f} MiB, "
            f"{self.slope_bytes_per_s() / 1024:+.2f} KiB/s, handles {min(handles)} to {max(handles)}, "
            f"threads {min(threads)} to {max(threads)}"
        )


def disturb(run: Run, chance: random.Random, counts: dict[str, int], may_kill: bool) -> None:
    """Stop a rank for a while, or kill it; the launcher starts all again then."""
    pids = run.pids()
    rank = chance.randrange(run.num_ranks)
    if rank not in pids:
        return
    kills = may_kill and chance.random() < 0.1
    counts["killed" if kills else "stopped"] += 1
    with contextlib.suppress(ProcessLookupError):
        if kills:
            os.kill(pids[rank], signal.SIGKILL)
            return
        os.kill(pids[rank], signal.SIGSTOP)
        time.sleep(chance.uniform(0.1, 1.5))
        os.kill(pids[rank], signal.SIGCONT)


def soak(folder: Path, seconds: float, seed: int) -> tuple[dict[int, Watched], dict[str, int], int, int]:
    """Run for so long; what was watched by process, what was done, the steps taken, the exit status."""
    chance, counts = random.Random(seed), {"stopped": 0, "killed": 0}
    run = Run(folder, 2, SETTINGS, restarts=1000)
    launcher = run.start()
    watched = {launcher.pid: Watched("launcher")}
    run.wait_until(lambda: len(run.pids()) == run.num_ranks and run.checkpoints)
    end_s = time.monotonic() + seconds
    kill_from_s, next_s = end_s - 0.5 * seconds, time.monotonic() + 2.0
    while (now_s := time.monotonic()) < end_s and launcher.poll() is None:
        for rank, pid in run.pids().items():
            watched.setdefault(pid, Watched(f"rank {rank}"))
        for pid, process in watched.items():
            process.look(pid)
        if now_s >= next_s:
            # the first half belongs to one attempt, so that there is a long life to look at
            disturb(run, chance, counts, may_kill=seconds >= 60 and now_s > kill_from_s)
            next_s = now_s + chance.uniform(2.0, 6.0)
        time.sleep(LOOK_S)
    run.hit(None, signal.SIGTERM)
    status, said = run.finish()
    if status != 75:
        print(said)
    steps = int(run.checkpoints[-1].name.removeprefix("step-"))
    return watched, counts, steps, status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        watched, counts, steps, status = soak(Path(folder, "soak"), given.seconds, given.seed)
    long_s = min(60.0, given.seconds / 3)
    lives = [process for process in watched.values() if process.seen[-1:] and _life_s(process) >= long_s]
    faults = [f"{process.who}: {fault}" for process in lives for fault in process.faults()]
    for process in lives:
        print(process.line())
    if len(lives) < 3:
        faults.append("no process of every kind lived long enough to be judged")
    if status != 75:
        faults.append(f"the run ended with {status}, not 75")
    done = ", ".join(f"{number} {what}" for what, number in counts.items())
    print(f"{steps} steps, {done}; {'; '.join(faults) or 'flat'}; seed {given.seed}, {given.seconds:g} s")
    return int(bool(faults))


def _life_s(process: Watched) -> float:
    return process.seen[-1][0] - process.seen[0][0]


if __name__ == "__main__":
    sys.exit(main())
