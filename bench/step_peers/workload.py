"""What every loop of bench/step.py has to do, and the stopwatch, journal and batches that they share."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import torch
from torch.nn import functional

from hemostat.data import Order

Batch = tuple[torch.Tensor, torch.Tensor]
LR = 1e-3
CLIP_NORM = 1.0
JOURNAL_LINES = 100  # lines that are kept before they are written


class Times(NamedTuple):
    """Seconds per step in the steady state."""

    cpu_s: float
    wall_s: float
    last_loss: float


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Same model, data, order, seed and number of steps for every loop.

    Attributes:
        name: "mlp" or "gpt".
        build: a fresh model; called after seeding.
        dataset: for loops that bring their own loader.
        fetch: int64 indices -> batch, the cheapest way the data offer.
        global_batch: samples per step.
        num_steps: steps of one run.
        num_untimed_steps: steps at the start that are not timed.
    """

    name: str
    build: Callable[[], torch.nn.Module]
    dataset: Any
    fetch: Callable[[torch.Tensor], Batch]
    global_batch: int
    num_steps: int
    num_untimed_steps: int

    @property
    def num_warmup_steps(self) -> int:
        """A tenth of the run."""
        return max(1, self.num_steps // 10)

    def new_model(self) -> torch.nn.Module:
        """The same weights in every run."""
        torch.manual_seed(0)
        return self.build()


class Batches:
    """The training batches in hemostat's own order, each fetched as a whole when it is asked for.

    It is what a careful person writes by hand: no per-sample collation, no worker. Every loop but hemostat's
    iterates it directly, so none of them pays for torch's DataLoader; hemostat brings its own loader.
    """

    def __init__(self, work: Workload) -> None:
        self._work = work

    def __len__(self) -> int:
        return self._work.num_steps

    def __iter__(self) -> Iterator[Batch]:
        fetch, size = self._work.fetch, self._work.global_batch
        num_samples = len(self._work.dataset)
        per_epoch = num_samples // size
        order = Order(num_samples, seed=0)
        indices = torch.empty(0)
        for step in range(self._work.num_steps):
            epoch, place = divmod(step, per_epoch)
            if place == 0:
                indices = torch.as_tensor(order.indices(epoch, 0, num_samples))
            yield fetch(indices[place * size : (place + 1) * size])


class Stopwatch:
    """Told after every step; times those after the untimed ones."""

    def __init__(self, work: Workload) -> None:
        self._work = work
        self._step = 0
        self._start = (0.0, 0.0)
        self._loss = math.nan
        self._times: Times | None = None

    def tick(self, loss: float) -> None:
        """One step was completed."""
        self._step += 1
        if self._step == self._work.num_untimed_steps:
            self._start = (time.process_time(), time.perf_counter())
        elif self._step == self._work.num_steps:
            cpu_s, wall_s = time.process_time() - self._start[0], time.perf_counter() - self._start[1]
            num_timed = self._work.num_steps - self._work.num_untimed_steps
            self._times = Times(cpu_s / num_timed, wall_s / num_timed, loss)

    def times(self) -> Times:
        """Raises: RuntimeError, the loop took another number of steps than it was told to."""
        if self._times is None or self._step != self._work.num_steps:
            raise RuntimeError(f"{self._step} steps were made instead of {self._work.num_steps}")
        return self._times


class Journal:
    """Records one figure per step on the disk, the same way for every loop but hemostat's, which has its own."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("w", encoding="utf-8")
        self._lines: list[str] = []

    def add(self, step: int, loss: float) -> None:
        """Write one line of JSON, by the hundred."""
        self._lines.append(json.dumps({"step": step, "loss": loss}))
        if len(self._lines) >= JOURNAL_LINES:
            self._file.write("\n".join(self._lines) + "\n")
            self._lines.clear()

    def close(self) -> None:
        """Write the rest."""
        self._file.write("".join(f"{line}\n" for line in self._lines))
        self._file.close()


class Tally:
    """Stopwatch and journal together: the end of a step for every loop but hemostat's.

    It also makes the non-finite check where the loop itself has no norm to look at.
    """

    def __init__(self, work: Workload, folder: Path) -> None:
        self.watch = Stopwatch(work)
        self._journal = Journal(folder / "loss.jsonl")
        self._step = 0

    def note(self, loss: float) -> None:
        """The step is done: check its loss, record it, look at the clock.

        Raises:
            FloatingPointError: the loss is not finite.
        """
        if not math.isfinite(loss):
            raise FloatingPointError(f"loss={loss} at step {self._step}")
        self._step += 1
        self._journal.add(self._step, loss)
        self.watch.tick(loss)

    def close(self) -> Times:
        """What was timed."""
        self._journal.close()
        return self.watch.times()


def new_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """AdamW with torch's defaults."""
    return torch.optim.AdamW(model.parameters(), lr=LR)


def new_schedule(optimizer: torch.optim.Optimizer, work: Workload) -> torch.optim.lr_scheduler.LambdaLR:
    """Linear warm-up to the peak, then constant."""
    warm = work.num_warmup_steps
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (warm + 1)))


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over all positions; classes in the last dim."""
    return functional.cross_entropy(output.view(-1, output.size(-1)), target.reshape(-1))
