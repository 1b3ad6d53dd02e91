"""Memory of one model under every layout, and its price in time; writes bench/results/layouts.json.

Memory is bytes of live tensors, from `hemostat.train.storage_meter`: not what the process holds of the machine, so
it is the same everywhere. Each figure is of the second step, in which the optimizer's state is there. Time is that
of two gloo processes with one torch thread each; layouts take turns, in an order that changes from round to round.

`python bench/layouts.py --quick` takes a smaller model and one round, and writes no file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from hemostat.plan import pipeline
from hemostat.plan.pipelines import simulate
from hemostat.train.storage_meter import STATE
from layout_runs import Case, memory_of, step_times_s
from result_file import write_result
from transformer import Shape

NUM_MICRO_BATCHES = 8
NUM_ROUNDS = 4
NUM_TIMED_STEPS = 2
PEAK_BAR, STATE_BAR, STATE_SLACK, EXTRA_BAR_PCT = 0.5, 0.5, 0.02, 1.0
SCHEDULES = {
    "gpipe": "schedule=gpipe",
    "1f1b": "schedule=1f1b",
    "interleaved": "schedule=interleaved,stages_per_rank=2",
    "zero_bubble": "schedule=zero_bubble",
}
LAYOUTS = {
    "dp": "dp=2",
    "fsdp": "fsdp=2",
    "fsdp_kept": "fsdp=2,reshard=false",
    "tp": "tp=2",
    "pp": "pp=2",
}
RECOMPUTED = ("dp", "fsdp", "pp")

Memory = dict[str, dict[str, int]]  # "at_peak" and "at_step" to bytes by kind
Rows = list[dict[str, Any]]


def wide(quick: bool) -> Case:
    """Activations are most of the memory, as where the batch fills a device; one process, one micro-batch."""
    shape = Shape(dim=64, num_blocks=24, num_heads=4, num_words=64, positions=32 if quick else 128)
    samples = 16 if quick else 48
    return Case(shape=shape, global_batch=samples, micro_batch=samples)


def even(quick: bool) -> Case:
    """State and activations weigh about the same under dp; each rank, or group of ranks, takes 4 samples at once."""
    shape = Shape(dim=32 if quick else 128, num_blocks=12, num_heads=4, num_words=64, positions=64)
    return Case(shape=shape, global_batch=32, micro_batch=4)


def memory_cases(num_ranks: int, quick: bool) -> dict[str, Case]:
    """What is measured on so many processes, by name."""
    whole, table = wide(quick), even(quick)
    cut = replace(whole, micro_batch=whole.global_batch // NUM_MICRO_BATCHES)
    if num_ranks == 1:
        longer = replace(whole, global_batch=NUM_MICRO_BATCHES * whole.micro_batch)
        return {"whole": whole, "accumulated": longer, "cut": cut}
    cases = {name: replace(cut, layout=f"pp={num_ranks},{words}") for name, words in SCHEDULES.items()}
    if num_ranks == 2:
        cases["sharded"] = replace(cut, layout="fsdp=2", micro_batch=cut.micro_batch // 2)
        cases |= table_cases(table)
    return cases


def table_cases(table: Case) -> dict[str, Case]:
    """Every layout of two processes, and those that differ most with both kinds of recomputation."""
    cases = {name: replace(table, layout=layout) for name, layout in LAYOUTS.items()}
    for name in RECOMPUTED:
        for kind in ("selective", "full"):
            cases[f"{name}_{kind}"] = replace(table, layout=f"{LAYOUTS[name]},recompute={kind}")
    return cases


def work_of_a_rank(task: str, quick: bool, out: Path) -> None:
    """Measure memory, or one round of times; rank 0 leaves what all ranks found in `out`."""
    dist.init_process_group("gloo")
    num_ranks = dist.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // num_ranks) if task == "memory" else 1)
    found: dict[str, Any] = {}
    if task == "memory":
        for name, case in memory_cases(num_ranks, quick).items():
            parts: list[Any] = [None] * num_ranks
            dist.all_gather_object(parts, memory_of(case))
            found[name] = parts
    else:
        cases = table_cases(even(quick))
        names = list(cases)
        first = int(task) * 3 % len(names)
        for name in names[first:] + names[:first]:
            found[name] = step_times_s(cases[name], NUM_TIMED_STEPS)
    if dist.get_rank() == 0:
        out.write_text(json.dumps(found))
    dist.destroy_process_group()


def job(task: str, num_ranks: int, quick: bool) -> dict[str, Any]:
    """Start the ranks and read what rank 0 left."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        words = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_ranks}", __file__]
        command = [sys.executable, *words, "--task", task, "--out", str(out), *(["--quick"] if quick else [])]
        subprocess.run(command, check=True, timeout=900, env=os.environ | {"OMP_NUM_THREADS": "1"})
        return json.loads(out.read_text())


def peak_mb(parts: Sequence[Memory]) -> float:
    """Of the rank that holds most."""
    return max(sum(part["at_peak"].values()) for part in parts) / 1e6


def state_mb(parts: Sequence[Memory]) -> float:
    """Parameters, gradients and optimizer state, of the rank that holds most."""
    return max(sum(part["at_step"][kind] for kind in STATE) for part in parts) / 1e6


def figure(name: str, value: float, unit: str, note: str) -> dict[str, Any]:
    return {"name": name, "value": round(value, 4), "unit": unit, "bar": None, "meets": None, "note": note}


def barred(row: dict[str, Any], bar: float, meets: bool) -> dict[str, Any]:
    return row | {"bar": bar, "meets": meets}


