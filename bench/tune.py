"""Studies replayed over recorded runs: the default method until it stops by itself, and what people use instead.

`make bench-tune` writes bench/results/tune.json. Five workers, a virtual clock of recorded seconds; the budget is the
time of the whole grid, and who doesn't find the grid's best counts with all of it. See `tune_data` for what is found
and for the half of the tasks on which constants were chosen.

Seeds are gone through one after the other until `--minutes` have passed, so that a busy machine has fewer of them;
the notes say how many there were.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from multiprocessing import get_context
from typing import Any, NamedTuple

from hemostat.tune.pruners.asha import AshaPruner
from hemostat.tune.samplers.random import Random
from hemostat.tune.scaling_law import SmallRun, start_from
from hemostat.tune.stopping import done
from hemostat.tune.trial import Configuration
from result_file import write_result
from tune_data import FAMILIES, Problem
from tune_figures import Run, figures
from tune_peers import one_epoch_s, peer, time_to_target_s
from tune_pool import Pool
from tune_replay import Method, default_method, run_study
from tune_spend import NUM_STUDIES, overspends

NUM_SEEDS = 10
NUM_CHEAP_SEEDS = 20  # of grids and random search: they take no time, and luck decides most about them
MIN_SIZES = 3  # smaller settings that a scaling law needs
WITH_CURVES = ("lcbench", "taskset", "algoperf")
CHEAP = ("grid", "random_grid", "random", "one_epoch")
SLOW = ("optuna", "asha", "optuna_hyperband", "optuna_median")
PRUNING = ("one_epoch", "asha", "optuna_hyperband", "optuna_median")


class Job(NamedTuple):
    """One study."""

    method: str
    family: str
    index: int
    seed: int


@cache
def problems(family: str) -> list[Problem]:
    return FAMILIES[family]()


@cache
def pool(family: str, index: int) -> Pool:
    return Pool(problems(family)[index])


def law_start(index: int) -> list[Configuration]:
    """The first round from all smaller settings of Step-Law."""
    known, scale = problems("steplaw"), problems("steplaw")[index].scale
    runs = [
        SmallRun(
            num_params=other.scale[0], num_tokens=other.scale[1], lr=row[0], batch=row[1], loss=float(value)
        )
        for other in known[:index]
        if other.scale is not None
        for row, value in zip(other.rows, other.values[:, -1], strict=True)
    ]
    if scale is None:
        raise ValueError("a setting of Step-Law has its size")
    start = start_from(runs, *scale, names=("learning_rate", "batch_size"))
    return start.configs(pool("steplaw", index).space, 5)


def work(job: Job) -> Run:
    """Carry out one study."""
    found, problem = pool(job.family, job.index), problems(job.family)[job.index]
    stopped_s = math.inf
    if job.method in ("hemostat", "law"):
        start = law_start(job.index) if job.method == "law" else []
        has_goal = (
            job.family == "algoperf"
        )  # the official target is what a study of it is asked for, and ends at
        result = run_study(
            found, default_method(None if has_goal else done), job.seed, start, to_target=has_goal
        )
        time_s, stopped_s = result.found_s, result.ended_s
    elif job.method == "asha":
        method = Method(Random(), AshaPruner(), can_pause=False)
        time_s = run_study(found, method, job.seed, to_target=True).found_s
    elif job.method == "one_epoch":
        time_s = one_epoch_s(problem, job.seed)
    else:
        time_s = time_to_target_s(problem, peer(job.method, found, job.seed))
    share = float(min(1.0, time_s / problem.budget_s))
    stopped = float(min(1.0, stopped_s / problem.budget_s)) if share < 1 else 1.0
    return Run(job.method, job.family, problem.task, problem.half, job.seed, share, stopped)


def jobs() -> Iterator[Job]:
    """What is cheap first, then seed by seed; the slow peers come in with the second and each fourth after it."""
    for method in CHEAP:
        for family in FAMILIES if method not in PRUNING else WITH_CURVES:
            for index in range(len(problems(family))):
                yield from (Job(method, family, index, seed) for seed in range(NUM_CHEAP_SEEDS))
    for seed in range(NUM_SEEDS):
        slow_seed, is_due = divmod(seed - 1, 4)
        for method in ["hemostat", "law", *(SLOW if is_due == 0 else ())]:
            for family in FAMILIES:
                if (method == "law" and family != "steplaw") or (
                    method in PRUNING and family not in WITH_CURVES
                ):
                    continue
                least = MIN_SIZES if method == "law" else 0
                own = slow_seed if method in SLOW else seed
                yield from (Job(method, family, index, own) for index in range(least, len(problems(family))))


def main() -> None:
    """Replay, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=20.0, help="after which no further result is waited for"
    )
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    ends_s = time.monotonic() + 60 * chosen.minutes
    runs: list[Run] = []
    with get_context("fork").Pool(chosen.processes) as processes:
        num_over = sum(processes.imap_unordered(overspends, range(NUM_STUDIES), chunksize=20))
        for run in processes.imap_unordered(work, jobs(), chunksize=1):
            runs.append(run)
            if time.monotonic() > ends_s:
                print(f"{chosen.minutes:g} minutes have passed: further seeds are left out")
                break
        processes.terminate()
    rows: list[dict[str, Any]] = figures(runs, num_over)
    for row in rows:
        met = "" if row["meets"] is None else f"bar {row['bar']}: {'met' if row['meets'] else 'MISSED'}"
        print(f"{row['name']:<44} {row['value']:>9} {row['unit']:<6} {met:<16} {row['note']}")
    own = Counter(run.task for run in runs if run.method == "hemostat")
    seeds = statistics.median(own.values())
    write_result("tune", rows, f"{seeds:.0f} seeds")


if __name__ == "__main__":
    main()
