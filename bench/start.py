"""How long `import hemostat` and `hemostat --help` take in fresh processes; writes bench/results/start.json.

Each of 20 rounds starts one process of every kind, so that a busy moment hits all of them.
The values are whole wall times, interpreter start included; `python -c pass` stands beside them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from result_file import ROOT, write_result

NUM_ROUNDS = 20
HEAVY = ("torch", "numpy", "typer")
SCRIPT = str(Path(sys.executable).with_name("hemostat"))
# name of the figure -> (command line, bar in ms)
COMMANDS = {
    "python_pass_ms": ([sys.executable, "-c", "pass"], None),
    "import_hemostat_ms": ([sys.executable, "-c", "import hemostat"], 50),
    "help_ms": ([SCRIPT, "--help"], 150),
}


def wall_ms(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1e3


def measure(num_rounds: int) -> dict[str, list[float]]:
    """One warm-up round for the byte code, then interleaved rounds."""
    times_ms: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for index in range(num_rounds + 1):
        for name, (command, _) in COMMANDS.items():
            elapsed_ms = wall_ms(command)
            if index:
                times_ms[name].append(elapsed_ms)
    return times_ms


def num_heavy_modules() -> int:
    """How many of torch, numpy and typer the root help loads."""
    code = (
        "import sys; from hemostat.cli.main import run; run(['--help']); "
        f"print(len(set(sys.modules) & set({HEAVY!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return int(done.stdout.splitlines()[-1])


def figures(times_ms: dict[str, list[float]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, (_, bar) in COMMANDS.items():
        median_ms = statistics.median(times_ms[name])
        low_ms, high_ms = min(times_ms[name]), max(times_ms[name])
        rows.append(
            {
                "name": name,
                "value": round(median_ms, 1),
                "unit": "ms",
                "bar": bar,
                "meets": None if bar is None else median_ms < bar,
                "note": f"median of {len(times_ms[name])}, from {low_ms:.1f} to {high_ms:.1f}",
            }
        )
    num_heavy = num_heavy_modules()
    note = f"{', '.join(HEAVY)} in sys.modules after `hemostat --help`"
    rows.append(
        {
            "name": "help_heavy_modules",
            "value": num_heavy,
            "unit": "modules",
            "bar": 0,
            "meets": not num_heavy,
            "note": note,
        }
    )
    return rows


def main() -> None:
    rows = figures(measure(NUM_ROUNDS))
    write_result("start", rows)
    for row in rows:
        verdict = {True: "meets", False: "MISSES", None: ""}[row["meets"]]
        bar = "" if row["bar"] is None else f"bar {row['bar']}"
        print(f"{row['name']:<20} {row['value']:>7} {row['unit']:<8} {bar:<8} {verdict:<7} {row['note']}")


if __name__ == "__main__":
    main()
