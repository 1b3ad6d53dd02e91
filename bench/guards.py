"""What hemostat's session with all guards adds to a bare DDP loop on two processes; writes bench/results/guards.json.

The work is the GPT of bench/step.py. One torchrun job runs both loops in turn, in an order that changes from round
to round, with one torch thread a rank; rank 0 takes the wall time per step. Both must end with the same loss. The
weights of the ranks are hashed and compared every 8 steps, so that it falls into the few that are measured; a run does
so every 200.

`python bench/guards.py --quick` takes few steps and writes no file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from result_file import write_result
from step import GPT_BAR, check_same_work, figure, over_bare, spread
from step_peers import bare_ddp, with_hemostat
from step_peers.workload import Times
from step_peers.workloads import gpt

NUM_RANKS = 2
NUM_ROUNDS = 9
COMPARE_EVERY_STEPS = 8  # the default is 200, more than the steps of a round


def work_of_a_rank(quick: bool, out: Path) -> None:
    """Run the rounds; rank 0 leaves the times in `out`."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    work = gpt(3, 1) if quick else gpt(16, 2)
    loops = {
        "bare": bare_ddp.run,
        "hemostat": partial(with_hemostat.run, compare_every_steps=2 if quick else COMPARE_EVERY_STEPS),
    }
    rounds: dict[str, list[Times]] = {name: [] for name in loops}
    for index in range((1 if quick else NUM_ROUNDS) + 1):
        for name in sorted(loops, reverse=index % 2 == 1):
            box = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
            dist.broadcast_object_list(box)
            folder = Path(box[0]) / str(dist.get_rank()) if name == "bare" else Path(box[0])
            folder.mkdir(exist_ok=True)
            times = loops[name](work, folder)
            if index:  # the first round warms up
                rounds[name].append(times)
    if dist.get_rank() == 0:
        check_same_work(rounds)
        out.write_text(json.dumps({name: [list(times) for times in found] for name, found in rounds.items()}))
    dist.destroy_process_group()


def measure(quick: bool) -> dict[str, list[Times]]:
    """Start the ranks and read what rank 0 left."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "times.json"
        words = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={NUM_RANKS}", __file__]
        job = [sys.executable, *words, "--out", str(out), *(["--quick"] if quick else [])]
        subprocess.run(job, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        found = json.loads(out.read_text())
    return {name: [Times(*times) for times in rows] for name, rows in found.items()}


def figures(rounds: dict[str, list[Times]]) -> list[dict[str, Any]]:
    """Bare time per step, and the ratio with its bar."""
    bare_ms = [times.wall_s * 1e3 for times in rounds["bare"]]
    note = f"wall time of the bare DDP loop per step, {spread(bare_ms)} over {len(bare_ms)} rounds"
    ratios = over_bare(rounds, "hemostat", "wall_s")
    ratio = figure(
        "guards_w2_over_ddp",
        statistics.median(ratios),
        "ratio",
        f"wall time per step on {NUM_RANKS} processes, {spread(ratios, 3)} over {len(ratios)} rounds; loader, record, "
        f"control vote and all guards on, weights compared every {COMPARE_EVERY_STEPS} steps (a run does every 200)",
    )
    ratio["bar"], ratio["meets"] = GPT_BAR, ratio["value"] <= GPT_BAR
    return [figure("bare_ddp_ms", statistics.median(bare_ms), "ms", note), ratio]


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print, and write the file unless --quick."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, no file")
    parser.add_argument("--out", type=Path, help="of a rank: where rank 0 leaves the times")
    options = parser.parse_args(arguments)
    if "RANK" in os.environ:
        work_of_a_rank(options.quick, options.out)
        return []
    rows = figures(measure(options.quick))
    if not options.quick:
        write_result("guards", rows)
    for row in rows:
        print(f"{row['name']:<20} {row['value']:>8} {row['unit']:<6} {row['bar'] or '':<6} {row['note']}")
    return rows


if __name__ == "__main__":
    main()
