"""Real trainings of the demo's byte-level model: a grid of 3 x 3 x 2 x 2, then the tuner at a quarter of its cost.

`make bench-tune-real` writes bench/results/tune_real.json. Both go through the same trials, one at a time, on the
same machine and in the same run; the cost is the seconds that trials ran. The tuner's hard cap is a quarter of what
the grid took; it searches the ranges that the grid spans and starts in the middle of the grid.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from hemostat.cli.tune_setup import Asked, TuneSettings, setup
from hemostat.launch import backend
from hemostat.tune.budget import Budget
from hemostat.tune.drive import drive
from hemostat.tune.evidence import is_control
from hemostat.tune.journal import Journal
from hemostat.tune.launched import LaunchedWorkers, Site
from hemostat.tune.pruners import pruner
from hemostat.tune.samplers import sampler
from hemostat.tune.settings import Settings
from hemostat.tune.space import Choice, Real, Space
from hemostat.tune.stopping import done
from hemostat.tune.study import Study
from hemostat.tune.workers import Clock
from result_file import write_result

TASK = f"{Path(__file__).with_name('tune_real_task.py')}:TunedByteGPT"
SHARE = 0.25
GRID = {
    "lr": (1e-3, 3e-3, 1e-2),
    "batch": (8, 16, 32),
    "warmup_share": (0.02, 0.1),
    "weight_decay": (0.01, 0.1),
}
SMALL = {"lr": (1e-3, 1e-2), "batch": (16,), "warmup_share": (0.1,), "weight_decay": (0.01,)}
MIDDLE = {"lr": 3e-3, "batch": 16, "warmup_share": 0.1, "weight_decay": 0.01}


def grid_space(levels: dict[str, tuple[Any, ...]]) -> Space:
    """The points of the grid."""
    return Space(tuple(Choice(name, values) for name, values in levels.items()))


def tuned_space() -> Space:
    """The ranges that the grid spans."""
    return Space(
        (
            Real("lr", GRID["lr"][0], GRID["lr"][-1]),
            Choice("batch", GRID["batch"]),
            Real("warmup_share", GRID["warmup_share"][0], GRID["warmup_share"][-1], log=True),
            Real("weight_decay", GRID["weight_decay"][0], GRID["weight_decay"][-1]),
        ),
        start=MIDDLE,
    )


def run(
    name: str, space: Space, root: Path, total_samples: int, cap_s: float | None
) -> tuple[float, float, int, str]:
    """One study with one trial at a time.

    Args:
        name: "grid" or "tuner".
        space: what may be chosen.
        root: folder of the runs.
        total_samples: of one run.
        cap_s: seconds that trials may run in all; None for the grid, which runs whole.

    Returns:
        The best value at the end of a run, seconds that trials ran, trials, and why it ended.
    """
    is_grid = cap_s is None
    tune = TuneSettings(
        sampler="grid" if is_grid else "gp", pruner="none" if is_grid else "promotion", name=name
    )
    asked = Asked(task=TASK, values={"total_samples": total_samples}, nproc=1, tune=tune)
    made = setup(asked, space.names, 1)
    settings = Settings(
        length=made.length,
        step=made.step,
        direction=made.direction,
        can_pause=made.jobs.can_pause,
        budget=Budget(max_device_s=cap_s),
    )
    with_guards = {} if is_grid else {"stop": done, "control": is_control}
    study = Study(Journal(None), space, sampler(tune.sampler), pruner(tune.pruner), settings, **with_guards)
    site = Site(study=name, root=root, length=made.length, step=made.step, slots=({},))
    with LaunchedWorkers(backend("local"), made.jobs, site, Clock()) as crew:
        why = drive(study, crew)
    board = study.history.at_rung(made.length)
    if not board:
        outcomes = [msgspec.to_builtins(trial) for trial in study.history.trials]
        raise RuntimeError(f"{name}: no run reached its end: {outcomes}")
    return board[0][0], study.busy_s, len(study.history.trials), why


def rows(grid: tuple[float, float, int, str], tuner: tuple[float, float, int, str]) -> list[dict[str, Any]]:
    """The figures: what both found and what they took."""
    gap_pct = 100 * (tuner[0] / grid[0] - 1)
    cost_pct = 100 * tuner[1] / grid[1]

    def row(name: str, value: float, unit: str, note: str, bar: float | None = None) -> dict[str, Any]:
        meets = None if bar is None else round(value, 3) <= bar
        shown = None if bar is None else f"<= {bar:g}"
        return {
            "name": name,
            "value": round(value, 3),
            "unit": unit,
            "bar": shown,
            "meets": meets,
            "note": note,
        }

    return [
        row(
            "tuner_over_grid_value_pct", gap_pct, "%", "best validation bits per byte against the grid's", 0.0
        ),
        row("tuner_cost_pct", cost_pct, "%", "seconds that trials ran against the grid's", 100 * SHARE),
        row("grid_value", grid[0], "bits", f"{grid[2]} whole runs"),
        row("grid_s", grid[1], "s", grid[3]),
        row("tuner_value", tuner[0], "bits", f"{tuner[2]} trials"),
        row("tuner_s", tuner[1], "s", tuner[3]),
    ]


def main() -> None:
    """Run both, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="two short runs as the grid; writes no file")
    parser.add_argument("--total-samples", type=int, default=960)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, length = Path(folder), 192 if chosen.small else chosen.total_samples
        grid = run("grid", grid_space(SMALL if chosen.small else GRID), root, length, None)
        print(f"grid: {grid}", flush=True)
        share = 2.0 if chosen.small else SHARE  # a quarter of two runs is not one
        tuner = run("tuner", tuned_space(), root, length, share * grid[1])
    found = rows(grid, tuner)
    for each in found:
        met = "" if each["meets"] is None else f"bar {each['bar']}: {'met' if each['meets'] else 'MISSED'}"
        print(f"{each['name']:<28} {each['value']:>10} {each['unit']:<5} {met} {each['note']}")
    if not chosen.small:
        write_result("tune_real", found)


if __name__ == "__main__":
    main()
