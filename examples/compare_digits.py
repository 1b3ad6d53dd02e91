"""Trains examples/digits.py on 1, 2 and 4 processes, and on 4 without scaling the rate, and lays the curves together.

`python examples/compare_digits.py` takes about a minute on two cores; each process keeps its batch of 16, so the
global batch is 16, 32 and 64. The seed noise is the range of several one-process runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from hemostat.track import list_runs, new_run_id

TASK = Path(__file__).with_name("digits.py")
MICRO_BATCH = 16
Curve = list[tuple[int, int, float]]  # (step, samples, value)


class Plan(NamedTuple):
    """One run of the comparison."""

    name: str
    num_ranks: int
    overrides: tuple[str, ...] = ()


PLANS = (
    Plan("1 process", 1),
    Plan("2 processes", 2),
    Plan("4 processes", 4),
    Plan("4 processes, rate not scaled", 4, ("lr_rule=constant",)),
)


def train(plan: Plan, runs: Path, overrides: tuple[str, ...]) -> Any:
    """Run one plan with the command that a user would type, and return its record.

    Raises:
        RuntimeError: the command failed; its output is the message.
    """
    before = {run.id for run in list_runs(runs)}
    command = [sys.executable, "-m", "hemostat", "train", f"{TASK}:Digits", "--runs", str(runs), "--no-plot"]
    command += ["--nproc", str(plan.num_ranks)]
    for pair in (f"micro_batch={MICRO_BATCH}", *plan.overrides, *overrides):
        command += ["--set", pair]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{plan.name}: {done.stderr.strip() or done.stdout.strip()}")
    return next(run for run in list_runs(runs) if run.id not in before)


def compare(runs: Path, seeds: tuple[int, ...], overrides: tuple[str, ...] = ()) -> dict[str, list[Curve]]:
    """Validation loss of every plan: all seeds for one process, the first seed for the others."""
    curves: dict[str, list[Curve]] = {}
    for plan in PLANS:
        wanted = seeds if plan.num_ranks == 1 else seeds[:1]
        curves[plan.name] = [
            train(plan, runs, (*overrides, f"train.seed={seed}")).metrics("val_loss") for seed in wanted
        ]
    return curves


def table(curves: dict[str, list[Curve]]) -> str:
    """Steps and last validation loss of each plan; the range over seeds for one process."""
    lines = [f"{'run':<30} {'batch':>6} {'steps':>6}  last validation loss"]
    for plan in PLANS:
        last = [curve[-1] for curve in curves[plan.name]]
        losses = [value for _, _, value in last]
        text = f"{losses[0]:.4f}"
        if len(losses) > 1:
            text += f"  ({min(losses):.4f} to {max(losses):.4f} over {len(losses)} seeds)"
        lines.append(f"{plan.name:<30} {plan.num_ranks * MICRO_BATCH:>6} {last[0][0]:>6}  {text}")
    return "\n".join(lines)


def draw(curves: dict[str, list[Curve]], target: Path) -> None:
    """Validation loss against samples; the other seeds of one process in grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot(
        yscale="log", xlabel="samples seen", ylabel="validation loss", title="Digits, SGD, batch 16 a process"
    )
    for name, repeats in curves.items():
        for curve in repeats[1:]:
            axes.plot([point[1] for point in curve], [point[2] for point in curve], color="0.8")
        first = repeats[0]
        style = "--" if "not scaled" in name else "-"
        axes.plot([point[1] for point in first], [point[2] for point in first], style, label=name)
    axes.legend()
    figure.savefig(target, dpi=110)


def main(arguments: list[str] | None = None) -> dict[str, list[Curve]]:
    """Run, print the table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="one-process runs for the noise")
    parser.add_argument("--runs", type=Path, default=Path(".hemostat/digits"), help="folder of the runs")
    parser.add_argument(
        "--set", action="append", default=[], help="a setting for all runs, as in --set epochs=2"
    )
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error("--seeds must be 1 or more")
    curves = compare(options.runs, tuple(range(options.seeds)), tuple(options.set))
    target = options.runs / f"compare-{new_run_id()}.png"
    draw(curves, target)
    print(table(curves))
    print(f"figure: {target}")
    return curves


if __name__ == "__main__":
    main()
