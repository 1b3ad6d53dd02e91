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
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from hemostat.data import Source
from hemostat.plan import Layout
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor
from hemostat.train import Session, TrainSettings
from hemostat.train.split_model import split_model
from hemostat.train.storage_meter import StorageMeter
from plan_trace_models import MODELS, Named

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


def main() -> None:
    if sys.argv[1:2] == ["--out"]:
        work_of_a_rank(Path(sys.argv[2]))
        return
    for num in (1, 2):
        for key, parts in job(num).items():
            print(key, [sum(part.values()) for part in parts], parts)


if __name__ == "__main__":
    main()
