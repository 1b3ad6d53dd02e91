"""Memory foretold from a trace against bytes counted in a real step; writes bench/results/plan_trace.json.

Each model of `plan_trace_models` is trained for two steps by the engine, on two gloo processes or on one, and the
bytes of its live tensors are counted by `hemostat.train.storage_meter`. The forecast sees the model without values,
and nothing of what was counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import default_collate

from hemostat.data import Source
from hemostat.plan import Layout, Profile
from hemostat.plan.memory import peak
from hemostat.plan.parallel.pp import even_pace
from hemostat.plan.workload import Regime, Workload
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor, profile_of
from hemostat.train import Session, TrainSettings
from hemostat.train.parallel.parts import find_parts
from hemostat.train.split_model import split_model
from hemostat.train.storage_meter import StorageMeter
from plan_trace_models import MODELS, Named
from result_file import write_result

LAYOUTS = ("dp=1", "dp=2", "fsdp=2", "pp=2")
MICRO_BATCH, NUM_PIPED = 8, 4  # samples at once, and how many times under stages
BAR_PCT = 3.0


def counted(name: str, layout: str) -> dict[str, int]:
    """Bytes by kind on this rank when they were most in the second step; call it on all ranks."""
    chosen = Layout.read(layout)
    global_batch = MICRO_BATCH * chosen.num_data_ranks * (NUM_PIPED if chosen.pp > 1 else 1)
    task = Named(name=name, num_samples=2 * global_batch)
    base = Base(optimizer="adamw", lr=1e-3, tuned_batch=global_batch, total_samples=2 * global_batch)
    settings = TrainSettings(record=False, save=False, self_check=False, guards=(), layout=chosen)
    devices = Devices(global_batch=global_batch, micro_batch=MICRO_BATCH)
    source, door = Source(task.train_data(), "train_data"), LossDoor(task)
    with StorageMeter() as meter:
        model = split_model(task, task.model(), source, chosen)
        with Session(model, None, source, base, devices, settings) as session:
            del model  # it holds the blocks of other ranks
            meter.follow(session.updater.params, session.updater.optimizer)
            for batch in session.steps():
                _pass(session, door, batch)
                if session.at_window_end and session.last.number == 1:
                    meter.reset_peak()
    return meter.at_peak


def _pass(session: Session, door: LossDoor, batch: Any) -> None:
    """What `hemostat train` does with a micro-batch; its tensors go with this frame."""
    if session.parts.pipeline is not None:
        session.piped.take(door, batch)
        return
    with session.autocast():
        loss = door.compute(session.model, batch)
    session.backward(loss.sum, loss.count)


def work_of_a_rank(out: Path) -> None:
    """Count under every layout of so many ranks; rank 0 leaves what all ranks found in `out`."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    found = {}
    for name in MODELS:
        for layout in LAYOUTS:
            if Layout.read(layout).num_ranks == dist.get_world_size():
                parts: list[Any] = [None] * dist.get_world_size()
                dist.all_gather_object(parts, counted(name, layout))
                found[f"{name} {layout}"] = parts
    if dist.get_rank() == 0:
        out.write_text(json.dumps(found))
    dist.destroy_process_group()


def job(num_ranks: int) -> dict[str, list[dict[str, int]]]:
    """Start the ranks and read what rank 0 left."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        words = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_ranks}", __file__]
        subprocess.run(
            [sys.executable, *words, "--out", str(out)],
            check=True,
            timeout=300,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        found: dict[str, list[dict[str, int]]] = json.loads(out.read_text())
        return found


def profile_and_model(name: str) -> tuple[Profile, nn.Module]:
    """Traced with one micro-batch, its blocks found as the engine finds them."""
    task = Named(name=name, num_samples=MICRO_BATCH)
    model, data = task.model(), task.train_data()
    batch = default_collate([data[index] for index in range(MICRO_BATCH)])
    blocks = [(block, model.get_submodule(block)) for block in find_parts(model).blocks]
    return profile_of(model, batch, LossDoor(task).compute, blocks), model


def forecast_bytes(profile: Profile, model: nn.Module, layout: Layout) -> float:
    """Peak of the fullest process."""
    borders = even_pace(profile, layout.num_stages)
    load = Workload(
        micro_batch=MICRO_BATCH,
        accumulation=NUM_PIPED if layout.pp > 1 else 1,
        regime=cpu_regime(profile, model, layout, borders),
    )
    return peak(profile, layout, load, borders).allocated.num_bytes


def cpu_regime(profile: Profile, model: nn.Module, layout: Layout, borders: Sequence[int]) -> Regime:
    """float32 and AdamW as torch does them on the CPU, with gloo.

    The optimizer goes through the parameters one by one, with two temporaries of each: what counts is twice the
    largest.

    Source: torch 2.13, `_single_tensor_adam` in optim/adam.py.
    """
    largest = max(model.parameters(), key=torch.numel)
    num_params = [profile.num_params]
    if layout.pp > 1:
        sizes = [part.num_params for part in profile.parts if part.is_block for _ in range(part.count)]
        outer = [part.num_params for part in profile.parts if not part.is_block]
        num_params = [sum(sizes[first:last]) for first, last in pairwise(borders)]
        num_params[0] += outer[0]
        num_params[-1] += outer[-1]
    return Regime(
        name="fp32 on the CPU",
        zero_stage=3 if layout.fsdp > 1 else 0,
        reduce_copy_bytes=4,
        step_bytes=2 * 4 * largest.numel() / max(num_params),
    )


def figure(name: str, value: float, unit: str, note: str) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "unit": unit, "bar": None, "meets": None, "note": note}


def main() -> None:
    if sys.argv[1:2] == ["--out"]:
        work_of_a_rank(Path(sys.argv[2]))
        return
    found = job(1) | job(2)
    rows, errors = [], {}
    print(f"{'model':<23}{'layout':<8}{'forecast':>10}{'counted':>10}{'error':>9}")
    for name in MODELS:
        profile, model = profile_and_model(name)
        for text in LAYOUTS:
            layout = Layout.read(text)
            forecast = forecast_bytes(profile, model, layout.filled(layout.num_ranks))
            fullest = max(sum(part.values()) for part in found[f"{name} {text}"])
            errors[name, text] = error = 100 * (forecast / fullest - 1)
            print(f"{name:<23}{text:<8}{forecast / 1e6:>7.2f} MB{fullest / 1e6:>7.2f} MB{error:>+8.2f}%")
            label = f"{name.partition(' ')[0].lower()}_{text.replace('=', '')}_error_pct"
            rows.append(figure(label, error, "%", f"{forecast / 1e6:.2f} MB, counted {fullest / 1e6:.2f} MB"))
    largest = max(errors, key=lambda key: abs(errors[key]))
    worst = figure(
        "traced_max_error_pct",
        abs(errors[largest]),
        "%",
        f"{' under '.join(largest)}, of {len(errors)} forecasts; {sum(abs(e) <= BAR_PCT for e in errors.values())} "
        f"are within {BAR_PCT:g} %",
    )
    worst |= {"bar": BAR_PCT, "meets": abs(errors[largest]) <= BAR_PCT}
    mean = figure("traced_mean_error_pct", fmean(map(abs, errors.values())), "%", "of the same forecasts")
    write_result(
        "plan_trace", [worst, mean, *rows], f"micro-batches of {MICRO_BATCH} samples, float32, AdamW"
    )


if __name__ == "__main__":
    main()
