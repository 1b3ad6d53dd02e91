"""`FollowedRun`: the record, the guards and the bill of a run whose trainer is somebody else's."""

from __future__ import annotations

import atexit
import math
import sys
from pathlib import Path
from typing import Any

import msgspec
import torch

from hemostat.config import Resolved, to_plain
from hemostat.errors import GuardStop
from hemostat.findings import Finding
from hemostat.track import collect_provenance
from hemostat.train.callbacks.bill import Bill
from hemostat.train.callbacks.told import HEEDED, Told, check_settings
from hemostat.train.control import ControlVote, Stop, stronger
from hemostat.train.header import hardware
from hemostat.train.outcome import Outcome, Status
from hemostat.train.process import World
from hemostat.train.record import Record
from hemostat.train.recorded_task import plain_or_text
from hemostat.train.resolve import find_price
from hemostat.train.run_guards import heed
from hemostat.train.run_guards.divergence import DivergenceGuard
from hemostat.train.run_guards.guard import Guard
from hemostat.train.run_guards.overfitting import OverfittingGuard
from hemostat.train.run_guards.panel import Panel
from hemostat.train.run_guards.spike import SpikeGuard
from hemostat.train.settings import TrainSettings
from hemostat.train.update import Step


class FollowedRun:
    """One run of another trainer; every rank makes one, and all of them call the same methods in the same order.

    What ranks decide by is summed over them first, and the clock of rank 0 decides on money, so that no rank stops
    alone. Nothing is drawn from a random generator and no tensor is touched.

    Args:
        told: of the trainer.
        settings: those of `HEEDED`.
        model: for the size of a checkpoint.
        device: where it computes.

    Attributes:
        stop: why the trainer is to stop, else None; equal on all ranks.
        outcome: how it went; complete after `close`.
        last: the latest step.
    """

    def __init__(
        self, told: Told, settings: TrainSettings, model: torch.nn.Module, device: torch.device
    ) -> None:
        self.settings = check_settings(settings)
        self.told = told
        self.world = World.of_open_group(device)
        self.usd_per_hour = find_price(settings)
        self.record = Record(self.world, settings.record)
        self.record.claim(self.world)
        self.outcome = Outcome(monitor=told.monitor)
        self.stop: Stop | None = None
        self.last: Step | None = None
        self._num_bad = 0
        self.bill = Bill(settings, self.usd_per_hour, model)
        self._control = ControlVote(self.world, self.record.path)
        if self.world.rank == 0:
            self._control.askers.append(self.bill.ask)
        guards: dict[str, Guard] = {
            "spike": SpikeGuard(settings.spike_deviations, _name_batch),
            "divergence": DivergenceGuard(
                told.total_steps // told.loss_every_steps, every_steps=told.loss_every_steps
            ),
            "overfitting": OverfittingGuard(told.monitor, told.mode),
        }
        on = {name: guard for name, guard in guards.items() if name in settings.guards}
        self._panel = Panel(on, settings.stop_on, self._heed)
        self.record.header(self._header)
        self._open = True
        atexit.register(self._left)

    def _header(self) -> dict[str, Any]:
        told, values = self.told, self.told.values
        why = f"as {told.library} was given it"
        script = Path(sys.argv[0]).name or "a session"
        batch = {
            name: values[name] for name in ("global_batch", "micro_batch", "accumulation") if name in values
        }
        return {
            "provenance": to_plain(collect_provenance(Path.cwd())),
            "task": {
                "spec": f"{script} ({told.library})",
                "values": {name: plain_or_text(value) for name, value in told.options.items()},
            },
            "settings": {name: to_plain(getattr(self.settings, name)) for name in HEEDED},
            "seed": values.get("seed"),
            "hyper_parameters": to_plain(values),
            "recipe": [
                to_plain(Resolved(field=name, value=value, why=why)) for name, value in values.items()
            ],
            "batch": {**batch, "num_ranks": self.world.num_ranks},
            "length": {"total_steps": told.total_steps},
            "hardware": hardware(self.world) | {"usd_per_hour": self.usd_per_hour},
            "precision": str(values.get("precision", "fp32")),
            "data": told.data,
        }

    def _heed(self, finding: Finding) -> None:
        heed(self, finding, says=self.world.rank == 0)

    def step(
        self,
        number: int,
        samples: int,
        loss: float | None = None,
        *,
        lr: float,
        grad_norm: float | None = None,
    ) -> Stop | None:
        """Look at an optimizer step; call it on all ranks.

        Args:
            number: optimizer steps so far.
            samples: consumed by all ranks so far.
            loss: of this rank, or None; the mean of those that know one is judged.
            lr: that was applied.
            grad_norm: of the step, before clipping.

        Returns:
            Why to stop, equal on all ranks.
        """
        if not self._open:
            return self.stop
        mine, known = (0.0, 0.0) if loss is None else (loss, 1.0)
        vote = self._control.vote(mine, known, (grad_norm or 0.0) ** 2, samples=samples)
        norm = math.nan if grad_norm is None else math.sqrt(vote.part_square / self.world.num_ranks)
        mean = vote.loss_sum / vote.num_items if vote.num_items else math.nan
        self.last = Step(number, samples, mean, lr, norm, True)
        if vote.num_items:
            rest = {"lr": lr} if grad_norm is None else {"lr": lr, "grad_norm": norm}
            self._log({"loss": mean} | rest)
            self._panel.after_step(self.last)
            self._count_bad(mean)
        self.stop = stronger(self.stop, vote.stop)
        return self.stop

    def _count_bad(self, loss: float) -> None:
        self._num_bad = 0 if math.isfinite(loss) else self._num_bad + 1
        if self._num_bad > self.settings.max_skips:
            why = f"the loss was not finite {self._num_bad} times in a row"
            self.stop = stronger(self.stop, Stop(why, GuardStop.exit_status))

    def evaluated(self, metrics: dict[str, float]) -> Stop | None:
        """Look at an evaluation that has just ended; call it on all ranks.

        Args:
            metrics: of this rank; the monitored one is averaged over the ranks that know it.

        Returns:
            Why to stop, equal on all ranks.
        """
        if not self._open:
            return self.stop
        self.bill.book("evaluation")
        monitor = self.told.monitor
        total, num_ranks = self.world.sum([metrics.get(monitor, 0.0), float(monitor in metrics)])
        if num_ranks:
            metrics = metrics | {monitor: total / num_ranks}
        self._log(metrics)
        self.outcome.final, self.outcome.num_evaluations = metrics, self.outcome.num_evaluations + 1
        value = metrics.get(monitor, math.nan)
        if self.last is None or not math.isfinite(value):
            return self.stop
        sign, best = (1.0 if self.told.mode == "min" else -1.0), self.outcome.best
        if best is None or sign * value < sign * best:
            self.outcome.best, self.outcome.best_step = value, self.last.number
            self.bill.best_s = self.bill.total_s()
        self._panel.after_evaluation(self.last, value)
        return self.stop

    def _log(self, values: dict[str, float]) -> None:
        if self.world.rank == 0 and values:
            step, samples = (self.last.number, self.last.samples) if self.last else (0, 0)
            self.record.log(step, samples, values)

    def close(self, error: BaseException | None = None, *, complete: bool = True) -> None:
        """Write how the run ended; a second call does nothing.

        Args:
            error: what ended it, if anything did.
            complete: it ended by itself, not by its script.
        """
        if not self._open:
            return
        self._open = False
        atexit.unregister(self._left)
        outcome = self.outcome
        outcome.steps, outcome.samples = (self.last.number, self.last.samples) if self.last else (0, 0)
        stopped: Status = "paused" if self.stop and self.stop.paused else "stopped"
        outcome.status = stopped if self.stop else "ended" if complete else "left"
        outcome.reason = "the trainer reached its end" if complete else "the loop was left"
        if self.stop is not None:
            outcome.reason = self.stop.reason
        if error is not None and self.stop is None:
            outcome.status, outcome.reason = "failed", str(error) or type(error).__name__
        outcome.train_s = self.bill.parts()["training"]
        outcome.waited = "waiting for data is not measured here"
        outcome.count_costs(self.bill, self.usd_per_hour)
        plain = msgspec.to_builtins(outcome)
        summary = {name: value for name, value in plain.items() if "wait_" not in name}
        self.record.header(lambda: {"summary": summary})
        self.record.close(error or (self.stop.error() if self.stop else None))
        self.world.close()

    def _left(self) -> None:
        error = getattr(sys, "last_value", None)
        self.close(error, complete=False)


def _name_batch(before: int, after: int) -> str:
    return f"samples {before} to {after - 1} in the order of the trainer"
