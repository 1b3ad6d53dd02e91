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

MOMENTS = ("start", "any", "save", "evaluate", "data")
SIGNALS = (signal.SIGKILL, signal.SIGTERM)
MAX_ATTEMPTS = 6
MAX_TRIES = 4


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


def trial(run: Run, chance: random.Random) -> tuple[str, int, int]:
    """Hit one or two attempts, go on to the end; what was done, the last status, and how many hits struck."""
    story, status, said = [], -1, ""
    num_hits = 1 + (chance.random() < 0.25)
    num_struck = 0
    for attempt in range(MAX_ATTEMPTS):
        run.start()
        if attempt >= num_hits:
            status, said = run.finish()
            if status == 0:
                break
            return f"{'; '.join(story)}; the resume ended with {status}:\n{said}", status, num_struck
        number, moment = chance.choice(SIGNALS), chance.choice(MOMENTS)
        rank = chance.choice([None, *range(run.num_ranks)])
        delay_s = (
            chance.uniform(0.0, 1.0) if moment in ("any", "start") else chance.choice((0.0, 0.005, 0.02))
        )
        sent = run.reach(moment, delay_s) and run.hit(rank, number)
        status, said = run.finish()
        struck = sent and status != 0  # else it had ended by itself before
        num_struck += struck
        where = run.checkpoints[-1].name if run.checkpoints else "no checkpoint"
        whom = "all" if rank is None else f"rank {rank}"
        story.append(f"{number.name} to {whom} at {moment}: {status if struck else 'too late'}, {where}")
        if not struck and status == 0:
            break
    return "; ".join(story), status, num_struck


def struck_trial(folder: Path, size: int, seed: str) -> tuple[Run, str, int, int]:
    """A trial whose hit came before the run had ended; others count for nothing and are done again."""
    for number in range(MAX_TRIES):
        run = Run(folder / str(number), size)
        story, status, num_struck = trial(run, random.Random(f"{seed}.{number}"))
        if num_struck or status != 0:
            break
    return run, story, status, num_struck


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
            place = Path(folder, f"trial{number}")
            run, story, status, num_struck = struck_trial(place, size, f"{given.seed}.{number}")
            wrong = differences(fate(run), whole[size]) if status == 0 else ["not resumed"]
            wrong += [] if num_struck else ["never hit"]
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
