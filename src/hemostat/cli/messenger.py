"""Tells of a run from the launching process, so that it is told too when the ranks can say nothing any more."""

from __future__ import annotations

import os
import platform
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from hemostat.cli.budget import new_budget_lines
from hemostat.cli.project import Project
from hemostat.errors import HemostatError, MissingExtraError, RecordError
from hemostat.report import Message, Notifier, draw_loss
from hemostat.track import Checkpoints, RunRecord, load_run

LOOK_S: Final = 2.0
BUDGET_S: Final = 60.0
_ERROR: Final = 2  # Severity.ERROR as run.json has it; such a verdict ends the run, and is told with the end
_EVENTS: Final = {0: "end", 1: "end", 4: "guard", 5: "budget", 75: "end"}
_WORDS: Final = {
    0: "has ended",
    1: "has ended",
    4: "was stopped by a guard",
    5: "has reached its cap",
    75: "was saved",
}


class Messenger:
    """Looks at a run directory now and then while a launcher waits; use it in a `with` block.

    Args:
        run_dir: the run.
        project: its budget, and who is told.
        draws: each message brings the loss as it is then.
    """

    def __init__(self, run_dir: Path, project: Project, *, draws: bool = True) -> None:
        self._run_dir = run_dir
        self._project = project
        self._notifier = Notifier(project.notify)
        self._draws = draws
        self._told: set[tuple[str, str, str]] = set()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Messenger:
        record = self._record()
        self._told = {_key(verdict) for verdict in _verdicts(record)}  # by the attempts before this one
        if self._notifier.urls or self._project.budget.limits:
            self._thread = threading.Thread(target=self._watch, name="hemostat-messenger", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        for fault in self._notifier.faults():  # now, not when it is too late
            print(f"note: {fault}", file=sys.stderr, flush=True)
        since_budget_s = BUDGET_S
        while True:
            if since_budget_s >= BUDGET_S:
                self._look_at_budget()
                since_budget_s = 0.0
            if self._end.wait(LOOK_S):
                return
            since_budget_s += LOOK_S
            self._look_at_verdicts()

    def ended(self, status: int) -> None:
        """Tell how the run ended, after everything else that there is to tell.

        Args:
            status: what the launcher returns.
        """
        if self._thread is None or status == 2 or not self._run_dir.is_dir():  # a typing error is no news
            return
        self._look_at_verdicts()
        self._look_at_budget()
        record = self._record()
        if record is None:
            return
        said = record.exit[1] if record.exit else ""
        self._tell(
            Message(
                event=_EVENTS.get(status, "crash"),
                title=f"hemostat: run {record.id} {_words(record, status)}",
                sentence=_sentence(record.summary, said),
                command=self._way_on(record, status),
            )
        )

    def _look_at_verdicts(self) -> None:
        for verdict in _verdicts(self._record()):
            if _key(verdict) in self._told or verdict.get("severity") == _ERROR:
                continue
            self._told.add(_key(verdict))
            self._tell(
                Message(
                    event="guard",
                    title=f"hemostat: {verdict.get('code')} in run {self._run_dir.name}",
                    sentence=f"{verdict.get('message', '')} {verdict.get('fix', '')}".strip(),
                    command=self._way_to_stop(),
                )
            )

    def _look_at_budget(self) -> None:
        try:
            sentences = new_budget_lines(self._project, self._run_dir.parent)
        except (HemostatError, OSError) as error:
            sentences = []
            print(f"note: the budget could not be read: {error}", file=sys.stderr)
        for sentence in sentences:
            print(f"note: {sentence}", file=sys.stderr)
            title = "hemostat: the project's budget"
            stop = f"look: hemostat runs budget\n{self._way_to_stop()}"
            self._tell(Message(event="budget", title=title, sentence=sentence, command=stop))

    def _record(self) -> RunRecord | None:
        try:
            return load_run(self._run_dir.parent, self._run_dir.name)
        except HemostatError:  # the run is gone, or run.json is: nothing to tell
            return None

    def _tell(self, message: Message) -> None:
        if self._notifier.wants(message.event):
            message = msgspec.structs.replace(message, picture=self._picture())
        for trouble in self._notifier.send(message):
            print(f"note: {trouble}", file=sys.stderr, flush=True)

    def _picture(self) -> Path | None:
        """The loss as it is now; None without one, and where it cannot be drawn."""
        record = self._record()
        if record is None or not self._draws:
            return None
        try:
            return draw_loss(record)
        except (MissingExtraError, RecordError):  # the news are worth more than the picture
            return None

    def _way_to_stop(self) -> str:
        return f"save and stop: kill -TERM {os.getpid()}  (on {platform.node()})"

    def _way_on(self, record: RunRecord, status: int) -> str:
        look = f"look: {record.command('runs show')}"
        if status in (0, 1) and record.state != "paused":
            return look
        if Checkpoints(record.path).published():
            return f"go on: {record.command('train --resume')}\n{look}"
        return f"nothing was saved; start again: {_command(record)}\n{look}"


def _words(record: RunRecord, status: int) -> str:
    return "was paused" if record.state == "paused" else _WORDS.get(status, "has crashed")


def _verdicts(record: RunRecord | None) -> list[dict[str, Any]]:
    found = record.headline.get("verdicts") if record else None
    return found if isinstance(found, list) else []


def _key(verdict: dict[str, Any]) -> tuple[str, str, str]:
    """A verdict that is found again after a resume is the same one."""
    return str(verdict.get("code")), str(verdict.get("where")), str(verdict.get("message"))


def _sentence(summary: dict[str, Any], said: str) -> str:
    why = said or str(summary.get("reason", "it ended"))
    best = summary.get("best")
    if isinstance(best, int | float):
        why += f" Best {summary.get('monitor')} {best:.4g} at step {summary.get('best_step')}."
    return why


def _command(record: RunRecord) -> str:
    words = record.headline.get("command", [])
    return " ".join(map(str, words)) if isinstance(words, list) else str(words)
