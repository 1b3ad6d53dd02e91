"""The trainer: a short loop over a session that follows a task from its first step to its outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import torch

from hemostat.data import Source
from hemostat.errors import (
    FieldError,
    GuardStop,
    Interrupted,
    TaskError,
    UnknownNameError,
)
from hemostat.findings import Severity
from hemostat.recipe import Devices
from hemostat.task import (
    LoadedTask,
    LossDoor,
    build_model,
    call,
    evaluation_mode,
    own_optimizer,
    recipe_optimizer,
    to_device,
)
from hemostat.track import RunRecord
from hemostat.train.check_division import check_division
from hemostat.train.guards import nonfinite_rows
from hemostat.train.header import task_header
from hemostat.train.layout_notes import layout_notes
from hemostat.train.loop_guard import check_same_data
from hemostat.train.lr_range import find_range, said
from hemostat.train.memory import find_micro_batch
from hemostat.train.parallel import dp
from hemostat.train.process import World, seed_everything
from hemostat.train.progress import Progress
from hemostat.train.repeats import random_reads
from hemostat.train.resume import say_changed_task
from hemostat.train.samples import Samples
from hemostat.train.self_check import self_check
from hemostat.train.session import Session
from hemostat.train.settings import TrainSettings
from hemostat.train.split_model import refuse_searches, split_model
from hemostat.train.undone import undone
from hemostat.train.window_end import settle


def train(loaded: LoadedTask, devices: Devices, settings: TrainSettings) -> Session:
    """Train a task on the ranks of this job.

    Args:
        loaded: the task and what works for it on one device.
        devices: the batch on the devices at hand.
        settings: how the engine runs.

    Returns:
        The closed session; its `outcome` is equal on all ranks but for the waits.

    Raises:
        HemostatError: anything in the tree of `hemostat.errors`.
    """
    if settings.num_threads is not None:
        torch.set_num_threads(settings.num_threads)
    torch.use_deterministic_algorithms(settings.deterministic)
    refuse_searches(settings)
    world = World.from_environment(settings.device)
    seed_everything(settings.seed)
    task = loaded.task
    train_data, val_data = Source(call(task, "train_data"), "train_data"), call(task, "val_data")
    model = build_model(task)
    optimizer = own_optimizer(task, [param for param in model.parameters() if param.requires_grad])
    base = loaded.base
    if optimizer is not None and base.apply_advice:
        raise FieldError(
            "apply_advice",
            base.apply_advice,
            "the task builds its own optimizer",
            "Set those values in optimizer().",
        )
    if optimizer is not None and "optimizer" not in loaded.given:
        base = msgspec.structs.replace(base, optimizer=recipe_optimizer(optimizer) or base.optimizer)
    if train_data.declared_batch is not None and "tuned_batch" not in loaded.given:
        base = msgspec.structs.replace(base, tuned_batch=train_data.declared_batch)
    given = split_model(loaded.task, model, train_data, settings.layout)
    session = Session(given, optimizer, train_data, base, devices, settings, world)
    session.origin = loaded.path.parent
    session.described_by = loaded.task
    if settings.self_check:  # before a resume changes the weights
        check_division(session, given)
    del given  # it holds the blocks of other ranks
    with session:
        judged = None if val_data is None else Source(val_data, "val_data")
        if judged is not None:
            check_same_data(world, judged)
        trainer = Trainer(session, LossDoor(task), judged)
        say_changed_task(session, loaded)
        session.record.header(lambda: task_header(loaded, train_data, judged))
        trainer.run()
    return session


class Trainer:
    """Drives one session: self-check, steps, evaluations, best weights, outcome."""

    def __init__(self, session: Session, door: LossDoor, val_data: Source | None) -> None:
        self.session = session
        self.door = door
        self.val_data = val_data
        session.spending.num_val_samples = val_data.num_samples if val_data else 0
        self._samples = Samples(door.task, session.record.path if session.mesh.speaks else None)

    def run(self) -> None:
        """Train to the end, or to the reason to stop before it.

        Raises:
            Interrupted: a signal ended the run; its weights are saved.
        """
        session = self.session
        visible = session.world.rank == 0
        begun = session.last.samples if session.last else 0
        progress = Progress(session.recipe.total_samples, session.usd_per_hour, visible, begun)
        for finding in session.recipe.findings:
            if finding.severity > Severity.INFO:
                progress.say(f"note {finding.code}: {finding.message} {finding.fix}".rstrip())
        for note in layout_notes(session):
            progress.say(f"note: {note}")
        session.spending.refuse_if_spent()
        if session.settings.find_micro_batch and session.back_off.found is None:
            find_micro_batch(session, self._compute)
            progress.say(f"note: micro_batch={session.recipe.micro_batch} is the largest that fits")
        if session.settings.self_check:
            with undone(dp.unwrap(session.model), session.updater.params, session.world.device):
                self._check_loss(progress)
        if session.settings.lr_range and session.last is None:
            progress.say(said(find_range(session, self._compute), session))
        try:
            if self._is_due(session.position[0]):
                session.stop = session.spending.stop_before_evaluation()
                if session.stop is None:
                    self._evaluate(progress)  # the run was stopped before it could
            if session.stop is None:
                self._steps(progress)
            paused = session.stop is not None and session.stop.paused
            ends_by_itself = not paused and (session.stop is None or session.stop.status == 0)
            unjudged = session.last is not None and session.last.number != session.judged_step
            # a paused run is judged where the undisturbed one would be, and nowhere else
            if (
                session.last
                and unjudged
                and (ends_by_itself or (paused and self._is_due(session.last.number)))
            ):
                self._evaluate(progress)
        finally:
            progress.close()
        if session.last and not session.applied_steps and ends_by_itself:
            raise GuardStop(
                f"none of the {session.last.number} steps was applied: the loss counted nothing or was never finite. "
                "Look at the count that loss() returns."
            )
        session.save()  # it compares the ranks once more
        stopped = None if session.stop is None else session.stop.error(self._where_saved())
        if stopped is not None:
            raise stopped

    def _where_saved(self) -> str:
        """How to go on, after a stop that is not the end."""
        session = self.session
        if not session.saves or session.record.path is None:
            return "; nothing was saved, as train.save or record is off"
        return f"; saved, go on with: {RunRecord(session.record.path).command('train --resume')}"

    def _is_due(self, number: int) -> bool:
        """The model is to be judged at this step and has not been."""
        is_new = number > 0 and number != self.session.judged_step
        return is_new and number % self.session.recipe.eval_every_steps == 0

    def _check_loss(self, progress: Progress) -> None:
        session = self.session
        doubt = session.back_off.until_it_fits(self._check_door)
        random_data = random_reads(session)
        if random_data:
            progress.say(f"note: {random_data}")
        if not session.mesh.layout.is_dp:  # no rank could compute the gradient of one process
            if doubt:
                progress.say(f"note: {doubt}")
            return
        if session.world.num_ranks > 1 or session.recipe.accumulation > 1:
            found = self_check(session, self._compute, random_data=bool(random_data))
            if math.isnan(found.ratio):
                progress.say(
                    "note: the self-check could not compare: the data stay random, or are not finite"
                )
        if doubt:
            progress.say(f"note: {doubt}")

    def _check_door(self) -> str:
        first = next(iter(self.session.new_loader()))
        if self.session.parts.pipeline is not None:
            return ""
        with self.session.parts.context():
            doubt = self.door.check(
                dp.unwrap(self.session.model), to_device(first.data, self.session.world.device)
            )
        self.session.parts.end_evaluation()
        return doubt

    def _steps(self, progress: Progress) -> None:
        session = self.session
        kept = session.recipe.checkpoint_every_steps
        for batch in session.steps():
            with session.back_off.guard():
                self._pass(batch)
            number = session.position[0]
            if session.at_window_end and number:
                if progress.is_due() and (step := session.last):
                    progress.update(step)
                if self._is_due(number):
                    settle(session)
                    if session.stop is None:
                        self._evaluate(progress)
                if kept and number % kept == 0:
                    session.save()

    def _pass(self, batch: Any) -> None:
        """Forward and backward; what they hold goes with this frame."""
        if self.session.parts.pipeline is not None:
            self.session.piped.take(self.door, batch)
            return
        with self.session.autocast():
            loss = self.door.compute(self.session.model, batch)
        self.session.backward(loss.sum, loss.count)

    def _evaluate(self, progress: Progress) -> None:
        session = self.session
        last = session.last
        if self.val_data is None or last is None:
            return
        self._samples.begin(last.number)
        if self.val_data.num_samples < session.mesh.num_data_ranks:
            self._meet_metrics(self.val_data)
        try:
            values = session.evaluate(self.val_data, self._measure)
        except Interrupted:
            if session.stop is None:
                raise
            return  # on all ranks; the resumed run evaluates first
        values |= {f"val_{name}": value for name, value in self.door.finish_metrics().items()}
        session.outcome.final = values
        monitor = session.outcome.monitor
        if monitor not in values:
            raise UnknownNameError("monitor", monitor, values)
        if not math.isfinite(values[monitor]):
            self._look_for_nan(self.val_data)
            progress.say(f"note: {monitor} is {values[monitor]}, so this evaluation counts as a bad one")
        session.log(**values)
        verdict = session.judge(values[monitor])
        if verdict.improved:
            progress.best = f"best {monitor} {values[monitor]:.4f}"
            session.save("best")
        shown = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
        progress.say(f"step {last.number}: {shown}{'  ' + verdict.why if verdict.why else ''}")
        if self._samples.trouble:
            progress.say(f"note: {self._samples.trouble}")
            self._samples.trouble = ""

    def _look_for_nan(self, val_data: Source) -> None:
        """Raise on all ranks if validation data hold NaN or infinity: no later evaluation could be better."""
        world = self.session.world
        with self.session.eval_feeds.loader(val_data) as loader:
            found = any(nonfinite_rows(micro.data) for micro in loader)
        if world.sum([float(found)])[0]:
            raise TaskError(
                "val_data holds NaN or infinity. Clean it; early stopping cannot follow such a metric."
            )

    def _meet_metrics(self, val_data: Source) -> None:
        """A rank without rows must own the same torchmetrics objects, since they join the ranks by themselves."""
        session = self.session
        with session.eval_feeds.loader(val_data) as loader:
            micro = next(iter(loader))  # a rank without rows gets one as a filler
        with evaluation_mode(dp.unwrap(session.model)), torch.no_grad(), session.autocast():
            self._measure(session.parts.judged, to_device(micro.data, session.world.device))
        self.door.reset_metrics()

    def _compute(self, model: torch.nn.Module, batch: Any) -> tuple[torch.Tensor, Any]:
        loss = self.door.compute(model, batch)
        return loss.sum, loss.count

    def _measure(self, model: torch.nn.Module, batch: Any) -> Mapping[str, tuple[Any, Any]]:
        parts = self.session.parts
        if not self.session.mesh.has_output:
            args, kwargs, _ = self.door.split(batch)
            model(*args, **kwargs)
            return {}
        loss = parts.whole(self.door.compute(model, batch))
        self._samples.offer(loss.output, batch)
        metrics = self.door.metrics(loss.output, loss.target)
        layout = self.session.mesh.layout
        if not layout.is_dp and self.door.joins_ranks:
            raise TaskError(
                f"metrics() returns torchmetrics objects, which join all ranks by themselves, and in layout {layout} "
                "some ranks have the same samples, fillers, or none. Return {name: (sum, count)}."
            )
        return {"val_loss": (loss.sum, loss.count)} | {f"val_{name}": pair for name, pair in metrics.items()}
