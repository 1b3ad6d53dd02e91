"""Recorded runs as tuning problems: what may be tried, the curve and the seconds of each, and what counts as found.

The records lie beside the repository in ../shared/data/tune and are not part of it (one has no licence); the
README there has their sources. Of each family every second task is "train": constants of the method were chosen on
those alone. The others are "held-out". Both halves are reported.

Every problem is minimised. The untrained first evaluation of LCBench and TaskSet is dropped.
"""

from __future__ import annotations

import csv
import gzip
import heapq
import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tune"
NUM_WORKERS = 5
SPARE = 0.001  # Step-Law: a loss within 0.1 % of the grid's best is as good as the best
TASKSET_TOP, TASKSET_RUNS = 10, 200
ALGOPERF_POSITIONS = 20
ALGOPERF_MIN_ARMS = 40


class Axis(NamedTuple):
    """One parameter as the problem knows it.

    Attributes:
        name: of the parameter.
        levels: all its values where it is discrete, else its two ends.
        kind: "real", "integer", "ordered" (levels with an order) or "names" (levels without).
        log: equal steps are equal factors.
    """

    name: str
    levels: tuple[Any, ...]
    kind: str
    log: bool = False

    def unit(self, value: Any) -> float:
        """Place in 0 to 1."""
        if self.kind in ("ordered", "names"):
            return self.levels.index(value) / max(1, len(self.levels) - 1)
        low, high = self.levels
        if self.log:
            return math.log(value / low) / math.log(high / low)
        return float((value - low) / (high - low))


class Problem(NamedTuple):
    """One task of one family.

    Attributes:
        family: lcbench, taskset, tables, steplaw or algoperf.
        task: its name.
        half: "train" or "held-out".
        axes: the parameters.
        rows: the levels (or values) of every configuration that was run, one row each, in the order of the axes.
        values: objective by configuration and position; NaN where the run had diverged.
        times_s: seconds since the start of the run, same shape.
        grid: rows of the grid that people would have run, in its order.
        target: an objective at the end of a run, this low or lower, counts as found.
        budget_s: time of the whole grid with 5 workers.
        scale: (parameters, tokens) of a language model; None elsewhere.
    """

    family: str
    task: str
    half: str
    axes: tuple[Axis, ...]
    rows: Sequence[tuple[Any, ...]]
    values: np.ndarray
    times_s: np.ndarray
    grid: tuple[int, ...]
    target: float
    budget_s: float
    scale: tuple[float, float] | None = None

    @property
    def length(self) -> int:
        """Positions of a full run."""
        return int(self.values.shape[1])

    def units(self, row: Sequence[Any]) -> list[float]:
        """A configuration in the unit cube."""
        return [axis.unit(value) for axis, value in zip(self.axes, row, strict=True)]


class Lattice(Sequence[tuple[Any, ...]]):
    """All configurations of a full table, made when asked for."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = axes
        self.shape = tuple(len(axis.levels) for axis in axes)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __getitem__(self, index: Any) -> Any:
        places = np.unravel_index(index, self.shape)
        return tuple(axis.levels[place] for axis, place in zip(self.axes, places, strict=True))


def schedule_s(durations_s: Sequence[float]) -> float:
    """When 5 workers that take runs in the given order are done with all."""
    free_s = [0.0] * NUM_WORKERS
    for duration_s in durations_s:
        heapq.heapreplace(free_s, free_s[0] + duration_s)
    return max(free_s)


def half(index: int) -> str:
    """Every second task of a family, beginning with the first, is for choosing constants."""
    return "held-out" if index % 2 else "train"


def nearest_rows(
    axes: Sequence[Axis], rows: Sequence[tuple[Any, ...]], wanted: Sequence[tuple[Any, ...]]
) -> list[int]:
    """For each wanted configuration the nearest recorded one that none before it has taken."""
    cube = np.array([[axis.unit(value) for axis, value in zip(axes, row, strict=True)] for row in rows])
    free = np.ones(len(rows), dtype=bool)
    taken = []
    for row in wanted:
        point = np.array([axis.unit(value) for axis, value in zip(axes, row, strict=True)])
        distance = np.where(free, ((cube - point) ** 2).sum(axis=1), np.inf)
        taken.append(int(distance.argmin()))
        free[taken[-1]] = False
    return taken


def lcbench() -> list[Problem]:
    """Networks on tabular data, 51 epochs; the grid's 192 points are taken from the nearest recorded runs."""
    data = np.load(DATA / "lcbench" / "lcbench_yahpo_1000x17.npz")
    axes = (
        Axis("batch_size", (16, 512), "integer", log=True),
        Axis("learning_rate", (1e-4, 1e-1), "real", log=True),
        Axis("momentum", (0.1, 0.99), "real"),
        Axis("weight_decay", (1e-5, 1e-1), "real", log=True),
        Axis("num_layers", (1, 5), "integer"),
        Axis("max_units", (64, 1024), "integer", log=True),
        Axis("max_dropout", (0.0, 1.0), "real"),
    )
    whole = [axis.kind == "integer" for axis in axes]
    rows = [tuple(int(v) if w else float(v) for v, w in zip(row, whole, strict=True)) for row in data["hp"]]
    wanted = itertools.product(
        (32, 128, 512), (1e-4, 1e-3, 1e-2, 1e-1), (0.5, 0.9), (1e-4, 1e-2), (2, 4), (256,), (0.0, 0.5)
    )
    grid = nearest_rows(axes, rows, list(wanted))
    problems = []
    for index, name in enumerate(data["instances"]):
        values = 1 - data["val_accuracy"][index, :, 1:].astype(float) / 100
        times_s = data["time_s"][index, :, 1:].astype(float)
        target = float(values[grid, -1].min())
        budget_s = schedule_s(times_s[grid, -1])
        problems.append(
            Problem(
                "lcbench", str(name), half(index), axes, rows, values, times_s, tuple(grid), target, budget_s
            )
        )
    return problems


