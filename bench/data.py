"""Samples per second of hemostat's loader, torch's, torchdata's, Grain and SPDL; writes bench/results/data.json.

Every round drains each loader once on each of four kinds of data, in an order that moves on from round to round; the
consumer does nothing. Starting up (processes, probes, the first batches) is not counted, and worker processes stay
over the epochs. A peer is taken at the setting that was fastest in the median; the others stand in the note.
`data_peers/` has data and loaders.

`python bench/data.py --quick` takes short rounds over few images and writes no file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from data_peers.loaders import LOADERS
from data_peers.workloads import Workload, workloads
from hemostat.data import Feed, Source, TrainLoader
from result_file import write_result

PEERS = {
    "torch_item": ("torch_0", "torch_1", "torch_2"),
    "torch_many": ("torch_many_0", "torch_many_2"),
    "stateful": ("stateful_0", "stateful_2", "stateful_many_0", "stateful_many_2"),
    "grain": ("grain_0", "grain_2"),
    "spdl": ("spdl_1", "spdl_2", "spdl_4"),
}
WARM_BATCHES = 12  # beyond the eight that the probe of hemostat reads
NUM_IMAGES = 2000
NUM_ROUNDS = 7
ITEM_BAR = {"memory": 5.0, "tokens": 5.0, "jpeg": 1.0, "parquet": 1.0}
RESUME_BAR_MS = 1.0

Rates = dict[str, dict[str, list[float]]]  # workload -> loader -> samples per second, one per round


def rate(work: Workload, name: str, seed: int, seconds: float) -> float:
    """Samples per second of one loader once it runs."""
    batches = iter(LOADERS[name](work, seed))
    for _ in range(WARM_BATCHES):
        next(batches)
    began, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds or count < 4:
        next(batches)
        count += 1
    if callable(close := getattr(batches, "close", None)):
        close()
    return count * work.micro_batch / spent


def measure(works: list[Workload], num_rounds: int, seconds: float) -> Rates:
    """All loaders in every round, each time from another one on."""
    rates: Rates = {work.name: {name: [] for name in LOADERS} for work in works}
    names = list(LOADERS)
    for index in range(num_rounds):
        for work in works:
            for name in names[index % len(names) :] + names[: index % len(names)]:
                rates[work.name][name].append(rate(work, name, index, seconds))
    return rates


def figure(name: str, value: float, unit: str, note: str, bar: float | None = None) -> dict[str, Any]:
    meets = None if bar is None else (value <= bar if unit == "ms" else value >= bar)
    digits = 0 if unit == "samples/s" else 3
    return {
        "name": name,
        "value": round(value, digits) if digits else int(value),
        "unit": unit,
        "bar": bar,
        "meets": meets,
        "note": note,
    }


def figures(rates: Rates) -> list[dict[str, Any]]:
    """Per kind of data: our rate, then our rate over that of each peer at its best setting."""
    rows = []
    for kind, loaders in rates.items():
        medians = {name: statistics.median(values) for name, values in loaders.items()}
        ours = medians["hemostat"]
        note = f"{spread(loaders['hemostat'])} over {len(loaders['hemostat'])} rounds"
        rows.append(figure(f"{kind}_hemostat", ours, "samples/s", note))
        for peer, settings in PEERS.items():
            best = max(settings, key=medians.__getitem__)
            others = ", ".join(f"{name} {medians[name]:,.0f}" for name in settings if name != best)
            note = f"{best} {medians[best]:,.0f} samples/s ({spread(loaders[best])})"
            note += f"; {others}" if others else ""
            bar = ITEM_BAR[kind] if peer == "torch_item" else 1.0
            rows.append(figure(f"{kind}_over_{peer}", ours / medians[best], "ratio", note, bar))
    return rows


def spread(values: list[float]) -> str:
    return f"{min(values):,.0f} to {max(values):,.0f}"


class Numbers:
    """10^9 samples that cost nothing."""

    def __len__(self) -> int:
        return 10**9

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        return torch.tensor(indices)

    def __getitem__(self, index: int) -> int:
        return index


def resume_figure() -> dict[str, Any]:
    """Time from nothing to the first batch, far inside a large data set."""
    source = Source(Numbers())
    costs_ms = []
    for _ in range(21):
        feed = Feed(seed=0, global_batch=32, total_samples=10**9)
        began = time.perf_counter()
        next(iter(TrainLoader(source, feed, start_samples=10**7)))
        costs_ms.append((time.perf_counter() - began) * 1e3)
    note = f"first batch after resuming at position 10^7 of 10^9, up to {max(costs_ms):.2f} ms"
    return figure("resume_ms", statistics.median(costs_ms), "ms", note, RESUME_BAR_MS)


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print, and write the file unless --quick."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short rounds, no file")
    quick = parser.parse_args(arguments).quick
    load = os.getloadavg()[0]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        works = workloads(Path(folder), NUM_IMAGES // 20 if quick else NUM_IMAGES)
        rows = figures(measure(works, 1 if quick else NUM_ROUNDS, 0.05 if quick else 1.0))
    rows.append(resume_figure())
    if not quick:
        peers = [f"{name} {version(name)}" for name in ("torchdata", "grain", "spdl", "pyarrow")]
        write_result("data", rows, f"load {load:.1f} at the start", *peers)
    for row in rows:
        verdict = {True: "meets", False: "MISSES", None: ""}[row["meets"]]
        bar = "" if row["bar"] is None else f"bar {row['bar']}"
        print(f"{row['name']:<26} {row['value']:>10} {row['unit']:<10} {bar:<8} {verdict:<7} {row['note']}")
    return rows


if __name__ == "__main__":
    main()
