"""What a list of replayed studies says: cuts, ratios and hits, by family, by half and by method."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

Figure = dict[str, Any]
CUT_FAMILIES = ("lcbench", "tables", "steplaw")
STEPS = ("train", "held-out")
PEERS = {
    "grid": "the grid in its order",
    "random_grid": "the grid in random order",
    "random": "random search",
    "optuna": "Optuna 5, its defaults",
    "optuna_hyperband": "Optuna 5 with its Hyperband pruner",
    "optuna_median": "Optuna 5 with its median pruner",
    "asha": "ASHA as Ray sets it: grace 1, eta 4, stops",
    "one_epoch": "the grid for one evaluation each, then whole from the best down",
}


class Run(NamedTuple):
    """One study.

    Attributes:
        method: "hemostat", "law" (with a scaling-law start) or a peer.
        family, task, half, seed: of the problem.
        found: time to the target as a share of the grid's; 1 where it was missed.
        stopped: time until the tuner itself stopped, likewise; 1 where the target was missed.
    """

    method: str
    family: str
    task: str
    half: str
    seed: int
    found: float
    stopped: float


def by_task(runs: Iterable[Run], value: Callable[[Run], float]) -> dict[str, float]:
    """Mean over the seeds of each task."""
    groups: dict[str, list[float]] = {}
    for run in runs:
        groups.setdefault(run.task, []).append(value(run))
    return {task: statistics.fmean(values) for task, values in groups.items()}


def cut_pct(runs: Iterable[Run], value: Callable[[Run], float]) -> float:
    """Mean over the tasks of what is saved of the grid's time."""
    return 100 * (1 - statistics.fmean(by_task(runs, value).values()))


def ratio(runs: Sequence[Run], others: Sequence[Run], value: Callable[[Run], float]) -> float:
    """Geometric mean over the tasks of the others' time to the target by a method's time."""
    own, theirs = by_task(runs, value), by_task(others, lambda run: run.found)
    return statistics.geometric_mean(theirs[task] / max(own[task], 1e-6) for task in own if task in theirs)


def found(run: Run) -> float:
    return run.found


def stopped(run: Run) -> float:
    return run.stopped


def size(runs: Sequence[Run]) -> str:
    """Tasks and seeds, in words."""
    counts = [sum(run.task == task for run in runs) for task in {run.task for run in runs}]
    seeds = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"{len(counts)} tasks, {seeds} seeds"


def figure(name: str, value: float, unit: str, note: str, bar: str = "") -> Figure:
    """One row; the bar is ">= 85" or "<= 0"."""
    shown = round(value, 3)
    meets = None if not bar else shown >= float(bar[3:]) if bar.startswith(">=") else shown <= float(bar[3:])
    return {"name": name, "value": shown, "unit": unit, "bar": bar or None, "meets": meets, "note": note}


def figures(runs: Sequence[Run], num_over: int) -> list[Figure]:
    """Bars first, then each family and half, then the peers."""
    own = [run for run in runs if run.method == "hemostat"]
    return [*_bars(runs, own, num_over), *_halves(runs, own), *_peers(runs)]


def _of(runs: Iterable[Run], **wanted: str) -> list[Run]:
    return [run for run in runs if all(getattr(run, field) == value for field, value in wanted.items())]


def _bars(runs: Sequence[Run], own: Sequence[Run], num_over: int) -> list[Figure]:
    cut = [run for run in own if run.family in CUT_FAMILIES]
    law = _of(runs, method="law")
    grid = _of(runs, method="random_grid")
    families = sorted({run.family for run in own})
    over = {name: ratio(_of(own, family=name), _of(grid, family=name), found) for name in families}
    worst, least = min(over, key=over.__getitem__), min(CUT_FAMILIES, key=over.__getitem__)
    taskset = _of(own, family="taskset")
    random = _of(runs, method="random", family="taskset")
    strict = "until the tuner itself stops; a miss counts as the whole grid"
    return [
        figure(
            "mean_cut_pct",
            cut_pct(cut, stopped),
            "%",
            f"{strict}; LCBench, tables, Step-Law: {size(cut)}",
            ">= 85",
        ),
        figure(
            "scaling_law_cut_pct", cut_pct(law, stopped), "%", f"Step-Law, {strict}; {size(law)}", ">= 93"
        ),
        figure(
            "over_random_grid",
            over[least],
            "x",
            f"time to the target; the lowest of the three: {least}",
            ">= 2.5",
        ),
        figure(
            "worst_family_over_random_grid", over[worst], "x", f"the lowest of all five: {worst}", ">= 0.9"
        ),
        figure(
            "taskset_over_random",
            ratio(taskset, random, found),
            "x",
            f"time to the target; {size(taskset)}",
            ">= 5",
        ),
        figure(
            "hit_rate_pct",
            100 * _hits(cut),
            "%",
            "found before it stopped; LCBench, tables, Step-Law",
            ">= 95",
        ),
        figure("overspends", num_over, "", "of 1,000 studies with noisy step times", "<= 0"),
        figure(
            "mean_cut_to_target_pct",
            cut_pct(cut, found),
            "%",
            "until the target; this is what the peers have",
        ),
        figure("scaling_law_to_target_pct", cut_pct(law, found), "%", "until the target"),
        figure("scaling_law_hit_pct", 100 * _hits(law), "%", "found before it stopped"),
    ]


def _hits(runs: Sequence[Run]) -> float:
    return statistics.fmean(by_task(runs, lambda run: float(run.found < 1)).values())


def _halves(runs: Sequence[Run], own: Sequence[Run]) -> list[Figure]:
    rows = []
    for family in sorted({run.family for run in own}):
        for half in STEPS:
            part = _of(own, family=family, half=half)
            if not part:
                continue
            start = f"{family}_{half.replace('-', '_')}"
            grid = _of(runs, method="random_grid", family=family, half=half)
            rows += [
                figure(f"{start}_cut_pct", cut_pct(part, stopped), "%", f"until it stops; {size(part)}"),
                figure(f"{start}_to_target_pct", cut_pct(part, found), "%", "until the target"),
                figure(f"{start}_hit_pct", 100 * _hits(part), "%", "found before it stopped"),
                figure(f"{start}_over_random_grid", ratio(part, grid, found), "x", "time to the target"),
            ]
    return rows


def _peers(runs: Sequence[Run]) -> list[Figure]:
    rows = []
    for method, words in PEERS.items():
        for family in sorted({run.family for run in runs if run.method == method}):
            part = _of(runs, method=method, family=family)
            tasks = {run.task for run in part}
            grid = [run for run in _of(runs, method="random_grid", family=family) if run.task in tasks]
            note = f"{words}; until the target, since it doesn't stop by itself; {size(part)}"
            rows += [
                figure(f"{method}_{family}_cut_pct", cut_pct(part, found), "%", note),
                figure(f"{method}_{family}_hit_pct", 100 * _hits(part), "%", words),
                figure(f"{method}_{family}_over_random_grid", ratio(part, grid, found), "x", words),
            ]
    return rows