def taskset() -> list[Problem]:
    """Recurrent networks on text with an Adam of 8 parameters; the budget is 200 full runs in random order."""
    log_axes = {
        "learning_rate": (1e-8, 10.0),
        "one_minus_beta1": (1e-4, 1.0),
        "one_minus_beta2": (1e-6, 1.0),
        "epsilon": (1e-10, 1e3),
        "l1": (1e-8, 10.0),
        "l2": (1e-8, 10.0),
        "linear_decay": (1e-7, 1e-4),
        "exponential_decay": (1e-6, 1e-3),
    }
    axes = tuple(Axis(name, ends, "real", log=True) for name, ends in log_axes.items())
    problems = []
    for index, path in enumerate(sorted((DATA / "taskset").glob("*.npz"))):
        data = np.load(path)
        settings = data["hp"].copy()
        settings[:, 1:3] = 1 - settings[:, 1:3]
        lows, highs = zip(*log_axes.values(), strict=True)
        rows = [tuple(map(float, row)) for row in settings.clip(lows, highs)]
        values = data["valid"][:, 1:].astype(float)
        times_s = np.broadcast_to(np.arange(1.0, values.shape[1] + 1), values.shape)
        target = float(np.sort(np.nan_to_num(values[:, -1], nan=np.inf))[TASKSET_TOP - 1])
        budget_s = TASKSET_RUNS * values.shape[1] / NUM_WORKERS
        everything = tuple(range(len(rows)))
        problems.append(
            Problem(
                "taskset", path.stem, half(index), axes, rows, values, times_s, everything, target, budget_s
            )
        )
    return problems


def _table(path: Path, index: int, coarse: Callable[[dict[str, list[Any]]], list[list[Any]]]) -> Problem:
    data = np.load(path)
    known: dict[str, list[Any]] = json.loads(str(data["axes"]))
    axes = tuple(
        Axis(name, tuple(levels), "names" if isinstance(levels[0], str) else "ordered")
        for name, levels in known.items()
    )
    mean = data["value"].astype(float).mean(axis=-1)
    better_high = "acc" in str(data["metric"])
    values = (-mean if better_high else mean).reshape(-1, 1)
    times_s = data["train_time_s"].astype(float).reshape(-1, 1)
    places = [
        [levels.index(v) for v in kept] for levels, kept in zip(known.values(), coarse(known), strict=True)
    ]
    grid = tuple(int(np.ravel_multi_index(place, mean.shape)) for place in itertools.product(*places))
    target = float(values[list(grid), -1].min())
    budget_s = schedule_s(times_s[list(grid), -1])
    return Problem(
        "tables", path.stem, half(index), axes, Lattice(axes), values, times_s, grid, target, budget_s
    )


def _coarse_hpobench(known: dict[str, list[Any]]) -> list[list[Any]]:
    return [levels if len(levels) == 3 else [levels[1], levels[5], levels[8]] for levels in known.values()]


def _coarse_hpolib(known: dict[str, list[Any]]) -> list[list[Any]]:
    kept = {
        "activation_fn_2": ["relu"],
        "batch_size": [16, 64],
        "dropout_1": [0.0, 0.3],
        "dropout_2": [0.0, 0.3],
        "init_lr": [0.0005, 0.005, 0.05],
        "n_units_1": [128, 512],
        "n_units_2": [128, 512],
    }
    return [kept.get(name, levels) for name, levels in known.items()]


