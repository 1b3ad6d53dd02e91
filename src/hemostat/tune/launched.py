"""LaunchedWorkers: trials as runs on a launch backend, steered by control.json and read from their records."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from hemostat.errors import FieldError, Interrupted
from hemostat.launch import OUTPUT, Backend, Started
from hemostat.track import Checkpoints, RunRecord, attempts, create_run, update_run, write_exit
from hemostat.tune.metric_lines import MetricLines
from hemostat.tune.outcomes import TAIL_BYTES, Seen, outcome_of
from hemostat.tune.positions import on_scale
from hemostat.tune.trial import Outcome, Point
from hemostat.tune.trial_jobs import TrialJobs
from hemostat.tune.workers import Clock, End, Order, Progress

LOOK_S = 0.1
_READ_SHARE = 0.05  # of the controller's time that may go into reading one trial's records


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how a study's trials run.

    Attributes:
        study: its name; a trial is the run STUDY-tNNN.
        root: the folder of all runs.
        length: where a run ends, in the study's unit of position.
        step: distance between two places of comparison.
        slots: for each worker the variables that give it its own devices.
        header: what the record of every trial says.
        only_end: nobody said how long a run is, so its last value is all that counts; `length` is 1 then.
    """

    study: str
    root: Path
    length: int
    step: int
    slots: tuple[dict[str, str], ...]
    header: dict[str, Any] = {}
    only_end: bool = False

    def run_dir(self, trial: int) -> Path:
        """The run directory of a trial."""
        return self.root / f"{self.study}-t{trial:03d}"


