"""Kills ranks at random moments and resumes: weights and records must be those of an undisturbed run, bit for bit.

`make chaos`, or `python tests/chaos/chaos.py --trials 20 --seed 0 --ranks 2,3`: exit 1 on a difference.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from faults import Run

from hemostat.track import load_run
from hemostat.train.tensor_files import read_tensors, tensor_shapes

MOMENTS = ("any", "save", "evaluate", "data")
SIGNALS = (signal.SIGKILL, signal.SIGTERM)
MAX_ATTEMPTS = 6


def fate(run: Run) -> dict[str, Any]:
    """What must not depend on what befell the run: every tensor of its last checkpoint, and every record."""
    import torch

    folder = run.checkpoints[-1]
    tensors = {
        name: torch.zeros(shape.size, dtype=shape.dtype) for name, shape in tensor_shapes(folder).items()
    }
    read_tensors(tensors, folder)
    digests = {name: hashlib.sha256(value.numpy().tobytes()).hexdigest() for name, value in tensors.items()}
    record = load_run(run.path.parent, run.path.name)
    records = {name: record.metrics(name) for name in sorted(record.metric_names())}
    return {"checkpoint": folder.name, "tensors": digests, "records": records}


def differences(mine: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """Names of what differs."""
    found = [] if mine["checkpoint"] == whole["checkpoint"] else [mine["checkpoint"]]
    for kind in ("tensors", "records"):
        names = sorted(mine[kind].keys() | whole[kind].keys())
        found += [f"{kind}: {name}" for name in names if mine[kind].get(name) != whole[kind].get(name)]
    return found


def undisturbed(folder: Path, num_ranks: int) -> dict[str, Any]:
    run = Run(folder, num_ranks)
    run.start()
    status, said = run.finish()
    if status != 0:
        raise SystemExit(f"the undisturbed run ended with {status}:\n{said}")
    return fate(run)


def trial(run: Run, chance: random.Random) -> tuple[str, int]:
    """Hit one or two attempts, go on to the end; what was done, and the last status."""
    story, status, said = [], -1, ""
    num_hits = 1 + (chance.random() < 0.25)
    for attempt in range(MAX_ATTEMPTS):
        run.start()
        if attempt < num_hits:
            number, moment = chance.choice(SIGNALS), chance.choice(MOMENTS)
            rank = chance.choice([None, *range(run.num_ranks)])
            delay_s = chance.uniform(0.0, 1.0) if moment == "any" else chance.choice((0.0, 0.005, 0.02))
            if run.reach(moment, delay_s):
                run.hit(rank, number)
        status, said = run.finish()
        if attempt < num_hits:
            whom = "all" if rank is None else f"rank {rank}"
            story.append(f"{number.name} to {whom} at {moment}: {status}, {run.checkpoints[-1].name}")
        elif status == 0:
            break
        else:
            return f"{'; '.join(story)}; the resume ended with {status}:\n{said}", status
    return "; ".join(story), status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", default="2,3", help="world sizes, taken in turn")
    given = parser.parse_args()
    sizes = [int(text) for text in given.ranks.split(",")]
    num_bad, began_s = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        whole = {size: undisturbed(Path(folder, f"whole{size}"), size) for size in sizes}
        for number in range(given.trials):
            size = sizes[number % len(sizes)]
            run = Run(Path(folder, f"trial{number}"), size)
            story, status = trial(run, random.Random(f"{given.seed}.{number}"))
            wrong = differences(fate(run), whole[size]) if status == 0 else ["not resumed"]
            num_bad += bool(wrong)
            num_records = sum(map(len, whole[size]["records"].values()))
            said = f"DIFFERS: {', '.join(wrong)}" if wrong else f"equal, {num_records} records"
            print(f"trial {number + 1}: {size} ranks; {story}; {said}", flush=True)
    print(
        f"{given.trials - num_bad} of {given.trials} equal, seed {given.seed}, {time.monotonic() - began_s:.0f} s"
    )
    return int(num_bad > 0)


if __name__ == "__main__":
    sys.exit(main())
