"""How long a run waits for data, before and after its own advice was followed; writes bench/results/input_bound.json.

`make bench-input_bound`. Each round trains `examples/input_bound.py:Scans` twice in fresh processes, with the scans as
they came and decoded once; `hemostat data probe` has said before what that would gain.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from start import ROOT, write_result

NUM_ROUNDS = 5
BOUND_SHARE = 10.0  # percent; above it a run is input-bound
EXAMPLE = ROOT / "examples" / "input_bound.py"
WAYS = {"before": "decoded=false", "after": "decoded=true"}
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


def measure(folder: Path, num_rounds: int, *settings: str) -> Runs:
    """Both ways in every round."""
    runs: Runs = {name: [] for name in WAYS}
    for _ in range(num_rounds):
        for name, setting in WAYS.items():
            runs[name].append(train(folder, setting, ONE_THREAD, *settings))
    return runs


def stored_copy_gain(folder: Path) -> float:
    """What the probe says a stored copy would gain; fetching alone, without a model."""
    found = json.loads(hemostat(folder, "data", "probe", f"{EXAMPLE}:Scans", "--json"))
    return next(float(way["gain"]) for way in found["advice"] if way["way"] == "stored copy")


def decoding_s() -> float:
    """What the advice costs, once."""
    sys.path.insert(0, str(EXAMPLE.parent))
    from input_bound import Decoded, Packed, Scans

    scans = Packed(Scans.num_scans)
    began = time.perf_counter()
    Decoded(scans)
    return time.perf_counter() - began


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


def figures(runs: Runs, gain: float, decoded_s: float) -> list[dict[str, Any]]:
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
    rows.append(figure("decoding_s", [decoded_s], "s", "decoding all scans, once, before the run"))
    return rows


def main() -> None:
    with tempfile.TemporaryDirectory(prefix=".bench-input-bound-", dir=ROOT) as name:
        rows = figures(measure(Path(name), NUM_ROUNDS), stored_copy_gain(Path(name)), decoding_s())
    write_result("input_bound", rows)
    for row in rows:
        print(f"{row['name']:<20} {row['value']:>9} {row['unit']:<10} {row['note']}")


if __name__ == "__main__":
    main()
