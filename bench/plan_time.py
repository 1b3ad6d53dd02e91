"""Step times that a plan predicts against published ones: errors on fitted and held-out rows, ranking, speed."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

import plan_rows_time as tables
from hemostat.plan.calibrate import FITTED, Measured, calibrate, error
from hemostat.plan.compute import MEGATRON, Terms
from hemostat.plan.duration import Duration, duration
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.workload import REGIMES, Workload
from plan_rows_time import Row
from result_file import write_result

TORCH = Terms()
# Megatron since 2023: attention in one kernel, gradients sent during the backward pass
MEGATRON_NOW = msgspec.structs.replace(MEGATRON, overlap=TORCH.overlap, attention=TORCH.attention)
WITHOUT_NETWORK = tuple(name for name in FITTED if name != "network")
LEAST_ROWS = 5  # of a group whose layouts are ranked
SHARES = (1.0, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5)


def predicted(row: Row, terms: Terms) -> Duration:
    """What a plan says; where micro batch or interleaving are not known, of the fastest."""
    profile, layout, work, cluster, _ = row.measured
    choices = row.choices or ((layout, work),)
    steps = [duration(profile, layout, work, cluster, terms) for layout, work in choices]
    return min(steps, key=lambda step: step.step_s)


def mape_pct(rows: Iterable[Row], terms: Terms) -> float:
    """Mean |predicted / measured - 1| in percent."""
    errors = [abs(predicted(row, terms).step_s / row.measured.step_s - 1) for row in rows]
    return 100 * statistics.fmean(errors)


def spearman(first: list[float], second: list[float]) -> float:
    """Rank correlation; equal values share their mean rank."""
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(values: list[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def rankings(rows: list[Row], terms: Terms) -> list[tuple[float, float]]:
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
        step = duration(*row.measured[:4], MEGATRON)
        return step.model_flop / row.measured.step_s / row.measured.cluster.num_devices

    usual = statistics.median(rate(row) for row in chosen)
    return 100 * statistics.fmean(abs(rate(row) / usual - 1) for row in held)


def with_share(rows: list[Row], name: str, share: float) -> list[Measured]:
    """The same steps as if a device held another share of its best rate."""
    found = []
    for row in rows:
        cluster = row.measured.cluster
        if cluster.device.name == name:
            device = msgspec.structs.replace(cluster.device, sustained_share=share)
            cluster = msgspec.structs.replace(cluster, device=device)
        found.append(row.measured._replace(cluster=cluster))
    return found


def fit() -> None:
    """Print the constants of compute.py and devices.csv as the rows that are not held out give them.

    The single-node rows are many times as many: the multi-node ones stand beside them so often that both weigh alike.
    Between nodes they only send activations along a pipeline, and sums of tensor parallelism are all among the
    held-out ones: they cannot tell the network's share, which stays at what was measured.
    """
    single = tables.split(tables.vtrain("singlenode"))[0]
    multi = tables.split(tables.vtrain("multinode"))[0]
    rows = [row.measured for row in single + multi * (len(single) // len(multi))]
    start = msgspec.structs.replace(
        MEGATRON, matmul=0.95, attention=0.22, memory=0.78, launch_s=135e-6, network=1.0
    )
    megatron = calibrate(rows, start, WITHOUT_NETWORK)
    print("MEGATRON", megatron)
    foundry = tables.split(tables.llm_foundry())[0]
    start = Terms(matmul=0.82, attention=0.35, memory=0.9, launch_s=megatron.launch_s, link=0.9, network=0.9)
    best: tuple[float, float, Terms] | None = None
    for share in SHARES[2:6]:
        rows = with_share(foundry, "H100-80GB", share)
        terms = calibrate(rows, start, ("matmul", "memory", "link", "attention", "network"))
        if best is None or error(rows, terms) < best[0]:
            best = (error(rows, terms), share, terms)
    if best is None:
        raise SystemExit("bench/plan_time.py: no share was tried")
    print("Terms, H100-80GB sustained_share", best)
    simumax = tables.split(tables.simumax())[0]
    now = msgspec.structs.replace(megatron, overlap=TORCH.overlap, attention=best[2].attention)
    errors = {share: error(with_share(simumax, "B200", share), now) for share in SHARES}
    print("B200 sustained_share", min(errors, key=lambda share: errors[share]), errors)


def figure(
    name: str, value: float, unit: str, note: str, bar: float | None = None, at_least: bool = False
) -> dict[str, Any]:
    """One figure; its bar is an upper limit, or with `at_least` a lower one."""
    meets = None if bar is None else value >= bar if at_least else value < bar
    return {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "meets": meets, "note": note}


def vtrain_figures() -> list[dict[str, Any]]:
    """Errors on both tables, apart, and the ranking of layouts in both."""
    figures, ranked, ranked_held = [], [], []
    for name, bar in (("multinode", 12.0), ("singlenode", 15.0)):
        rows = tables.vtrain(name)
        chosen, held = tables.split(rows)
        terms = MEGATRON
        if name == "singlenode":
            terms = calibrate([row.measured for row in chosen], MEGATRON, FITTED)
        figures += [
            figure(f"vtrain_{name}_mape_pct", mape_pct(held, terms), "%", f"{len(held)} held-out rows", bar),
            figure(f"vtrain_{name}_fitted_mape_pct", mape_pct(chosen, terms), "%", f"{len(chosen)} rows"),
            figure(f"vtrain_{name}_all_mape_pct", mape_pct(rows, terms), "%", f"{len(rows)} rows"),
            figure(
                f"vtrain_{name}_constant_efficiency_mape_pct",
                constant_efficiency_pct(chosen, held),
                "%",
                "held-out rows, with the median FLOP/s of the others",
            ),
        ]
        if name == "singlenode":
            note = "held-out rows, with the constants for both tables, not calibrated"
            figures.append(figure("vtrain_singlenode_default_mape_pct", mape_pct(held, MEGATRON), "%", note))
        found = rankings(rows, terms)
        ranked += found
        ranked_held += rankings(held, terms)
        figures += ranking_figures(f"{name}_", found)
    figures += ranking_figures("", ranked, bar=0.9)
    figures += ranking_figures("held_out_", ranked_held)
    return figures


def ranking_figures(
    name: str, found: list[tuple[float, float]], bar: float | None = None
) -> list[dict[str, Any]]:
    """Mean and worst of the groups."""
    rows = "held-out rows only" if name.startswith("held") else "all rows"
    note = f"{len(found)} groups of {LEAST_ROWS} or more with one model, devices and global batch, {rows}"
    correlations, losses = [pair[0] for pair in found], [pair[1] for pair in found]
    return [
        figure(f"{name}ranking_spearman", statistics.fmean(correlations), "", f"mean of {note}", bar, True),
        figure(f"{name}ranking_spearman_worst", min(correlations), "", f"worst of {note}"),
        figure(
            f"{name}chosen_layout_slower_pct",
            statistics.fmean(losses),
            "%",
            f"than the fastest; mean of {note}",
        ),
        figure(
            f"{name}chosen_layout_slower_worst_pct", max(losses), "%", f"than the fastest; worst of {note}"
        ),
    ]


OTHERS: tuple[tuple[str, Callable[[], list[Row]], Terms, str], ...] = (
    ("korthikanti", tables.korthikanti, MEGATRON, ""),
    (
        "narayanan_table1",
        tables.narayanan,
        MEGATRON,
        "; micro batch and interleaving not published: the fastest",
    ),
    (
        "megatron_h100",
        tables.megatron_h100,
        MEGATRON_NOW,
        "; micro batch and interleaving not published: the fastest",
    ),
    (
        "llama3_paper",
        tables.llama3,
        MEGATRON_NOW,
        "; micro batch and interleaving not published: the fastest",
    ),
    ("torchtitan", tables.torchtitan, TORCH, "; bf16, with and without compile; float8 is not modelled"),
)


def other_figures() -> list[dict[str, Any]]:
    """Tables on which nothing was chosen, then those whose devices were fitted, apart."""
    figures = []
    for name, read, terms, more in OTHERS:
        rows = read()
        note = f"all {len(rows)} rows held out{more}"
        figures.append(figure(f"{name}_mape_pct", mape_pct(rows, terms), "%", note))
    for name, rows, terms in (
        ("llm_foundry", tables.llm_foundry(), TORCH),
        ("simumax_b200", tables.simumax(), MEGATRON_NOW),
    ):
        chosen, held = tables.split(rows)
        figures.append(figure(f"{name}_mape_pct", mape_pct(held, terms), "%", f"{len(held)} held-out rows"))
        figures.append(figure(f"{name}_fitted_mape_pct", mape_pct(chosen, terms), "%", f"{len(chosen)} rows"))
    return figures


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
                duration(profile, layout, work, cluster, TORCH)
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
