"""A process that is killed while it saves, at any moment, leaves a checkpoint that is whole."""

from __future__ import annotations

import random
import subprocess
import sys
import time

from hemostat.track import Checkpoints

NUM_KILLS = 20
SAVER = """
import os, sys, time
from pathlib import Path
from hemostat.track import Checkpoints

checkpoints = Checkpoints(Path(sys.argv[1]))
step = int(sys.argv[2])
while True:
    step += 1
    half = checkpoints.begin(step)
    names = ["a", "b", "c"]
    for name in names:
        with (half / name).open("wb") as file:
            for part in range(8):  # a slow disk
                file.write(bytes([step % 251]) * 20_000)
                file.flush()
                time.sleep(0.001)
    checkpoints.publish(half, step=step, samples=8 * step, num_ranks=1, files=checkpoints.describe(half, names))
    checkpoints.rotate(keep=2)
    print(step, flush=True)
"""


def test_the_newest_whole_one_is_never_lost(tmp_path):
    """T079: 20 of 20 kills, and no published one is broken or older than the last that was told."""
    rng, told, checkpoints = random.Random(5), 0, Checkpoints(tmp_path)
    for _ in range(NUM_KILLS):
        saver = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(tmp_path), str(told)], stdout=subprocess.PIPE
        )
        told = int(saver.stdout.readline())  # it has saved once since it was started
        time.sleep(rng.uniform(0.0, 0.12))
        saver.kill()
        told = max([told, *map(int, saver.stdout.read().split())])
        saver.wait()
        path, troubles = checkpoints.last_whole()
        assert troubles == []
        step = checkpoints.manifest(path).step
        assert step >= told
        assert all(set((path / name).read_bytes()) == {step % 251} for name in "abc")
        told = step
