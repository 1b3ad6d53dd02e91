"""Step times that a plan predicts against published ones: errors on fitted and held-out rows, ranking, speed.

Every figure is of the terms that a plan has when nothing is said, `Terms()`, unless its name has `calibrated` in it.
What is published of an engine (whether traffic hides behind passes, what ranks of a pipeline send) is part of a row
like its layout; `as_torch` is the same row as hemostat itself would train it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

import plan_rows_time as tables
from hemostat.plan.calibrate import calibrate
from hemostat.plan.compute import Terms
from hemostat.plan.duration import STEP_ERROR, Duration, duration
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.workload import REGIMES, Workload
from plan_error_bars import inside_pct, quantile_alike
from plan_fit import fit, fitted
from plan_rows_more import layer_times, single_runs, zero_beside_megatron
from plan_rows_time import Row
from result_file import write_result

DEFAULT = Terms()
LEAST_ROWS = 5  # of a group whose layouts are ranked
QUANTILE = 0.95  # of the fitted errors that the error bar covers; held-out ones are larger
FASTEST = "micro batch and interleaving not published: the fastest"


def predicted(row: Row, terms: Terms = DEFAULT) -> Duration:
    """What a plan says; where micro batch or interleaving are not known, of the fastest."""
    profile, layout, work, cluster, _ = row.measured
    choices = row.choices or ((layout, work),)
    steps = [duration(profile, layout, work, cluster, terms) for layout, work in choices]
    return min(steps, key=lambda step: step.step_s)


def errors(rows: Iterable[Row], terms: Terms = DEFAULT) -> list[float]:
    """|predicted / measured - 1| of each."""
    return [abs(predicted(row, terms).step_s / row.measured.step_s - 1) for row in rows]


def mape_pct(rows: Iterable[Row], terms: Terms = DEFAULT) -> float:
    """Their mean in percent."""
    return 100 * statistics.fmean(errors(rows, terms))


def as_torch(row: Row) -> Row:
    """The same row as if torch ran it: what `hemostat plan` says for its own trainer."""
    work = row.measured.workload
    regime = msgspec.structs.replace(work.regime, engine="torch", overlaps=True)
    work = msgspec.structs.replace(work, regime=regime)
    return row._replace(measured=row.measured._replace(workload=work))


def spearman(first: list[float], second: list[float]) -> float:
    """Rank correlation; equal values share their mean rank."""
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(values: list[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def rankings(rows: Iterable[Row], terms: Terms = DEFAULT) -> list[tuple[float, float]]:
    """Of each group of layouts: rank correlation, and how much slower the chosen one is than the fastest, in %."""
    groups: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for row in rows:
        pair = (predicted(row, terms).step_s, row.measured.step_s)
        groups.setdefault(row.group, []).append(pair)
    found = []
    for pairs in groups.values():
        if len(pairs) >= LEAST_ROWS:
            guessed, true = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            found.append((spearman(guessed, true), 100 * (min(pairs)[1] / min(true) - 1)))
    return found


def constant_efficiency_pct(chosen: list[Row], held: list[Row]) -> float:
    """What one number would do: the median FLOP/s of the chosen rows for all held-out ones."""

    def rate(row: Row) -> float:
        step = duration(*row.measured[:4])
        return step.model_flop / row.measured.step_s / row.measured.cluster.num_devices

    usual = statistics.median(rate(row) for row in chosen)
    return 100 * statistics.fmean(abs(rate(row) / usual - 1) for row in held)


def figure(
    name: str, value: float, unit: str, note: str, bar: float | None = None, at_least: bool = False
) -> dict[str, Any]:
    """One figure; its bar is an upper limit, or with `at_least` a lower one."""
    meets = None if bar is None else value >= bar if at_least else value < bar
    return {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "meets": meets, "note": note}


def vtrain_figures() -> list[dict[str, Any]]:
    """Errors on both tables, apart, and the ranking of layouts in both and in each."""
    figures = []
    pooled: dict[str, list[tuple[float, float]]] = {"": [], "held_out_": [], "calibrated_": []}
    for name, bar in (("multinode", 12.0), ("singlenode", 15.0)):
        chosen, held = fitted()[f"vtrain_{name}"]
        rows, start = chosen + held, f"vtrain_{name}_"
        refitted = calibrate([row.measured for row in chosen])
        usual = constant_efficiency_pct(chosen, held)
        number = f"{len(held)} held-out rows"
        figures += [
            figure(f"{start}mape_pct", mape_pct(held), "%", f"{number}, the plan's default terms", bar),
            figure(
                f"{start}calibrated_mape_pct",
                mape_pct(held, refitted),
                "%",
                f"{number}, terms refitted to the others of the table",
                bar,
            ),
            figure(
                f"{start}as_torch_mape_pct",
                mape_pct(map(as_torch, held)),
                "%",
                f"{number}, without what is published of the engine",
                bar,
            ),
            figure(f"{start}fitted_mape_pct", mape_pct(chosen), "%", f"{len(chosen)} rows, default terms"),
            figure(
                f"{start}constant_efficiency_mape_pct",
                usual,
                "%",
                f"{number}, with the median FLOP/s of the others",
            ),
        ]
        found = rankings(rows)
        figures += ranking_figures(f"{name}_", found)
        pooled[""] += found
        pooled["held_out_"] += rankings(held)
        pooled["calibrated_"] += rankings(rows, refitted)
    for name, found in pooled.items():
        figures += ranking_figures(name, found)
    return figures


def ranking_figures(name: str, found: list[tuple[float, float]]) -> list[dict[str, Any]]:
    """Mean and worst of the groups; the mean has the bar, of whatever rows it is."""
    rows = "held-out rows only" if name.startswith("held") else "all rows"
    note = f"{len(found)} groups of {LEAST_ROWS} or more with one model, devices and global batch, {rows}"
    correlations, losses = [pair[0] for pair in found], [pair[1] for pair in found]
    slower = "than the fastest"
    return [
        figure(f"{name}ranking_spearman", statistics.fmean(correlations), "", f"mean of {note}", 0.9, True),
        figure(f"{name}ranking_spearman_worst", min(correlations), "", f"worst of {note}"),
        figure(f"{name}chosen_layout_slower_pct", statistics.fmean(losses), "%", f"{slower}; mean of {note}"),
        figure(f"{name}chosen_layout_slower_worst_pct", max(losses), "%", f"{slower}; worst of {note}"),
    ]


# tables on which nothing was chosen
OTHERS: tuple[tuple[str, Callable[[], list[Row]], str], ...] = (
    ("korthikanti", tables.korthikanti, ""),
    ("narayanan_table1", tables.narayanan, FASTEST),
    ("narayanan_table2", zero_beside_megatron, "ZeRO-3 and Megatron, from the days of 300B tokens"),
    ("published_runs", single_runs, "MT-NLG 530B and Llama 2 7B; the other runs say no layout"),
    ("megatron_h100", tables.megatron_h100, FASTEST),
    ("llama3_paper", tables.llama3, FASTEST),
    ("torchtitan", tables.torchtitan, "bf16, with and without compile; float8 is not modelled"),
)


def other_figures() -> list[dict[str, Any]]:
    """Tables on which nothing was chosen, then those whose devices were fitted, apart; and the error bar."""
    figures, unseen = [], []
    for name, read, more in OTHERS:
        found = errors(read())
        unseen.append(found)
        note = "; ".join(filter(None, (f"all {len(found)} rows held out", more)))
        figures += _with_coverage(name, found, note)
    chosen, held = [], []
    for name, (these, those) in fitted().items():
        chosen.append(errors(these))
        held.append(errors(those))
        note = f"{len(those)} held-out rows"
        if name.startswith("vtrain"):
            figures += _with_coverage(name, held[-1], note)[1:]
            continue
        figures += _with_coverage(name, held[-1], note)
        figures.append(
            figure(f"{name}_fitted_mape_pct", 100 * statistics.fmean(chosen[-1]), "%", f"{len(these)} rows")
        )
    layers = layer_times()
    mean_pct = statistics.fmean(abs(layer.error_pct) for layer in layers)
    figures.append(
        figure(
            "korthikanti_layer_mape_pct",
            mean_pct,
            "%",
            f"table 4, both passes of a layer, {len(layers)} rows",
        )
    )
    return figures + error_bar_figures(chosen, held, unseen)


def _with_coverage(name: str, found: list[float], note: str) -> list[dict[str, Any]]:
    return [
        figure(f"{name}_mape_pct", 100 * statistics.fmean(found), "%", note),
        figure(f"{name}_inside_error_bar_pct", inside_pct([found], STEP_ERROR), "%", note),
    ]


def error_bar_figures(
    chosen: list[list[float]], held: list[list[float]], unseen: list[list[float]]
) -> list[dict[str, Any]]:
    """The quantile that `STEP_ERROR` is, and what it covers of rows that nothing was chosen on."""
    bar = f"within {100 * STEP_ERROR:g} %, each table counting alike"
    largest = 100 * quantile_alike(chosen, QUANTILE)
    return [
        figure(
            "step_error_95_pct",
            largest,
            "%",
            "95 % quantile of the fitted rows' errors, each table counting alike; rounded: STEP_ERROR",
        ),
        figure("fitted_inside_error_bar_pct", inside_pct(chosen, STEP_ERROR), "%", f"fitted rows {bar}"),
        figure(
            "held_out_inside_error_bar_pct",
            inside_pct(held, STEP_ERROR),
            "%",
            f"held-out rows of the same tables {bar}",
        ),
        figure(
            "unseen_inside_error_bar_pct",
            inside_pct(unseen, STEP_ERROR),
            "%",
            f"tables on which nothing was chosen {bar}",
        ),
    ]


def speed_ms() -> float:
    """Median milliseconds of one layout of a 405B model on 16,384 devices, each with another micro batch or cut."""
    profile = tables.llama3()[0].measured.profile
    cluster = Cluster.read("16384xH100-80GB")
    taken = []
    for tp in (1, 2, 4, 8):
        for pp in (1, 2, 4, 8, 16, 32, 64):
            for micro in (1, 2, 4):
                layout = Layout(
                    dp=1, fsdp=16384 // tp // pp, tp=tp, pp=pp, schedule="1f1b" if pp > 1 else None
                )
                work = Workload(micro_batch=micro, accumulation=16, regime=REGIMES[2])
                begin = time.perf_counter()
                duration(profile, layout, work, cluster)
                taken.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(taken)


def main() -> None:
    """Measure, print, and write bench/results/plan_time.json; with --fit print the constants instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the constants again, and print them")
    if parser.parse_args().fit:
        fit()
        return
    figures = [*vtrain_figures(), *other_figures()]
    figures.append(figure("one_layout_ms", speed_ms(), "ms", "405B on 16,384 devices", 1.0))
    for entry in figures:
        bar = "" if entry["bar"] is None else f"  bar {entry['bar']}: {'met' if entry['meets'] else 'MISSED'}"
        print(f"{entry['name']:46} {entry['value']:8} {entry['unit']:3}{bar}  ({entry['note']})")
    write_result("plan_time", figures)


if __name__ == "__main__":
    main()
