"""`Session`: the engine of a run, driven by hemostat's trainer or by a plain loop."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import torch

from hemostat.data import EvalLoader, Feed, MicroBatch, Source, TrainLoader
from hemostat.errors import GuardStop, RankFailureError, RecordError, TaskError
from hemostat.recipe import Base, Devices, Verdict
from hemostat.task import Task, to_device
from hemostat.train.checkpoint import save_weights
from hemostat.train.control import ControlVote
from hemostat.train.evaluate import Measure, evaluate
from hemostat.train.guards import nonfinite_samples
from hemostat.train.header import data_fingerprint, hardware, run_header
from hemostat.train.loop_guard import LoopGuard, check_given
from hemostat.train.noise import NoiseMeter
from hemostat.train.outcome import Outcome
from hemostat.train.own_optimizer import fill_base, warn_of_batch
from hemostat.train.parallel import dp
from hemostat.train.precision import Precision
from hemostat.train.process import World, seed_everything
from hemostat.train.record import Record
from hemostat.train.resolve import find_price, new_stopper, optimizer_settings, resolve_recipe
from hemostat.train.settings import TrainSettings
from hemostat.train.update import Step, Updater, build_optimizer
from hemostat.train.weights import check_checkpoint


class Session:
    """One training run: iterate `steps()`, call `backward`, leave the `with` block.

    Args:
        model: the module to train; it is moved to `world.device`.
        optimizer: None builds the one that the recipe names.
        train_data: map-style dataset, DataLoader or `hemostat.data.Source`.
        base: hyper-parameters that work on one device.
        devices: the batch on the devices at hand; `num_ranks` is filled in from the world.
        settings: how the engine runs.
        world: None reads torch's elastic launcher from the environment.

    Attributes:
        model: what the loop calls; wrapped when there are several ranks.
        recipe: every hyper-parameter as it is used, with its reason.
        last: the latest step, or None.
        origin: folder whose git commit is recorded; the trainer sets the task file's.
        describes_data: the digest of the training data is recorded; the trainer has the task's own.
        outcome: how the run ended; complete once the `with` block was left.
        stop_reason: one sentence once the run is to end early, else empty.
        at_window_end: the latest `backward` completed a step.
        usd_per_hour: price of all devices together; None where it is not known.

    Raises:
        UsageError: what was given cannot be meant; raised on all ranks before the first collective.

    Examples:
        >>> data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
        >>> base = Base(optimizer="sgd", lr=0.1, tuned_batch=16, epochs=2)
        >>> with Session(torch.nn.Linear(4, 1), None, data, base, settings=TrainSettings(record=False)) as session:
        ...     for x, y in session.steps():
        ...         session.backward(((session.model(x) - y) ** 2).sum(), count=len(x))
        >>> session.last.number, session.last.samples
        (8, 128)
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None,
        train_data: Any,
        base: Base,
        devices: Devices | None = None,
        settings: TrainSettings | None = None,
        world: World | None = None,
    ) -> None:
        check_given(model, optimizer, base)
        self.settings = settings or TrainSettings()
        self.world = world or World.from_environment(self.settings.device)
        self._source = train_data if isinstance(train_data, Source) else Source(train_data, "train_data")
        warn_of_batch(self._source.declared_batch, base.tuned_batch)
        if optimizer is not None:
            base = fill_base(base, optimizer)
        if self.settings.precision is not None:
            base = msgspec.structs.replace(base, precision=self.settings.precision)
        self._agree(self._source.num_samples)
        self.recipe = resolve_recipe(base, devices or Devices(), self._source.num_samples, self.world)
        self.loader = self.new_loader()
        self.noise = NoiseMeter(self.world.num_ranks)
        self._guard = LoopGuard(self.world.num_ranks)
        params = [param for param in model.parameters() if param.requires_grad]
        if not params:
            raise TaskError("the model has no parameter that requires a gradient. Nothing can be trained.")
        self._wrap(model.to(self.world.device), find_unused=False)
        self.precision = Precision(self.recipe.precision, self.world.device)
        if optimizer is None:
            optimizer = build_optimizer(self.recipe.optimizer, params, optimizer_settings(self.recipe))
            base_lr = self.recipe.lr
        else:
            base_lr = base.lr
        self._updater = Updater(optimizer, self.precision, self.recipe.clip_norm, base_lr)
        self.stopper = new_stopper(self.recipe)
        self.usd_per_hour = find_price(self.settings)
        self.record = Record(self.world, self.settings.record)
        self.control = ControlVote(self.world, self.record.path)
        # ranks draw dropout apart; the order of the data does not depend on this
        seed_everything(self.settings.seed + 1 + self.world.rank)
        self.last: Step | None = None
        self.applied_steps = 0
        self.skipped_steps = 0
        self.stop_reason = ""
        self.at_window_end = False
        self._skips_in_a_row = 0
        self._losses: list[Any] = []
        self._counts: list[Any] = []
        self._micro: MicroBatch | None = None
        self._schedule_lr = self.recipe.schedule.lr
        self.origin = Path.cwd()
        self.describes_data = True
        self.started_s = time.perf_counter()
        self.outcome = Outcome(monitor=base.monitor)

    def __enter__(self) -> Session:
        """The header is written and signals are noted from here on; a run that is open already stays as it is."""
        if self._guard.open:
            return self
        self._guard.open = True
        self._updater.refuse_other_steps()
        self.record.header(self._header)
        self.control.interrupt.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write how the run ended and leave the process group."""
        if not self._guard.open:
            return
        self._guard.open = False
        self._updater.allow_other_steps()
        self.loader.close()
        self.control.interrupt.remove()
        self._conclude(error)
        if error is None and self.control.interrupted:
            error = RankFailureError(
                self.stop_reason
            )  # recorded, not raised: the loop ended as it was asked to
        try:
            self.record.header(lambda: {"summary": msgspec.to_builtins(self.outcome)})
            self.record.close(error)
        except RecordError:
            if error is None:  # else what ended the run is the better news: often the same full disk
                raise
        finally:
            self.world.close()

    def close(self) -> None:
        """End a run that was not opened by `with`; a second call does nothing."""
        self.__exit__(None, None, None)

    def steps(self) -> Iterator[Any]:
        """This rank's micro-batches of all epochs, on its device, until the run ends or is told to stop.

        Raises:
            TaskError: no `backward` on the batch before, a second loop, or a loop outside of the `with` block.
        """
        self._guard.begin()
        self.started_s = time.perf_counter()
        for micro in self.loader:
            self._micro = micro
            self._guard.hand_out()
            with dp.accumulating(self.model, micro.last):
                yield to_device(micro.data, self.world.device)
            if self.awaits_backward:
                raise TaskError(
                    "a batch came back without session.backward(loss_sum, count). Call it once a batch."
                )
            if self.stop_reason:
                return

    @property
    def awaits_backward(self) -> bool:
        """A batch was handed out and `backward` has not been called on it yet."""
        return self._micro is not None

    def autocast(self) -> AbstractContextManager[None]:
        """The context of a forward pass in the run's precision."""
        return self.precision.autocast()

    def backward(self, loss_sum: torch.Tensor, count: float | torch.Tensor) -> None:
        """Accumulate a micro-batch; after the last one of the window the update follows.

        The gradient that is applied is that of (sum of all loss sums) / (sum of all counts), over micro-batches
        and ranks, however ragged they are.

        Args:
            loss_sum: 0-d sum of the losses in this micro-batch.
            count: how many terms that sum has (samples or tokens).

        Raises:
            GuardStop: too many steps in a row were not finite.
            TaskError: called without a batch, or the data hold NaN.
        """
        micro = self._micro
        if micro is None:
            raise TaskError(
                "session.backward was called without a batch from session.steps(). "
                "Call it once a batch, with the sum of all its losses."
            )
        self._guard.before_backward(loss_sum, count)
        self.accumulate(loss_sum, count, micro)
        self._micro = None
        self.at_window_end = micro.last
        self.noise.after_micro_batch(micro, self._updater.params)
        self._guard.after_backward(self._updater.params, micro.last)
        if micro.last:
            self._finish_window(micro)

    def accumulate(self, loss_sum: torch.Tensor, count: float | torch.Tensor, micro: MicroBatch) -> None:
        """Add one micro-batch to the gradients, without an update."""
        weight = self.world.num_ranks / micro.window_samples if micro.num_samples else 0.0
        self.precision.backward(loss_sum * weight)
        if micro.num_samples:
            self._losses.append(loss_sum.detach())
            self._counts.append(count)

    def drain(self) -> tuple[float, float]:
        """This rank's loss sum and count of the window so far; both start again at 0."""
        loss_sum = sum(map(float, self._losses))  # not fsum, which raises on infinities of both signs
        count = sum(map(float, self._counts))
        self._losses.clear()
        self._counts.clear()
        return loss_sum, count

    def _finish_window(self, micro: MicroBatch) -> None:
        part_square = self.noise.part_square(self.precision.loss_scale)
        loss_sum, count, part_square, stop_reason = self.control.vote(
            *self.drain(), part_square, samples=micro.position
        )
        lr = self._schedule_lr(self.applied_steps) * self.stopper.lr_factor
        factor = micro.window_samples / count if count > 0 else 0.0
        update = self._updater.apply(factor, lr)
        number = self.last.number + 1 if self.last else 1
        loss = loss_sum / count if count else math.nan
        self.last = Step(number, micro.position, loss, lr, update.grad_norm, update.applied)
        if self.world.rank == 0:
            self.record.log(number, micro.position, {"loss": loss, "lr": lr, "grad_norm": update.grad_norm})
        if update.applied:
            self.applied_steps += 1
            self.noise.update(part_square, update.grad_norm, micro.window_samples, factor)
            self._skips_in_a_row = 0
        else:
            self._skipped(micro, loss_sum, count)
        if stop_reason:
            self.stop_reason = stop_reason

    def _skipped(self, micro: MicroBatch, loss_sum: float, count: float) -> None:
        self.skipped_steps += 1
        if math.isfinite(loss_sum) and self.precision.loss_scale > 1.0:
            return  # fp16 is still looking for its scale, which halves at each of these
        if count <= 0:
            return  # nothing was asked to be learnt in this window; not a fault
        bad = nonfinite_samples(self._source, self.loader.feed, micro.position - micro.window_samples)
        if self.world.sum([float(bool(bad))])[0] > 0:
            what = f"sample {bad[0]} of train_data holds" if bad else "train_data on another rank holds"
            raise TaskError(f"{what} NaN or infinity. Clean the data; a run on it cannot end well.")
        self._skips_in_a_row += 1
        if self._skips_in_a_row > self.settings.max_skips:
            raise GuardStop(
                f"loss or gradient was not finite in {self._skips_in_a_row} steps in a row, up to step "
                f"{self.last.number if self.last else 0}. Lower lr, lengthen warmup_steps, or set clip_norm=1."
            )

    def evaluate(self, data: Any, measure: Measure) -> dict[str, float]:
        """Judge the model on every row of a dataset once, pooled over all ranks.

        Args:
            data: map-style dataset or DataLoader.
            measure: (model, batch) -> name: (sum, count).
        """
        loader = EvalLoader(
            data,
            rank=self.world.rank,
            num_ranks=self.world.num_ranks,
            micro_batch=self.recipe.micro_batch,
            workers=self.settings.workers,
        )
        with self.autocast():
            values = evaluate(dp.unwrap(self.model), loader, measure, self.world)
        self.outcome.final = values
        self.outcome.num_evaluations += 1
        return values

    def judge(self, value: float) -> Verdict:
        """Feed the monitored metric to early stopping and plateau halving; call it on all ranks.

        Args:
            value: the pooled metric, equal on all ranks.
        """
        verdict = self.stopper.update(value, self.applied_steps)
        if verdict.improved:
            self.outcome.best, self.outcome.best_step = value, self.last.number if self.last else 0
        if verdict.stop:
            self.stop_reason = verdict.why
        return verdict

    def log(self, **values: float) -> None:
        """Record figures at the latest step; every rank writes its own."""
        step, samples = (self.last.number, self.last.samples) if self.last else (0, 0)
        self.record.log(step, samples, values)

    @property
    def saves(self) -> bool:
        """`save` writes: the run is recorded and train.save is on."""
        return self.settings.save and self.record.path is not None

    def save(self, name: str = "last") -> None:
        """Keep the weights as the run's "best" or "last"; `hemostat evaluate`, `export` and `load` read them.

        Call it on all ranks: their running statistics are averaged first. It does nothing unless `saves`.

        Raises:
            UsageError: another name.
            RecordError: the disk refused; what was saved before stays.
        """
        check_checkpoint(name)
        model = dp.unwrap(self.model)
        self.world.average_(list(model.buffers()))
        if self.saves and self.record.path is not None and self.world.rank == 0:
            save_weights(model, self.record.path / "checkpoints" / f"{name}.pt")

    def _agree(self, num_samples: int) -> None:
        """Refuse data of unlike sizes, with which ranks would draw unlike windows; on all ranks alike."""
        differs = num_samples != int(self.world.from_rank_zero(str(num_samples)))
        if self.world.sum([float(differs)])[0]:
            raise TaskError(
                f"train_data has {num_samples} samples on rank {self.world.rank} and another number elsewhere. "
                "Every rank must build the same data set; hemostat shares it out."
            )

    def _header(self) -> dict[str, Any]:
        return {
            **run_header(self.origin, self.settings, self.recipe),
            "hardware": hardware(self.world) | {"usd_per_hour": self.usd_per_hour},
            "precision": self.precision.name,
            **({"data": data_fingerprint(Task(), self._source)} if self.describes_data else {}),
        }

    def _conclude(self, error: BaseException | None) -> None:
        outcome, last = self.outcome, self.last
        outcome.steps, outcome.samples = (last.number, last.samples) if last else (0, 0)
        ended = outcome.samples >= self.recipe.total_samples
        outcome.reason = self.stop_reason or ("the run reached its end" if ended else "the loop was left")
        outcome.status = "stopped" if self.stop_reason else "ended" if ended else "left"
        if error is not None:
            outcome.reason = str(error) or type(error).__name__
            outcome.status = "stopped" if self.stop_reason else "failed"
        outcome.skipped_steps = self.skipped_steps
        outcome.train_s = time.perf_counter() - self.started_s if last else 0.0
        outcome.count_waits(self.loader)
        outcome.critical_batch = self.noise.critical_batch
        if self.usd_per_hour is not None:
            outcome.usd = self.usd_per_hour * outcome.train_s / 3600

    def find_unused(self, found: bool) -> None:
        """Wrap again when some parameters get no gradient in some steps."""
        if found:
            self._wrap(dp.unwrap(self.model), find_unused=True)

    def _wrap(self, model: torch.nn.Module, find_unused: bool) -> None:
        self.model = dp.wrap(model, self.world, find_unused)
        self.noise.watch(self.model)
        if self.model is not model:
            self._guard.watch(self.model)

    def new_loader(self, **changes: int) -> TrainLoader:
        """A loader of the training data from its start, as the recipe says but for `changes`."""
        feed = Feed(
            seed=self.settings.seed,
            global_batch=self.recipe.global_batch,
            accumulation=self.recipe.accumulation,
            rank=self.world.rank,
            num_ranks=self.world.num_ranks,
            total_samples=self.recipe.total_samples,
        )
        changed = msgspec.structs.replace(feed, **changes)
        return TrainLoader(self._source, changed, workers=self.settings.workers)
