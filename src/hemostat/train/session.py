"""`Session`: the engine of a run, driven by hemostat's trainer or by a plain loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import torch

from hemostat.data import MicroBatch, Source, TrainLoader
from hemostat.findings import Finding
from hemostat.recipe import Base, Devices, Verdict
from hemostat.task import Task, to_device
from hemostat.train.back_off import BackOff
from hemostat.train.caps import Spending
from hemostat.train.checkpoint import Saver
from hemostat.train.control import ControlVote, Stop, stronger
from hemostat.train.eval_feeds import EvalFeeds
from hemostat.train.evaluate import Measure
from hemostat.train.header import session_header
from hemostat.train.heartbeat import Heartbeat
from hemostat.train.lag import recorded_lag, wants_lag
from hemostat.train.leave import leave
from hemostat.train.loop_guard import LoopGuard, check_given, check_same_data
from hemostat.train.noise import NoiseMeter
from hemostat.train.outcome import Outcome
from hemostat.train.own_optimizer import warn_of_batch
from hemostat.train.parallel import dp
from hemostat.train.parallel.alike import Alike
from hemostat.train.parallel.arrange import Splittable, arrange
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.piped_window import PipedWindow
from hemostat.train.precision import Precision
from hemostat.train.process import World, seed_everything
from hemostat.train.record import Record
from hemostat.train.resolve import (
    complete_base,
    feed_of,
    find_price,
    new_stopper,
    new_updater,
    resolve_recipe,
)
from hemostat.train.resume import resume
from hemostat.train.run_guards import RunGuards, heed
from hemostat.train.settings import TrainSettings
from hemostat.train.skips import Skips
from hemostat.train.state import capture
from hemostat.train.together import check_equal
from hemostat.train.update import Step
from hemostat.train.watch import Watch
from hemostat.train.weights import check_checkpoint
from hemostat.train.window_end import Made, finish_window, settle
from hemostat.train.window_loss import WindowLoss


class Session:
    """One training run: iterate `steps()`, call `backward`, leave the `with` block.

    Args:
        model: the module to train, or a `Splittable` one; it is moved to `world.device`.
        optimizer: None builds the one that the recipe names.
        train_data: map-style dataset, DataLoader or `hemostat.data.Source`.
        base: hyper-parameters that work on one device.
        devices: the batch on the devices at hand; `num_ranks` is filled in from the world.
        settings: how the engine runs.
        world: None reads torch's elastic launcher from the environment.

    Attributes:
        mesh: the ranks by the axes of the layout.
        parts: the model as the layout divides it.
        model: what the loop calls; wrapped when there are several ranks.
        recipe: every hyper-parameter as it is used, with its reason.
        lag_steps: how late the host reads what came of a step.
        made: the latest step while the host has not read it, else None.
        origin: folder whose git commit is recorded; the trainer sets the task file's.
        described_by: whose `fingerprint()` tells the training data apart; the trainer sets its task.
        outcome: how the run ended; complete once the `with` block was left.
        stop: why the run is to end early, else None.
        eval_feeds: how it reads what it is judged on.
        judged_step: where the monitored metric was judged last.
        attempts: each resume with its time and checkpoint.
        batch: what was handed out and awaits its `backward`, else None.
        at_window_end: the latest `backward` completed a step.
        save_is_due: a checkpoint is to be written at the end of this window.
        back_off: what is done where memory runs out; own loops put `with session.back_off.guard():` around a pass.
        usd_per_hour: price of all devices together; None where it is not known.
        pulse: where this rank stands.
        watch: sees every session of the process.
        guard: follows the loop.
        alike: compares what ranks that share a model must have in common.
        piped: the window under way, where the model is in stages.

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

    watch: ClassVar[Watch] = Watch()

    def __init__(
        self,
        model: torch.nn.Module | Splittable,
        optimizer: torch.optim.Optimizer | None,
        train_data: Any,
        base: Base,
        devices: Devices | None = None,
        settings: TrainSettings | None = None,
        world: World | None = None,
    ) -> None:
        splittable = Splittable.of(model)
        check_given(splittable.model, optimizer, base)
        given = self.watch.shrink((splittable.model, train_data, base, devices, settings or TrainSettings()))
        model, train_data, base, devices, self.settings = given
        self.world = world or World.from_environment(self.settings.device)
        self.mesh = Mesh(self.settings.layout, self.world)
        self.source = train_data if isinstance(train_data, Source) else Source(train_data, "train_data")
        warn_of_batch(self.source.declared_batch, base.tuned_batch)
        base = complete_base(base, optimizer, self.settings)
        check_same_data(self.world, self.source)
        self.recipe = resolve_recipe(base, devices or Devices(), self.source.num_samples, self.mesh)
        self.loader = self.new_loader()
        self.guard = LoopGuard(self.world.num_ranks)
        self.precision = Precision(self.recipe.precision, self.world.device)
        splittable = splittable._replace(model=model.to(self.world.device))
        self.parts = arrange(splittable, self.mesh, optimizer, self.precision.dtype)
        self.noise = NoiseMeter(self.mesh, self.parts.norm)
        self.wrap(self.parts.model, find_unused=False)
        self.back_off = BackOff(self)
        late = wants_lag(self.settings, self.mesh)
        self.updater = new_updater(self.recipe, self.parts, self.precision, optimizer, base.lr, fused=late)
        self.lag_steps = recorded_lag(self)
        self.stopper = new_stopper(self.recipe)
        self.outcome = Outcome(monitor=base.monitor)
        self.guards = RunGuards(self)
        self.usd_per_hour = find_price(self.settings)
        self.record = Record(self.world, self.settings.record, self.settings.resume)
        run_dir, told = self.record.path, self.settings
        self.control = ControlVote(self.world, run_dir, told.save_every_s, told.grace_s, told.spot)
        self.pulse = self.world.pulse
        self.heartbeat = Heartbeat(self.world, run_dir, self.settings.stall_s)
        self.saver = Saver.open(self.world, run_dir if self.settings.save else None, self.settings.keep)
        # ranks draw dropout apart; the order of the data does not depend on this
        seed_everything(self.settings.seed + 1 + self.parts.stream(self.mesh))
        self._last: Step | None = None
        self.made: Made | None = None
        self.applied_steps = self.skipped_steps = self.judged_step = 0
        self.skips = Skips(self.world, self.source, self.settings.max_skips)
        self.attempts: list[dict[str, Any]] = []
        self.stop: Stop | None = None
        self.at_window_end = self.save_is_due = False
        self.window_loss = WindowLoss()
        self.piped = PipedWindow(self)
        self.alike = Alike(self.mesh)
        self.batch: MicroBatch | None = None
        self.origin = Path.cwd()
        self.described_by = Task()
        self.eval_feeds = EvalFeeds(self)
        self.spending = Spending(self)
        self.watch.built(self)

    def __enter__(self) -> Session:
        """The header is written and signals are noted from here on; a run that is open already stays as it is."""
        if self.guard.open:
            return self
        self.record.claim(self.world)
        self.guard.open = True
        self.updater.refuse_other_steps()
        self.control.interrupt.install()
        self.heartbeat.start(self.control.interrupt)
        try:
            if self.record.resumes:
                resume(self)
            self.record.header(lambda: session_header(self))
        except BaseException:
            self.heartbeat.close()
            self.record.abandon()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Save where the run got to, write how it ended and leave the process group."""
        if not self.guard.open:
            return
        self.guard.open = False
        leave(self, error)

    def close(self) -> None:
        """End a run that was not opened by `with`; a second call does nothing."""
        self.__exit__(None, None, None)

    def steps(self) -> Iterator[Any]:
        """This rank's micro-batches of all epochs, on its device, until the run ends or is told to stop.

        Raises:
            TaskError: no `backward` on the batch before, a second loop, or a loop outside of the `with` block.
        """
        self.guard.begin()
        self.spending.begin()
        self.pulse.enter("data")
        for micro in self.back_off.micro_batches():
            self.alike.check_samples(micro)
            self.batch = micro
            self.guard.hand_out()
            self.pulse.hand_out()
            with self.parts.accumulating(self.model, micro.last):
                yield to_device(micro.data, self.world.device, non_blocking=self.lag_steps > 0)
            self.guard.came_back(self.awaits_backward)
            if self.at_window_end and self.save_is_due:
                self.save()
            if self.stop is not None:
                break
            self.pulse.enter("data")
        settle(self)

    @property
    def awaits_backward(self) -> bool:
        """A batch was handed out and `backward` has not been called on it yet."""
        return self.batch is not None

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """The context of a forward pass and its loss, in the run's precision."""
        with self.parts.context(), self.precision.autocast():
            yield

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
        self.guard.refuse_stages(self.mesh.layout.pp)
        micro = self.guard.before_backward(self.batch, loss_sum, count)
        self.pulse.enter("backward")
        with self.back_off.guard():
            self.accumulate(loss_sum, count, micro)
        if self.batch is None:  # memory ran out and the window was given up
            return
        self.batch = None
        self.at_window_end = micro.last
        self.noise.after_micro_batch(micro, self.updater.params)
        self.guard.after_backward(self.updater.params, micro.last)
        if micro.last:
            finish_window(self, micro)
        self.watch.after(self, micro, loss_sum, count)

    def accumulate(self, loss_sum: torch.Tensor, count: float | torch.Tensor, micro: MicroBatch) -> None:
        """Add one micro-batch to the gradients, without an update."""
        weight = self.mesh.num_data_ranks / micro.window_samples if micro.num_samples else 0.0
        with self.parts.context():
            self.precision.backward(loss_sum * weight)
        if micro.num_samples:
            self.window_loss.add(self.parts.whole(loss_sum.detach()), count)

    @property
    def last(self) -> Step | None:
        """The latest step, or None; waits for the device where nobody has read what came of it.

        Each rank may ask for it alone: what the step means for the run is acted on later, on all of them.
        """
        return self._last if self.made is None else self.made.step(self.made.figures())

    @last.setter
    def last(self, step: Step | None) -> None:
        self._last, self.made = step, None

    @property
    def position(self) -> tuple[int, int]:
        """Number of the latest step and samples so far, which are known before what came of it is."""
        if self.made is not None:
            return self.made.number, self.made.micro.position
        return (self._last.number, self._last.samples) if self._last else (0, 0)

    @property
    def stop_reason(self) -> str:
        """One sentence once the run is to end early, else empty."""
        return self.stop.reason if self.stop is not None else ""

    def heed(self, finding: Finding) -> None:
        """Act on what a guard found, on all ranks alike: record it, say it, and stop the run if it is an error."""
        heed(self, finding)

    def evaluate(self, data: Any, measure: Measure) -> dict[str, float]:
        """Judge the model on every row of a dataset once, pooled over all ranks.

        Args:
            data: map-style dataset or DataLoader.
            measure: (model, batch) -> name: (sum, count).

        Raises:
            Interrupted: a signal came, on whichever rank; all have given the evaluation up, and what is saved at the
                end of the `with` block is evaluated first after a resume.
        """
        settle(self)
        self.pulse.enter("evaluate")
        values, self.guards.errors = self.eval_feeds.measured(self.watch.few(data), measure)
        self.outcome.final = values
        self.outcome.num_evaluations += 1
        self.pulse.enter("loop")
        return values

    def judge(self, value: float) -> Verdict:
        """Feed the monitored metric to early stopping and plateau halving; call it on all ranks.

        Args:
            value: the pooled metric, equal on all ranks.

        Raises:
            TaskError: it is not equal; on all ranks.
        """
        settle(self)
        check_equal(self.world, self.outcome.monitor, value)
        self.guards.after_evaluation(value)
        verdict = self.stopper.update(value, self.applied_steps)
        self.judged_step = self.position[0]
        if verdict.improved:
            self.outcome.best, self.outcome.best_step = value, self.judged_step
            self.spending.best_s = self.spending.total_s()
        if verdict.stop:
            self.stop = stronger(self.stop, Stop(verdict.why))
        return verdict

    def log(self, **values: float) -> None:
        """Record figures at the latest step; every rank writes its own."""
        self.record.log(*self.position, values)

    @property
    def saves(self) -> bool:
        """`save` writes: the run is recorded and train.save is on."""
        return self.saver is not None

    def save(self, name: str = "last") -> None:
        """Write a checkpoint: weights, optimizer, position, random numbers, and all that decides how the run goes on.

        Call it on all ranks. It does nothing unless `saves`, or when this step is saved already.

        Args:
            name: "best" marks it as such; `hemostat evaluate`, `export` and `load` read that one first.

        Raises:
            UsageError: another name.
            RecordError: the disk refused; what was saved before stays.
        """
        check_checkpoint(name)
        settle(self)
        now = (self.position[0], self.judged_step)
        if self.saver is None or (now == self.saver.saved and name == "last") or now[0] == 0:
            return
        self.pulse.enter("save")
        self.guards.compare()
        self.record.flush()
        self.saver.save(capture(self), best=name == "best")
        self.saver.saved = now
        self.save_is_due = False
        self.control.saved()
        self.pulse.enter("loop")

    def wrap(self, model: torch.nn.Module, *, find_unused: bool) -> None:
        """Wrap the model for its ranks, or again in its place: when it must look for parameters without gradient."""
        self.model = dp.wrap(model, self.world, find_unused) if self.mesh.layout.is_dp else model
        self.noise.watch(self.model)
        self.bucket_sizes = dp.settle(self.model)
        self.noise.part_square(1.0)  # of no step
        if self.world.num_ranks > 1:
            self.guard.watch(self.model)

    def forget_batch(self) -> None:
        """The window that was begun does not count; its batches will come again."""
        self.batch, self.at_window_end = None, False
        self.pulse.stepped(self.position[0])
        self.guard.after_backward([], last=True)

    def new_loader(self, start_samples: int = 0) -> TrainLoader:
        """A loader of the training data from `start_samples` on, as the recipe says."""
        feed = feed_of(self.recipe, self.mesh, self.settings.seed)
        return TrainLoader(self.source, feed, start_samples=start_samples, workers=self.settings.workers)
