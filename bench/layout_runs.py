"""One session under a layout, as the benchmarks of memory run it: its bytes by kind, or the time of its steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hemostat.data import Source
from hemostat.plan import Layout
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor
from hemostat.train import Session, TrainSettings
from hemostat.train.split_model import split_model
from hemostat.train.storage_meter import StorageMeter
from transformer import Shape, Words


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is run.

    Attributes:
        shape: of the model.
        global_batch: samples of a step, over all ranks.
        micro_batch: samples that one rank, or one group of tp or pp, computes at once.
        layout: as `--layout` takes it; "" for one process.
        device: "cpu" or "cuda".
        precision: "fp32" or "bf16".
    """

    shape: Shape
    global_batch: int
    micro_batch: int
    layout: str = ""
    device: str = "cpu"
    precision: str = "fp32"


def memory_of(case: Case) -> dict[str, dict[str, int]]:
    """Bytes by kind on this rank; call it on all ranks.

    Returns:
        "at_peak": when they were most in the second step, the first one with the optimizer's state in place;
        "at_step": right after its update.
    """
    with StorageMeter() as meter:
        for _, number, _ in steps_of(case, 2, meter):
            if number == 1:
                meter.reset_peak()
    return {"at_peak": meter.at_peak, "at_step": meter.at_step}


def step_times_s(case: Case, num_steps: int) -> list[float]:
    """Seconds of each step but the first, which makes buffers and connections; call it on all ranks."""
    return [step_s for _, number, step_s in steps_of(case, 1 + num_steps) if number > 1]


def steps_of(
    case: Case, num_steps: int, meter: StorageMeter | None = None
) -> Iterator[tuple[Session, int, float]]:
    """The session after each of its steps, the number of the step, and the seconds it took.

    Args:
        case: what is run.
        num_steps: how many.
        meter: is told of what kind the tensors of the session are.
    """
    task = Words(shape=case.shape, num_samples=2 * case.global_batch, device=case.device)
    layout = Layout.read(case.layout) if case.layout else Layout()
    base = Base(
        optimizer="adamw",
        lr=1e-3,
        tuned_batch=case.global_batch,
        total_samples=num_steps * case.global_batch,
    )
    settings = TrainSettings(
        layout=layout,
        device=case.device,
        precision=case.precision,
        record=False,
        save=False,
        self_check=False,
        guards=(),
    )
    devices = Devices(global_batch=case.global_batch, micro_batch=case.micro_batch)
    source, door = Source(task.train_data(), "train_data"), LossDoor(task)
    model = split_model(task, task.model(), source, layout)
    with Session(model, None, source, base, devices, settings) as session:
        if meter is not None:
            meter.follow(session.updater.params, session.updater.optimizer)
        begun = time.perf_counter()
        for batch in session.steps():
            _pass(session, door, batch)
            if session.at_window_end:
                yield session, session.last.number, time.perf_counter() - begun
                begun = time.perf_counter()


def _pass(session: Session, door: LossDoor, batch: Any) -> None:
    """What `hemostat train` does with a micro-batch; its tensors go with this frame."""
    if session.parts.pipeline is not None:
        session.piped.take(door, batch)
        return
    with session.autocast():
        loss = door.compute(session.model, batch)
    session.backward(loss.sum, loss.count)