class _Stretch:
    """One order under way."""

    def __init__(self, order: Order, run_dir: Path, metric: str) -> None:
        self.order = order
        self.run_dir = run_dir
        self.slot = -1
        self.started: Started | None = None
        self.asked = False
        self.sent = order.start
        self.own_s = 0.0
        self.last: float | None = None
        self.output = run_dir / OUTPUT
        self.begin_bytes = self.output.stat().st_size if self.output.exists() else 0
        self.lines = MetricLines(self.output, metric)
        self.next_read_s = 0.0
        self.sizes: tuple[int, ...] | None = None

    def changed(self) -> bool:
        """Whether anything was written since this was asked last."""
        paths = [self.output, *sorted(self.run_dir.glob("metrics.*.jsonl"))]
        sizes = tuple(path.stat().st_size for path in paths if path.exists())
        changed, self.sizes = sizes != self.sizes, sizes
        return changed

    def tail(self) -> str:
        """The end of what this stretch has printed."""
        if not self.output.exists():
            return ""
        with self.output.open("rb") as file:
            file.seek(max(self.begin_bytes, self.output.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")


def trained_s(run_dir: Path) -> float:
    """Seconds that a run has trained, by the lines of its records; 0 where it keeps none.

    What comes before the first line of an attempt is its start, which takes the same time however far it runs; the
    first line itself is taken to have lasted as long as the others.
    """
    total_s = 0.0
    for attempt in attempts.read_attempts(run_dir):
        count, first = len(attempt.lines), attempt.lines[0].time
        total_s += (attempt.last - first) * count / (count - 1) if count > 1 else attempt.last - attempt.start
    return total_s


class LaunchedWorkers:
    """Workers on a launch backend; leaving the `with` block ends what still runs.

    A trial is one run directory for all of its stretches. It goes on from its checkpoint wherever there is one, also
    after a kill of the trial or of this process; what it recorded before is not measured again. All that it asks of
    its records is what `hemostat.track` writes, so any script can be a trial.

    Args:
        place: the backend.
        jobs: what a trial runs.
        site: where.
        clock: of the study.

    Attributes:
        num_workers, can_pause: see `Workers`.
    """

    def __init__(self, place: Backend, jobs: TrialJobs, site: Site, clock: Clock | None = None) -> None:
        self.num_workers = len(site.slots)
        self.can_pause = jobs.can_pause
        self._place, self._jobs, self._site = place, jobs, site
        self._clock = clock or Clock()
        self._free = list(range(len(site.slots)))
        self._running: dict[int, _Stretch] = {}
        self._events: deque[Progress | End] = deque()
        self._interrupt = ""

    def __enter__(self) -> LaunchedWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        started = [stretch.started for stretch in self._running.values() if stretch.started is not None]
        for one in started:
            one.end(now=True)
        while any(one.poll() is None for one in started):
            time.sleep(LOOK_S / 10)

    def now_s(self) -> float:
        """See `Workers.now_s`."""
        return self._clock.now_s()

    def start(self, order: Order) -> None:
        """See `Workers.start`; an order whose end was recorded, but not heard of by the study, is not run again."""
        header = {**self._site.header, "kind": "trial", "study": self._site.study, "trial": order.trial}
        run_dir = create_run(
            self._site.root, self._site.run_dir(order.trial).name, {**header, "config": order.config}
        )
        stretch = _Stretch(order, run_dir, self._jobs.metric)
        record = RunRecord(run_dir)
        self._running[order.trial] = stretch
        if self._was_done(stretch):
            return
        if not self.can_pause:
            self._forget_attempt(stretch)
        resumes = bool(Checkpoints(run_dir).published())
        goes_on = self.can_pause and order.until < self._site.length
        at = self._jobs.pause_at(order) if goes_on else None
        record.ask("pause" if goes_on else "go", at, f"trial {order.trial} of {self._site.study}")
        job = self._jobs.job(order, run_dir, resumes=resumes)
        stretch.slot = self._free.pop(0)
        launched = {"HEMOSTAT_LAUNCHED_S": str(time.monotonic())}
        env = {**job.env, **self._site.slots[stretch.slot], **launched}
        stretch.started = self._place.start(msgspec.structs.replace(job, env=env))

    def wait(self, until_s: float | None) -> Progress | End | None:
        """See `Workers.wait`.

        Raises:
            FieldError: a run ended well and its metric never appeared.
            Interrupted: `interrupt` was called; the trials go on.
        """
        while True:
            if self._interrupt:
                reason, self._interrupt = self._interrupt, ""
                raise Interrupted(reason)
            if not self._events:
                for stretch in list(self._running.values()):
                    self._look(stretch)
            if self._events:
                return self._events.popleft()
            left_s = LOOK_S if until_s is None else until_s - self.now_s()
            if left_s <= 0:
                return None
            time.sleep(min(LOOK_S, left_s))

    def interrupt(self, reason: str) -> None:
        """Let `wait` raise `Interrupted`, now or at its next call; for handlers of signals."""
        self._interrupt = reason

    def stop(self, trial: int) -> None:
        """See `Workers.stop`."""
        stretch = self._running.get(trial)
        if stretch is None or stretch.started is None:
            return
        if stretch.asked:
            stretch.started.end(now=True)
        elif self.can_pause:
            RunRecord(stretch.run_dir).ask("pause", why="the study asks for it")
        else:
            stretch.started.end()
        stretch.asked = True

    def _was_done(self, stretch: _Stretch) -> bool:
        """Whether the records have the end of this order already: this process was killed before it was heard of."""
        ended = RunRecord(stretch.run_dir).exit
        if ended is None or ended[0] != 0:
            return False
        reached = self._curve(stretch)
        far = reached[-1][0] if reached else 0
        if stretch.last is None or (far < stretch.order.until and not self._site.only_end):
            return False
        self._send(stretch, reached)
        self._end(stretch, status=0)
        return True

    def _forget_attempt(self, stretch: _Stretch) -> None:
        """A script that begins anew leaves nothing of its attempt before among its own values."""
        for path in (stretch.output, *stretch.run_dir.glob("metrics.*.jsonl")):
            path.unlink(missing_ok=True)
        stretch.begin_bytes = 0
        stretch.lines = MetricLines(stretch.output, self._jobs.metric)
        stretch.last = None

    def _look(self, stretch: _Stretch) -> None:
        if stretch.started is None:
            return
        status = stretch.started.poll()
        begun_s = time.monotonic()
        if status is None and begun_s < stretch.next_read_s:
            return
        if stretch.changed() or status is not None:
            self._send(stretch, self._curve(stretch))
        took_s = time.monotonic() - begun_s
        stretch.next_read_s = begun_s + max(LOOK_S, took_s / _READ_SHARE)
        if status is not None:
            self._end(stretch, status)

    def _curve(self, stretch: _Stretch) -> list[tuple[int, float]]:
        points = self._measured(stretch)
        if points:
            stretch.last = points[-1][1]
        return [] if self._site.only_end else on_scale(points, self._site.length, self._site.step)

    def _measured(self, stretch: _Stretch) -> Sequence[tuple[int, float]]:
        """In the run's own unit: from its records, or where they do not have the metric from what it prints."""
        recorded = RunRecord(stretch.run_dir).metrics(self._jobs.metric)
        if recorded:
            return [(samples, value) for _, samples, value in recorded]
        return stretch.lines.read()

    def _send(self, stretch: _Stretch, curve: Sequence[tuple[int, float]]) -> None:
        for at, value in curve:
            if at > stretch.sent:
                own_s = trained_s(stretch.run_dir) or self.now_s() - stretch.order.issued_s
                stretch.own_s = max(stretch.own_s, own_s)
                point = Point(at=at, value=value, time_s=stretch.own_s)
                self._events.append(Progress(trial=stretch.order.trial, point=point))
                stretch.sent = at

    def _end(self, stretch: _Stretch, status: int) -> None:
        order, site = stretch.order, self._site
        outcome, why = self._outcome(stretch, status)
        if outcome == "finished":
            if stretch.last is None:
                raise self._never_appeared(stretch)
            self._send(stretch, [(site.length, stretch.last)])  # it may have ended by its own patience
        elif (
            outcome == "paused"
            and stretch.sent < order.until
            and not stretch.asked
            and stretch.last is not None
        ):
            self._send(stretch, [(order.until, stretch.last)])  # its nearest evaluation lies just before
        if not RunRecord(stretch.run_dir).header.get("summary"):
            self._conclude(stretch, outcome)
        if outcome == "stopped":  # as it was meant to: no failure in the list of runs
            write_exit(stretch.run_dir, 0, 0, "stopped by its study")
        self._events.append(
            End(trial=order.trial, outcome=outcome, time_s=self.now_s() - order.issued_s, why=why)
        )
        del self._running[order.trial]
        if stretch.slot >= 0:
            self._free.append(stretch.slot)

    def _outcome(self, stretch: _Stretch, status: int) -> tuple[Outcome, str]:
        summary: Mapping[str, Any] = RunRecord(stretch.run_dir).header.get("summary", {})
        said = summary.get("status")
        is_last = stretch.order.until >= self._site.length
        ended = said in ("ended", "stopped", "left") if said else not self.can_pause
        seen = Seen(
            status=status,
            asked=stretch.asked,
            can_pause=self.can_pause,
            is_whole=stretch.sent >= self._site.length or (ended and not stretch.asked),
            reached=said == "paused" or stretch.sent >= stretch.order.until or (not said and not is_last),
            last=stretch.last,
        )
        return outcome_of(stretch.run_dir, stretch.tail(), seen)

    def _conclude(self, stretch: _Stretch, outcome: Outcome) -> None:
        """The summary of a script that leaves none, for the list of runs."""
        if outcome in ("finished", "stopped") and stretch.last is not None:
            summary = {
                "monitor": self._jobs.metric,
                "best": stretch.last,
                "samples": stretch.sent,
                "status": outcome,
            }
            update_run(stretch.run_dir, summary={**summary, "spent_s": self.now_s() - stretch.order.issued_s})

    def _never_appeared(self, stretch: _Stretch) -> FieldError:
        names = list(stretch.lines.names) + RunRecord(stretch.run_dir).metric_names()
        there = f"It gave: {', '.join(dict.fromkeys(names))}." if names else "It gave no numbers at all."
        return FieldError(
            "metric",
            self._jobs.metric,
            f"never appeared in run {stretch.run_dir.name}, which ended well",
            f"{there} Write --metric NAME, or print a line such as {self._jobs.metric}=0.5 epoch=3.",
        )
