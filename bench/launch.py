"""What starting ranks costs: torch's agent against a plain child; writes bench/results/launch.json.

Interleaved rounds. A rank prints the clock as its first act; two clocks of one machine are compared.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from result_file import write_result

NUM_ROUNDS = 7
RANK = "import sys, time; sys.stdout.write(f'{time.time()}\\n')"
LAUNCHER = """
import sys; from pathlib import Path; from hemostat.launch import Job, backend
command = (sys.executable, "-c", sys.argv[3])
backend("local").run(Job(command=command, num_ranks=int(sys.argv[2]), run_id="r", run_dir=Path(sys.argv[1])))
"""


def start_s(words: list[str]) -> tuple[float, float]:
    """(seconds until the last rank runs, seconds until all is over)."""
    begin = time.time()
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return max(map(float, done.stdout.split())) - begin, time.time() - begin


def measure(folder: Path) -> list[dict[str, Any]]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    static = ["--master-addr=127.0.0.1", "--master-port=29544", "--no-python", sys.executable, "-c", RANK]
    standalone = ["--standalone", "--no-python", sys.executable, "-c", RANK]
    cases = {
        "one_rank": [sys.executable, "-c", LAUNCHER, str(folder / "one"), "1", RANK],
        "two_ranks": [sys.executable, "-c", LAUNCHER, str(folder / "two"), "2", RANK],
        "torchrun_static": [*torchrun, *static],
        "torchrun_standalone": [*torchrun, *standalone],
        "import_torch": [sys.executable, "-c", f"import torch; {RANK}"],
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for round_index in range(NUM_ROUNDS + 1):
        for name, words in cases.items():
            taken = start_s(words)
            if round_index:  # the first round warms the disk cache
                times[name].append(taken)
    notes = {
        "one_rank": "local backend, one rank: a plain child behind the leash",
        "two_ranks": "local backend, two ranks: torch's agent, static rendezvous",
        "torchrun_static": "torch.distributed.run by hand, static rendezvous",
        "torchrun_standalone": "torch.distributed.run --standalone (c10d rendezvous)",
        "import_torch": "python -c 'import torch', for comparison",
    }
    rows = []
    for name, taken in times.items():
        starts = [start for start, _ in taken]
        spread = f"median of {NUM_ROUNDS}, {min(starts):.2f} to {max(starts):.2f}"
        rows.append(figure(f"{name}_start_s", statistics.median(starts), f"{notes[name]}; {spread}"))
    ends = statistics.median(end - start for start, end in times["two_ranks"])
    rows.append(figure("two_ranks_end_s", ends, "from the ranks' only line to the launcher's return"))
    return rows


def figure(name: str, value: float, note: str) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "unit": "s", "bar": None, "meets": None, "note": note}


def main() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder = Path(tempfile.mkdtemp())
    try:
        rows = measure(folder)
    finally:
        shutil.rmtree(folder)
    write_result("launch", rows)
    for row in rows:
        print(f"{row['name']:<30} {row['value']:>7} s  {row['note']}")


if __name__ == "__main__":
    main()
