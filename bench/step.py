"""Time per training step of hemostat, a bare PyTorch loop and five frameworks; writes bench/results/step.json.

Every round runs each loop once on the same work, in an order that moves on by one from round to round, in this
one process with one torch thread. The work of a step: fetch a batch, forward, backward, clip, look for
non-finite numbers, AdamW, warm-up schedule, record the loss. `step_peers/` has one file per loop.

`python bench/step.py --quick` takes few steps and writes no file; names of loops may follow.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import statistics
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from result_file import write_result
from step_peers.workload import Times, Workload
from step_peers.workloads import gpt, mlp

LOOPS = {
    "bare": "step_peers.bare_loop",
    "hemostat": "step_peers.with_hemostat",
    "fabric": "step_peers.with_fabric",
    "ignite": "step_peers.with_ignite",
    "accelerate": "step_peers.with_accelerate",
    "lightning": "step_peers.with_lightning",
    "transformers": "step_peers.with_transformers",
}
PACKAGES = {"fabric": "lightning", "ignite": "pytorch-ignite"}
MLP_BAR_US = 100
GPT_BAR = 1.05
LOSS_TOLERANCE = 1e-3  # relative, between the last losses of two loops that do the same work

Rounds = dict[str, list[Times]]


def measure(work: Workload, names: Iterable[str], num_rounds: int) -> Rounds:
    """Run every loop once per round; the first round warms imports and caches and is thrown away."""
    loops = {name: importlib.import_module(LOOPS[name]) for name in names}
    rounds: Rounds = {name: [] for name in loops}
    gc.collect()
    gc.freeze()  # what the imports left behind is not collected again and again
    for index in range(num_rounds + 1):
        start = index % len(loops)
        for name in [*list(loops)[start:], *list(loops)[:start]]:
            with tempfile.TemporaryDirectory() as folder:
                times = loops[name].run(work, Path(folder))
            if index:
                rounds[name].append(times)
            gc.collect()
    check_same_work(rounds)
    return rounds


def check_same_work(rounds: Rounds) -> None:
    """All loops end with the same loss, or they did not do the same work.

    Raises:
        RuntimeError: they differ.
    """
    losses = {name: times[0].last_loss for name, times in rounds.items()}
    low, high = min(losses.values()), max(losses.values())
    if high - low > LOSS_TOLERANCE * abs(high):
        raise RuntimeError(f"the loops did not do the same work; last losses: {losses}")


def spread(values: list[float], digits: int = 1) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def added_us(rounds: Rounds, name: str, kind: str) -> list[float]:
    """Per round: what a loop costs over the bare one in the same round, in microseconds."""
    pairs = zip(rounds[name], rounds["bare"], strict=True)
    return [(getattr(peer, kind) - getattr(bare, kind)) * 1e6 for peer, bare in pairs]


def over_bare(rounds: Rounds, name: str, kind: str) -> list[float]:
    """Per round: time per step over that of the bare loop in the same round."""
    pairs = zip(rounds[name], rounds["bare"], strict=True)
    return [getattr(peer, kind) / getattr(bare, kind) for peer, bare in pairs]


def figure(name: str, value: float, unit: str, note: str) -> dict[str, Any]:
    return {
        "name": name,
        "value": round(value, 3 if unit == "ratio" else 1),
        "unit": unit,
        "bar": None,
        "meets": None,
        "note": note,
    }


def mlp_figures(rounds: Rounds) -> list[dict[str, Any]]:
    """Bare time per step, and what every other loop adds to it."""
    bare_us = [times.cpu_s * 1e6 for times in rounds["bare"]]
    note = f"CPU time of the bare loop per step, {spread(bare_us)} over {len(bare_us)} rounds"
    rows = [figure("bare_mlp_us", statistics.median(bare_us), "us", note)]
    for name in rounds:
        if name == "bare":
            continue
        cpu_us, wall_us = added_us(rounds, name, "cpu_s"), added_us(rounds, name, "wall_s")
        note = (
            f"CPU time per step over bare, {spread(cpu_us)} over {len(cpu_us)} rounds; "
            f"wall {statistics.median(wall_us):.0f}; {label(name)}"
        )
        rows.append(figure(f"{name}_mlp_added_us", statistics.median(cpu_us), "us", note))
    return rows


def gpt_figures(rounds: Rounds) -> list[dict[str, Any]]:
    """Bare time per step, and the ratio of every other loop to it."""
    bare_ms = [times.cpu_s * 1e3 for times in rounds["bare"]]
    note = f"CPU time of the bare loop per step, {spread(bare_ms)} over {len(bare_ms)} rounds"
    rows = [figure("bare_gpt_ms", statistics.median(bare_ms), "ms", note)]
    for name in rounds:
        if name == "bare":
            continue
        cpu, wall = over_bare(rounds, name, "cpu_s"), over_bare(rounds, name, "wall_s")
        note = (
            f"CPU time per step, {spread(cpu, 3)} over {len(cpu)} rounds; wall {statistics.median(wall):.3f}"
        )
        rows.append(figure(f"{name}_over_bare", statistics.median(cpu), "ratio", note))
    return rows


def set_bars(rows: list[dict[str, Any]]) -> None:
    """hemostat's two bars; the first one also asks for the smallest figure of all loops."""
    values = {row["name"]: row["value"] for row in rows}
    peers = [
        value
        for name, value in values.items()
        if name.endswith("_mlp_added_us") and not name.startswith("hemostat")
    ]
    for row in rows:
        if row["name"] == "hemostat_mlp_added_us":
            row["bar"] = MLP_BAR_US
            row["meets"] = row["value"] <= MLP_BAR_US and all(row["value"] < peer for peer in peers)
            row["note"] += "; the bar also asks to be below all others"
        elif row["name"] == "hemostat_over_bare":
            row["bar"], row["meets"] = GPT_BAR, row["value"] <= GPT_BAR


def label(name: str) -> str:
    package = PACKAGES.get(name, name)
    return f"{package} {version(package)}"


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print, and write the file unless --quick."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, no file")
    parser.add_argument("loops", nargs="*", help=f"of {', '.join(LOOPS)}; all if left out")
    options = parser.parse_args(arguments)
    unknown = set(options.loops) - set(LOOPS)
    if unknown:
        parser.error(f"unknown loops {', '.join(sorted(unknown))}; there are {', '.join(LOOPS)}")
    names = list(dict.fromkeys(["bare", *(options.loops or LOOPS)]))
    torch.set_num_threads(1)
    if options.quick:
        rows = mlp_figures(measure(mlp(60, 20), names, 3)) + gpt_figures(measure(gpt(3, 1), names, 1))
    else:
        rows = mlp_figures(measure(mlp(500, 100), names, 25)) + gpt_figures(measure(gpt(16, 2), names, 7))
    set_bars(rows)
    if not options.quick and not options.loops:
        write_result("step", rows)
    for row in rows:
        verdict = {True: "meets", False: "MISSES", None: ""}[row["meets"]]
        bar = "" if row["bar"] is None else f"bar {row['bar']}"
        print(f"{row['name']:<28} {row['value']:>9} {row['unit']:<6} {bar:<9} {verdict:<7} {row['note']}")
    return rows


if __name__ == "__main__":
    main()
