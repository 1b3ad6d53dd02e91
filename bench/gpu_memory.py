"""Allocated and reserved memory of a 320M-parameter transformer on one GPU; writes bench/results/gpu_memory.csv.

Every row is a session of a few steps: precision, recomputation, samples at once, micro-batches that are added up. The
micro-batch is doubled until twice as much would not fit. The planner's predictions are held against these rows, so
those of other machines stay in the file; those of the same machine, torch and model are replaced. Without a GPU it
says so and ends well.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from hemostat.train.memory import is_out_of_memory, release
from layout_runs import Case, steps_of
from transformer import Shape, Transformer

SHAPE = Shape(dim=1024, num_blocks=24, num_heads=16, num_words=8192, positions=1024)
TARGET = Path(__file__).resolve().parent / "results" / "gpu_memory.csv"
SAME = ("machine", "torch", "num_params", "positions")  # rows alike in these are replaced
COLUMNS = (
    "date",
    *SAME,
    "precision",
    "recompute",
    "micro_batch",
    "accumulation",
    "allocated_peak_bytes",
    "reserved_peak_bytes",
    "between_steps_bytes",
    "step_s",
)
NEAR_FULL = 0.5  # of the device's memory: twice the micro-batch would not fit
NUM_STEPS = 3

Row = dict[str, Any]
Measure = Callable[[Case], Row | None]


def kinds() -> Iterator[tuple[int, str, str]]:
    """Accumulation, recomputation and precision, what one wants to know first."""
    for accumulation in (1, 8):
        for recompute in ("none", "full", "selective"):
            for precision in ("bf16", "fp32"):
                yield accumulation, recompute, precision


def rows_until(deadline_s: float, capacity_bytes: int, measure: Measure) -> Iterator[Row]:
    """Measure until the time is over.

    Args:
        deadline_s: of `time.monotonic`; no row begins after it.
        capacity_bytes: of the device.
        measure: gives the figures of a case, or None where it does not fit.
    """
    for accumulation, recompute, precision in kinds():
        micro_batch = 1
        while time.monotonic() < deadline_s:
            case = Case(
                shape=SHAPE,
                global_batch=micro_batch * accumulation,
                micro_batch=micro_batch,
                layout=f"recompute={recompute}",
                device="cuda",
                precision=precision,
            )
            found = measure(case)
            if found is None:
                break
            yield {
                "precision": precision,
                "recompute": recompute,
                "micro_batch": micro_batch,
                "accumulation": accumulation,
            } | found
            if found["reserved_peak_bytes"] > NEAR_FULL * capacity_bytes:
                break
            micro_batch *= 2 if accumulation == 1 else 4  # eight passes take their time


def on_gpu(case: Case) -> Row | None:
    """Peaks of the steps after the first one, which makes the optimizer's state; None where memory runs out."""
    torch.cuda.empty_cache()
    times_s = []
    between_steps = 0
    try:
        for session, number, step_s in steps_of(case, NUM_STEPS):
            if session.back_off.found is not None:  # it went on with smaller micro-batches
                return None
            if number == 1:
                between_steps = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
            else:
                times_s.append(step_s)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        release(error)
        return None
    return {
        "allocated_peak_bytes": torch.cuda.max_memory_allocated(),
        "reserved_peak_bytes": torch.cuda.max_memory_reserved(),
        "between_steps_bytes": between_steps,
        "step_s": round(min(times_s), 4),
    }


def header() -> Row:
    """What all rows of this run have in common."""
    with torch.device("meta"):
        num_params = sum(param.numel() for param in Transformer(SHAPE).parameters())
    return {
        "date": datetime.date.today().isoformat(),
        "machine": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
        "torch": torch.__version__,
        "num_params": num_params,
        "positions": SHAPE.positions,
    }


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Put rows into the file, in place of those of the same machine, torch and model.

    Args:
        path: CSV with a head; it may be missing.
        rows: each with all of `COLUMNS`.
    """
    kept: list[Row] = []
    new = {tuple(str(row[name]) for name in SAME) for row in rows}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            kept = [row for row in csv.DictReader(file) if tuple(row[name] for name in SAME) not in new]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, *rows])


def main(arguments: list[str] | None = None) -> list[Row]:
    """Measure, print and write; without a GPU say so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=7.0, help="begin no row after so many; 7")
    parser.add_argument("--out", type=Path, default=TARGET, help="the CSV that rows are put into")
    options = parser.parse_args(arguments)
    deadline_s = time.monotonic() + 60 * options.minutes
    if not torch.cuda.is_available():
        print("There is no GPU here, so no memory was measured.")
        return []
    capacity_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    common, rows = header(), []
    for row in rows_until(deadline_s, capacity_bytes, on_gpu):
        rows.append(common | row)
        write_rows(options.out, rows)  # after each one: a run that is cut short has measured something
        print("  ".join(f"{name} {row[name]}" for name in COLUMNS if name in row), flush=True)
    return rows


if __name__ == "__main__":
    main()