def tables() -> list[Problem]:
    """Exhaustive tables of final values, no curves; the grid is a coarse one of 243 or 384 points.

    NAS-Bench-201 is left out: nobody lays a coarse grid over kinds of layers, and the protocol has none for it.
    """
    coarse = {"hpobench": _coarse_hpobench, "hpolib": _coarse_hpolib}
    paths = [
        path for path in sorted((DATA / "tabular").glob("*.npz")) if path.stem.partition("_")[0] in coarse
    ]
    return [_table(path, index, coarse[path.stem.partition("_")[0]]) for index, path in enumerate(paths)]


def steplaw() -> list[Problem]:
    """Complete grids of learning rate and batch of language models, by size; final loss only, equal cost."""
    settings: dict[tuple[float, float], dict[tuple[float, float], float]] = {}
    with gzip.open(DATA / "steplaw" / "dense_lr_bs_loss.csv.gz", "rt", encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            cell = settings.setdefault((float(line["N"]), float(line["D"])), {})
            key = float(line["lr"]), float(line["bs"])
            cell[key] = min(float(line["smooth loss"]), cell.get(key, math.inf))
    full = sorted((key for key in settings if len(settings[key]) >= 100), key=math.prod)
    problems = []
    for index, scale in enumerate(full):
        cells = settings[scale]
        rates, batches = (tuple(sorted({key[place] for key in cells})) for place in (0, 1))
        axes = (
            Axis("learning_rate", (rates[0], rates[-1]), "real", log=True),
            Axis("batch_size", (batches[0], batches[-1]), "real", log=True),
        )
        rows = sorted(cells)
        values = np.array([[cells[row]] for row in rows])
        seconds = np.ones_like(values)
        grid = tuple(range(len(rows)))
        target = float(values.min()) * (1 + SPARE)
        name = f"{scale[0] / 1e6:.0f}M parameters, {scale[1] / 1e9:.1f}B tokens"
        budget_s = schedule_s(seconds[:, 0])
        problems.append(
            Problem("steplaw", name, half(index), axes, rows, values, seconds, grid, target, budget_s, scale)
        )
    return problems


def algoperf(repeat: int = 0) -> list[Problem]:
    """Optimisers with their settings on eight devices; a run ends at the official target, the time limit or a fault.

    Positions are twentieths of the time limit; the value there is the last measured one. Found is the target.

    Args:
        repeat: which of the 5 repeats of each run.
    """
    by_task: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    with gzip.open(DATA / "algoperf" / "algoperf_trials.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            if (run["version"], run["ruleset"], run["study"]) == ("v05", "external_tuning", repeat):
                by_task.setdefault(run["workload"], {})[run["submission"], run["trial"]] = run
    problems = []
    for name, runs in sorted(by_task.items()):
        if len(runs) >= ALGOPERF_MIN_ARMS:
            problems.append(_workload(name, runs, half(len(problems))))
    return [problem for problem in problems if np.nanmin(problem.values[:, -1]) <= problem.target]


def _workload(name: str, runs: dict[tuple[str, int], dict[str, Any]], which: str) -> Problem:
    rows = sorted(runs)
    submissions = tuple(sorted({row[0] for row in rows}))
    axes = (Axis("submission", submissions, "names"), Axis("setting", tuple(range(1, 6)), "names"))
    first = next(run for run in runs.values() if run["status"] == "ok")
    sign = 1 if first["metric"] in ("loss", "wer") else -1
    ends_s = first["max_runtime_s"] * np.arange(1, ALGOPERF_POSITIONS + 1) / ALGOPERF_POSITIONS
    curves = [_positions(runs[row], sign, ends_s) for row in rows]
    values, times_s = (np.array([curve[part] for curve in curves]) for part in (0, 1))
    grid = tuple(range(len(rows)))
    target = sign * float(first["target"])
    return Problem(
        "algoperf", name, which, axes, rows, values, times_s, grid, target, schedule_s(times_s[:, -1])
    )


def _positions(run: dict[str, Any], sign: int, ends_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value and seconds at each twentieth of the time limit; after its end a run costs nothing."""
    known = [
        (t, sign * v)
        for t, v in zip(run.get("train_s", ()), run.get("val", ()), strict=True)
        if v is not None
    ]
    if run["status"] != "ok" or not known:
        last_s = known[-1][0] if known else 0.0
        return np.full(len(ends_s), np.nan), np.minimum(ends_s, max(last_s, ends_s[0]))
    clock, values = np.array(known).T
    best = np.minimum.accumulate(values)
    place = (np.searchsorted(clock, ends_s, side="right") - 1).clip(0)
    return best[place], np.minimum(ends_s, clock[-1])


FAMILIES: dict[str, Callable[[], list[Problem]]] = {
    "lcbench": lcbench,
    "taskset": taskset,
    "tables": tables,
    "steplaw": steplaw,
    "algoperf": algoperf,
}
