"""What recording costs: scalars, control, provenance, listing; writes bench/results/record.json.

`make bench-record`. Every figure is the median of several rounds, on the disk of the working directory.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hemostat.track import Recorder, collect_provenance, control, create_run, list_runs, update_run
from result_file import ROOT, write_result

NUM_SCALARS = 10_000
NUM_RUNS = 5_000
NUM_ROUNDS = 9


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def scalars_s(folder: Path, scalars_per_line: int) -> float:
    """Open, log all scalars, close; what the operating system has by then survives kill -9."""
    names = [f"metric_{index}" for index in range(scalars_per_line)]

    def record() -> None:
        with Recorder(folder, 0) as recorder:
            for step in range(NUM_SCALARS // scalars_per_line):
                recorder.log(step, 32 * step, dict.fromkeys(names, 0.5 + step))

    elapsed_s = seconds(record)
    (folder / "metrics.0.jsonl").unlink()
    return elapsed_s


def buffered_s() -> float:
    """The same lines into memory: what a buffer could save at most."""
    import msgspec

    encode = msgspec.json.Encoder().encode

    def record() -> None:
        buffer = bytearray()
        for step in range(NUM_SCALARS):
            line = {"step": step, "samples": 32 * step, "time": time.time(), "values": {"m": 0.5 + step}}
            buffer += encode(line) + b"\n"

    return seconds(record)


def eight_writers_s(folder: Path) -> float:
    """Eight ranks record 10,000 scalars each at once, each into its own file; interpreter start included."""
    code = (
        "import sys; from pathlib import Path; from hemostat.track import Recorder\n"
        "recorder = Recorder(Path(sys.argv[1]), int(sys.argv[2]))\n"
        f"for step in range({NUM_SCALARS}): recorder.log(step, step, {{'loss': 0.5}})\n"
    )

    def record() -> None:
        jobs = [subprocess.Popen([sys.executable, "-c", code, str(folder), str(rank)]) for rank in range(8)]
        if any(job.wait() for job in jobs):
            raise SystemExit("a writer failed")

    return seconds(record)


def listing_s(folder: Path) -> tuple[float, float]:
    """(first, later) listing of 5,000 runs of about 25 kB of header each."""
    header = {"environment": {f"V{index}": "x" * 40 for index in range(50)}, "git": {"diff": "x" * 20_000}}
    for index in range(NUM_RUNS):
        path = create_run(folder, f"20261130-{index:05d}", {})
        text = json.dumps({"created": index, "task": {"spec": "x.py:X"}, "provenance": header})
        (path / "run.json").write_text(text)
    first_s = seconds(lambda: list_runs(folder))
    return first_s, statistics.median(seconds(lambda: list_runs(folder)) for _ in range(NUM_ROUNDS))


def figure(name: str, value: float, unit: str, note: str, bar: float | None = None) -> dict[str, Any]:
    meets = None if bar is None else value <= bar
    return {"name": name, "value": round(value, 4), "unit": unit, "bar": bar, "meets": meets, "note": note}


def measure(folder: Path) -> list[dict[str, Any]]:
    run_dir = create_run(folder / "one", "r", {"a": 1})

    def median(action: Callable[[], float]) -> float:
        action()
        return statistics.median(action() for _ in range(NUM_ROUNDS))

    one, ten = median(lambda: scalars_s(run_dir, 1)), median(lambda: scalars_s(run_dir, 10))
    memory = median(buffered_s)
    asking = median(lambda: seconds(lambda: [control(run_dir) for _ in range(1000)])) / 1000
    update = median(lambda: seconds(lambda: update_run(run_dir, a=2)))
    provenance = median(lambda: seconds(lambda: collect_provenance(ROOT)))
    first, later = listing_s(folder / "many")
    added_us = (one - memory) / NUM_SCALARS * 1e6
    return [
        figure("record_10000_scalars_s", one, "s", "one scalar per call, one write per call", bar=0.1),
        figure("record_10000_scalars_by_ten_s", ten, "s", "ten scalars per call", bar=0.1),
        figure("write_per_line_added_us", added_us, "us", "over the same lines kept in memory, per call"),
        figure(
            "eight_writers_s", median(lambda: eight_writers_s(run_dir)), "s", "8 x 10,000 scalars, with start"
        ),
        figure("control_us", asking * 1e6, "us", "asking while no control.json is there"),
        figure("update_run_ms", update * 1e3, "ms", "read, write, fsync, rename"),
        figure("provenance_ms", provenance * 1e3, "ms", "once per run, in this repository"),
        figure("list_5000_runs_first_s", first, "s", "no index yet, headers just written"),
        figure("list_5000_runs_s", later, "s", "index there, nothing changed", bar=0.5),
    ]


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix=".bench-record-", dir=ROOT))
    try:
        rows = measure(folder)
    finally:
        shutil.rmtree(folder)
    write_result("record", rows)
    for row in rows:
        print(f"{row['name']:<32} {row['value']:>9} {row['unit']:<3} {row['note']}")


if __name__ == "__main__":
    main()
