"""How long a run waits for data, before and after its own advice was followed; writes bench/results/input_bound.json.

`make bench-input_bound`. Each round trains `examples/input_bound.py:Scans` twice in fresh processes: with the scans as
they came, and on the copy that the command in the advice of the first run has made. `hemostat data probe` says what
that gains.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from result_file import ROOT, write_result

NUM_ROUNDS = 5
BOUND_SHARE = 10.0  # percent; above it a run is input-bound
EXAMPLE = ROOT / "examples" / "input_bound.py"
COPY = "scans"
ONE_THREAD = "train.num_threads=1"  # for the model, so that it does not fight with the readers for two cores

Runs = dict[str, list[dict[str, Any]]]  # "before" and "after" -> the summaries of the runs


def hemostat(folder: Path, *words: str) -> str:
    """The last line of what a command says."""
    command = [sys.executable, "-m", "hemostat", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.splitlines()[-1]


def train(folder: Path, *settings: str) -> dict[str, Any]:
    """The summary of one run."""
    words = [word for setting in settings for word in ("--set", setting)]
    summary: dict[str, Any] = json.loads(hemostat(folder, "train", f"{EXAMPLE}:Scans", "--json", *words))
    return summary


def follow(folder: Path, advice: str, *settings: str) -> float:
    """Run the command that stands in the advice; returns its seconds."""
    command = re.search(r"`hemostat ([a-z ]+)`", advice)
    if command is None:
        raise SystemExit(f"no command in the advice {advice!r}")
    words = [word for setting in settings for word in ("--set", setting)]
    began = time.perf_counter()
    hemostat(folder, *command[1].split(), f"{EXAMPLE}:Scans", "--out", COPY, *words)
    return time.perf_counter() - began


def measure(folder: Path, num_rounds: int, *settings: str) -> tuple[Runs, float]:
    """Both ways in every round, and how many seconds it took to follow the advice."""
    runs: Runs = {"before": [], "after": []}
    prepare_s = 0.0
    for number in range(num_rounds):
        runs["before"].append(train(folder, ONE_THREAD, *settings))
        if number == 0:
            prepare_s = follow(folder, runs["before"][0]["feed_hint"], *settings)
        runs["after"].append(train(folder, f"prepared={COPY}", ONE_THREAD, *settings))
    return runs, prepare_s


def stored_copy_gain(folder: Path) -> float:
    """What the probe says a stored copy would gain; fetching alone, without a model."""
    found = json.loads(hemostat(folder, "data", "probe", f"{EXAMPLE}:Scans", "--json"))
    return next(float(way["gain"]) for way in found["advice"] if way["way"] == "stored copy")


def figure(name: str, values: list[float], unit: str, note: str, bar: float | None = None) -> dict[str, Any]:
    value = statistics.median(values)
    spread = f"{min(values):.3g} to {max(values):.3g} over {len(values)} rounds; " if len(values) > 1 else ""
    meets = None if bar is None else value <= bar
    return {
        "name": name,
        "value": round(value, 3),
        "unit": unit,
        "bar": bar,
        "meets": meets,
        "note": spread + note,
    }


def figures(runs: Runs, gain: float, prepare_s: float) -> list[dict[str, Any]]:
    """Waits and speed of both ways, and what was promised and paid for it."""
    rows = []
    for name, summaries in runs.items():
        shares = [100 * summary["wait_share"] for summary in summaries]
        note = summaries[0]["feed_hint"].partition(" (")[0] or "nothing is advised any more"
        rows.append(figure(f"wait_share_{name}", shares, "%", note, BOUND_SHARE if name == "after" else None))
    for name, summaries in runs.items():
        speeds = [summary["samples"] / summary["train_s"] for summary in summaries]
        rows.append(figure(f"speed_{name}", speeds, "samples/s", "of the whole run, model included"))
    rows.append(
        figure("probe_gain", [gain], "ratio", "`hemostat data probe`: fetching alone, by a stored copy")
    )
    rows.append(figure("prepare_s", [prepare_s], "s", "`hemostat data prepare`, once, with its start"))
    return rows


def main() -> None:
    with tempfile.TemporaryDirectory(prefix=".bench-input-bound-", dir=ROOT) as name:
        runs, prepare_s = measure(Path(name), NUM_ROUNDS)
        rows = figures(runs, stored_copy_gain(Path(name)), prepare_s)
    write_result("input_bound", rows)
    for row in rows:
        print(f"{row['name']:<20} {row['value']:>9} {row['unit']:<10} {row['note']}")


if __name__ == "__main__":
    main()