def memory_bars(memory: dict[int, dict[str, list[Memory]]], quick: bool) -> Rows:
    """The three figures that have a bar, and what the first one is against a process that accumulates too."""
    one, two, case = memory[1], memory[2], wide(quick)
    whole, cut, pipe = peak_mb(one["whole"]), peak_mb(one["cut"]), peak_mb(two["1f1b"])
    model = f"{case.shape}, {case.global_batch} samples, float32, AdamW"
    ratio = figure(
        "pp2_peak_over_1",
        pipe / whole,
        "ratio",
        f"{pipe:.1f} of {whole:.1f} MB: the larger of 2 stages, batch in {NUM_MICRO_BATCHES} micro-batches under "
        f"1f1b, over one process with the batch in one, nothing computed again; {model}",
    )
    fair = figure(
        "pp2_peak_over_1_accumulating",
        pipe / cut,
        "ratio",
        f"{pipe:.1f} of {cut:.1f} MB: the same over one process that accumulates the same {NUM_MICRO_BATCHES} "
        "micro-batches: a stage keeps half of the state, and two micro-batches of half of the blocks",
    )
    shard, full = state_mb(two["sharded"]), state_mb(one["whole"])
    state = figure(
        "fsdp2_state_over_1",
        shard / full,
        "ratio",
        f"{shard:.2f} of {full:.2f} MB of parameters, gradients and optimizer state; bar 0.50 +- {STATE_SLACK}",
    )
    extra_mb = peak_mb(one["accumulated"]) - whole
    grads_mb = one["accumulated"][0]["at_step"]["grads"] / 1e6
    extra = figure(
        "accumulation8_extra_pct",
        100 * extra_mb / whole,
        "%",
        f"{extra_mb:+.2f} MB on {whole:.1f} MB for {NUM_MICRO_BATCHES} micro-batches of {case.micro_batch} samples in "
        f"place of one: the gradients ({grads_mb:.2f} MB), which wait through the forward passes; their share is "
        "larger where a micro-batch is small beside the model",
    )
    return [
        barred(ratio, PEAK_BAR, ratio["value"] <= PEAK_BAR),
        fair,
        barred(state, STATE_BAR, abs(state["value"] - STATE_BAR) <= STATE_SLACK),
        barred(extra, EXTRA_BAR_PCT, extra["value"] < EXTRA_BAR_PCT),
    ]


def schedule_figures(memory: dict[int, dict[str, list[Memory]]]) -> Rows:
    """Bubble and memory of each schedule."""
    rows = []
    for num_ranks, found in memory.items():
        for name in SCHEDULES if num_ranks > 1 else ():
            per_rank = 2 if name == "interleaved" else 1
            line = simulate(pipeline(name, num_ranks, NUM_MICRO_BATCHES, per_rank))
            size = f"{num_ranks} ranks, {NUM_MICRO_BATCHES} micro-batches, {num_ranks * per_rank} stages"
            label = f"pp{num_ranks}_{name}"
            rows.append(
                figure(f"{label}_bubble", line.bubble, "ratio", f"simulated, idle over busy time; {size}")
            )
            if name == "zero_bubble":
                size += "; torch keeps activations and the gradients of outputs until the weight part"
            each = ", ".join(f"{peak_mb([part]):.1f}" for part in found[name])
            rows.append(figure(f"{label}_peak_mb", peak_mb(found[name]), "MB", f"by rank {each}; {size}"))
    return rows


def layout_figures(found: dict[str, list[Memory]], rounds: list[dict[str, list[float]]]) -> Rows:
    """Peak, state and time of the same model under each layout of two processes."""
    rows = []
    base = [statistics.median(times["dp"]) for times in rounds]
    for name, case in table_cases(even(False)).items():
        parts = found[name]
        kinds = max(parts, key=lambda part: sum(part["at_peak"].values()))["at_peak"]
        split = ", ".join(f"{kind} {num_bytes / 1e6:.1f}" for kind, num_bytes in kinds.items())
        rows.append(figure(f"{name}_peak_mb", peak_mb(parts), "MB", f"{case.layout}: {split}"))
        if name in LAYOUTS:
            rows.append(
                figure(
                    f"{name}_state_mb",
                    state_mb(parts),
                    "MB",
                    f"{case.layout}: parameters, gradients, optimizer state",
                )
            )
        ratios = sorted(statistics.median(times[name]) / dp for times, dp in zip(rounds, base, strict=True))
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f} over {len(ratios)} rounds"
        what = f"dp without recomputation takes {statistics.median(base):.2f} s" if name == "dp" else spread
        rows.append(
            figure(f"{name}_step_over_dp", statistics.median(ratios), "ratio", f"time of a step; {what}")
        )
    return rows


def main(arguments: list[str] | None = None) -> Rows:
    """Measure, print, and write the file unless --quick."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller model, one round, no file")
    parser.add_argument("--task", help="of a rank: memory, or the number of a round")
    parser.add_argument("--out", type=Path, help="of a rank: where rank 0 leaves what was found")
    options = parser.parse_args(arguments)
    quick = options.quick
    if "RANK" in os.environ:
        work_of_a_rank(options.task, quick, options.out)
        return []
    memory = {num_ranks: job("memory", num_ranks, quick) for num_ranks in (1, 2, 4)}
    rounds = [job(str(number), 2, quick) for number in range(1 if quick else NUM_ROUNDS)]
    rows = memory_bars(memory, quick) + schedule_figures(memory) + layout_figures(memory[2], rounds)
    if not quick:
        table = even(quick)
        write_result(
            "layouts",
            rows,
            f"2 gloo ranks with one thread; schedules: {wide(quick).shape}; layouts: {table.shape}, "
            f"{table.global_batch} samples a step, {table.micro_batch} at once",
        )
    for row in rows:
        print(f"{row['name']:<32} {row['value']:>9} {row['unit']:<6} {row['bar'] or '':<6} {row['note']}")
    return rows


if __name__ == "__main__":
    main()
