"""What handing a batch over costs, and the order of the samples; writes bench/results/data_costs.json.

The thresholds in hemostat/data/choose.py, loader.py and hint.py rest on these. Medians over rounds. A hop is the time
of a batch of 1 ms, read by one reader and consumed in no time, less the same in the training thread.
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image

from hemostat.data import EvalLoader, Order, Workers
from result_file import write_result

NUM_BATCHES = 200
JPEG_PIXELS = 300


class Waiting(torch.utils.data.Dataset[Any]):
    """Batches of 8 kB after a wait of 1 ms."""

    def __init__(self) -> None:
        self.batch = torch.zeros(32, 64)

    def __len__(self) -> int:
        return 32 * NUM_BATCHES

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __getitems__(self, indices: list[int]) -> Any:
        time.sleep(1e-3)
        return self.batch


def batch_s(workers: Workers) -> float:
    """Seconds of one batch, without the start of its readers."""
    loader = EvalLoader(Waiting(), micro_batch=32, workers=workers)
    batches = iter(loader)
    for _ in range(20):
        next(batches)
    began = time.perf_counter()
    count = sum(1 for _ in batches)
    spent = time.perf_counter() - began
    loader.close()
    return spent / count


def call_s(work: Callable[[], Any], num: int) -> float:
    began = time.perf_counter()
    for _ in range(num):
        work()
    return (time.perf_counter() - began) / num


def start_of_torch() -> tuple[float, float]:
    """Seconds and MB of a process that imports torch, as a spawned worker would."""
    code = "import torch, resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    return time.perf_counter() - began, int(done.stdout) * unit / 1e6


def round_of_costs() -> dict[str, float]:
    """Each cost once, in microseconds but for the process."""
    here_s = batch_s(Workers(mode="none"))
    order, rng = Order(10**9, seed=0), np.random.default_rng(0)
    pixels = rng.integers(0, 255, (JPEG_PIXELS // 10, JPEG_PIXELS // 10, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((JPEG_PIXELS, JPEG_PIXELS)).save(file, "JPEG", quality=90)
    start_s, memory_mb = start_of_torch()
    return {
        "thread_hop_us": 1e6 * (batch_s(Workers(mode="threads", num=1)) - here_s),
        "process_hop_us": 1e6 * (batch_s(Workers(mode="processes", num=1)) - here_s),
        "order_block_us": 1e6 * call_s(lambda: order.indices(0, 0, 4096), 50) / 4096,
        "order_batch_us": 1e6 * call_s(lambda: order.indices(0, 32, 64), 300) / 32,
        "jpeg_us": 1e6 * call_s(lambda: np.asarray(Image.open(file).convert("RGB")), 30),
        "torch_start_s": start_s,
        "torch_start_mb": memory_mb,
    }


NOTES = {
    "thread_hop_us": "one thread, batch of 8 kB",
    "process_hop_us": "one worker process, batch of 8 kB",
    "order_block_us": "a position, 4,096 at once, of 10^9",
    "order_batch_us": "the same, 32 at once",
    "jpeg_us": f"decoding one of {JPEG_PIXELS} x {JPEG_PIXELS}",
    "torch_start_s": "a process that imports torch",
    "torch_start_mb": "its largest resident size",
}


def figures(rounds: list[dict[str, float]]) -> list[dict[str, Any]]:
    """The median of each cost with its range."""
    rows = []
    for name, what in NOTES.items():
        values = [each[name] for each in rounds]
        note = f"{what}; {min(values):.3g} to {max(values):.3g} over {len(values)} rounds"
        value = float(f"{statistics.median(values):.3g}")
        rows.append(
            {
                "name": name,
                "value": value,
                "unit": name.rpartition("_")[2],
                "bar": None,
                "meets": None,
                "note": note,
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print, and write the file unless --quick."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, no file")
    quick = parser.parse_args(arguments).quick
    torch.set_num_threads(1)
    rows = figures([round_of_costs() for _ in range(1 if quick else 7)])
    if not quick:
        write_result("data_costs", rows)
    for row in rows:
        print(f"{row['name']:<18} {row['value']:>9} {row['unit']:<3} {row['note']}")
    return rows


if __name__ == "__main__":
    main()
