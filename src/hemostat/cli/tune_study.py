"""A study of the command line: begun or read from its journal, run to its end, or saved after a signal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from hemostat.cli.tune_setup import Asked, Setup, TuneSettings, setup
from hemostat.config import decode, to_plain
from hemostat.errors import FieldError, Interrupted
from hemostat.findings import Finding
from hemostat.launch import backend
from hemostat.tune import (
    Budget,
    History,
    Journal,
    Settings,
    Space,
    Study,
    doubts,
    drive,
    evidence,
    first_round,
    journal,
    launched,
    pruners,
    samplers,
    scaling_law,
    space_file,
    stopping,
    workers,
)

GRACE_S = 60.0  # after a signal: a trial that has not saved by then is ended


class Opened(NamedTuple):
    """A study that can run.

    Attributes:
        name: of the study.
        folder: what is kept of it.
        study: with its journal.
        journal: to be closed.
        space: what may be chosen.
        asked: what it runs.
        setup: how.
    """

    name: str
    folder: Path
    study: Study
    journal: Journal
    space: Space
    asked: Asked
    setup: Setup


def studies_of(runs: Path) -> Path:
    """The folder of all studies, beside that of all runs."""
    return runs.parent / "studies"


def asked_of(folder: Path) -> Asked:
    """What a study of an earlier command runs.

    Raises:
        FieldError: there is no study of that name.
    """
    path = folder / "journal.jsonl"
    if not path.is_file():
        known = sorted(other.parent.name for other in folder.parent.glob("*/journal.jsonl"))
        there = f"Known: {', '.join(known[-8:])}." if known else "There is none in this folder yet."
        raise FieldError("resume", folder.name, "is no study", there)
    return decode(Asked, _about(journal.read_journal(path))["asked"])


def _about(entries: Sequence[journal.AnyEntry]) -> dict[str, Any]:
    return next(entry.settings.about for entry in entries if isinstance(entry, journal.Began))


def begin(folder: Path, asked: Asked, space: Space, made: Setup, budget: Budget, num_workers: int) -> Opened:
    """A new study.

    Raises:
        FieldError: there is one of that name already.
    """
    (
        pruners.pruner(asked.tune.pruner),
        samplers.sampler(asked.tune.sampler),
    )  # unknown names leave no study behind
    settings = Settings(
        length=made.length,
        step=made.step,
        direction=made.direction,
        seed=asked.tune.seed,
        can_pause=made.jobs.can_pause,
        first_round=first_round.first_round(space, num_workers, _law(asked, space)),
        budget=budget,
        about={
            "asked": to_plain(asked),
            "space": space_file.space_values(space),
            "metric": made.metric,
            "unit": "samples" if asked.task else "steps",
        },
    )
    return _opened(folder, Journal(folder / "journal.jsonl"), space, asked, made, settings)


def _law(asked: Asked, space: Space) -> scaling_law.Start | None:
    """A start from smaller runs, where there are some."""
    law = asked.tune.law
    if law is None:
        return None
    if asked.task:
        rule = "is for scripts: the learning rate of a task's space is that of its tuned_batch"
        raise FieldError("tune.law", law.runs, rule, "Tune the task's own command line, or leave it out.")
    for name in law.names:
        if name not in space.names:
            raise FieldError("tune.law.names", list(law.names), f"{name!r} is not in the space", "Name both.")
    start = scaling_law.start_from(
        scaling_law.read_runs(Path(law.runs)), law.num_params, law.num_tokens, law.names
    )
    print(
        f"law      {law.names[0]}={start.lr:.3g} (within {start.lr_factor:.2g}x), {law.names[1]}={start.batch:.4g} "
        f"(within {start.batch_factor:.2g}x). {start.why}",
        file=sys.stderr,
    )
    return start


def go_on(folder: Path, num_workers: int) -> Opened:
    """A study of an earlier command.

    Raises:
        FieldError: there is none of that name.
        RecordError: another process is running it.
    """
    opened = Journal(folder / "journal.jsonl")
    try:
        about = _about(opened.entries)
        asked = decode(Asked, about["asked"])
        space = space_file.space_from(about["space"])
        made = setup(asked, space.names, num_workers)
        return _opened(folder, opened, space, asked, made, None)
    except BaseException:
        opened.close()
        raise


def _opened(
    folder: Path, entries: Journal, space: Space, asked: Asked, made: Setup, settings: Settings | None
) -> Opened:
    tune: TuneSettings = asked.tune
    try:
        study = Study(
            entries,
            space,
            samplers.sampler(tune.sampler),
            pruners.pruner(tune.pruner),
            settings,
            stop=stopping.done,
            control=evidence.is_control,
        )
    except BaseException:
        entries.close()
        raise
    return Opened(folder.name, folder, study, entries, space, asked, made)


def run(
    opened: Opened,
    runs: Path,
    slots: tuple[dict[str, str], ...],
    show: Callable[[Study], None],
    *,
    sure: bool,
) -> str:
    """Run a study.

    Args:
        opened: the study.
        runs: the folder of all runs.
        slots: the devices of each worker.
        show: called after everything that happens.
        sure: a direction that looks wrong is right.

    Returns:
        Why it ended.

    Raises:
        Interrupted: a signal came; the trials are saved, and so is the study.
        DoubtError: its direction looks wrong; all is saved.
    """
    made, study = opened.setup, opened.study
    site = launched.Site(
        study=opened.name,
        root=runs,
        length=made.length,
        step=made.step,
        slots=slots,
        header={"task": opened.asked.task or " ".join(opened.asked.command)},
        only_end=made.only_end,
    )

    def watch(study: Study) -> None:
        show(study)
        doubt = None if sure else _doubt(study.history)
        if doubt is not None:
            raise DoubtError(doubt)

    clock = workers.Clock(study.clock_s)
    with launched.LaunchedWorkers(backend("local"), made.jobs, site, clock) as crew, _signals(crew):
        try:
            return drive(study, crew, watch)
        except (Interrupted, DoubtError):
            _save(study, crew)
            raise


class DoubtError(Exception):
    """The study's objective looks wrong; somebody must say what is meant.

    Args:
        finding: what looks wrong.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def _doubt(history: History) -> Finding | None:
    return doubts.doubts_direction(history)


def _save(study: Study, crew: launched.LaunchedWorkers) -> None:
    """Let every trial save and leave, and write down where it got to.

    Of a trial that could not save nothing is written: the study gives its order once more when it goes on.
    """
    left = {order.trial for order in study.running}
    for trial in left:
        crew.stop(trial)
    limit_s, was_ended = crew.now_s() + GRACE_S, False
    while left:
        try:
            event = crew.wait(limit_s)
        except Interrupted:  # somebody is in a hurry
            event = None
        if isinstance(event, workers.End):
            left.discard(event.trial)
        if event is None:
            if was_ended:
                return  # leaving the workers kills them
            for trial in left:
                crew.stop(trial)
            limit_s, was_ended = crew.now_s() + GRACE_S, True
        elif isinstance(event, workers.Progress) or event.outcome in ("paused", "finished"):
            study.record(event, crew.now_s())


@contextmanager
def _signals(crew: launched.LaunchedWorkers) -> Iterator[None]:
    """A signal ends the wait for the next event, never a write to the journal."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        crew.interrupt(signal.Signals(number).name)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {
        number: signal.signal(number, on_signal)
        for number in numbers
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
