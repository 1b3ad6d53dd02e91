"""TrialJobs: what a trial runs, for a task and for any script, from its order to a job of a launch backend."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hemostat.errors import FieldError, UnknownNameError
from hemostat.launch import Job
from hemostat.track import RunRecord
from hemostat.tune.trial import Configuration
from hemostat.tune.workers import Order

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.]*)\}")
_FREE = ("seed", "run_dir")  # a script may use them; no space has them


class TrialJobs(Protocol):
    """What a study's trials run.

    Attributes:
        can_pause: they leave with a checkpoint when control.json asks for it, and go on from it.
        metric: name of the objective, in their records or in what they print.
    """

    can_pause: bool
    metric: str

    def job(self, order: Order, run_dir: Path, *, resumes: bool) -> Job:
        """The job of one stretch.

        Args:
            order: what is to be done.
            run_dir: of the trial.
            resumes: there is a checkpoint to go on from.
        """
        ...

    def pause_at(self, order: Order) -> int:
        """The run's own position at which it has done its order."""
        ...


class TaskJobs:
    """Trials of a task file, each of them what `hemostat train` runs.

    Args:
        task: "file.py:Class".
        num_ranks: processes of one trial.
        metric: name of the objective.
        values_of: settings of a configuration, all others included.
        rhythm_of: samples of a step, and steps between two evaluations, of a configuration.
    """

    can_pause = True

    def __init__(
        self,
        task: str,
        num_ranks: int,
        metric: str,
        values_of: Callable[[Configuration], Mapping[str, Any]],
        rhythm_of: Callable[[Configuration], tuple[int, int]],
    ) -> None:
        self.metric = metric
        self._task, self._num_ranks = task, num_ranks
        self._values_of, self._rhythm_of = values_of, rhythm_of

    def job(self, order: Order, run_dir: Path, *, resumes: bool) -> Job:
        """See `TrialJobs.job`."""
        values = dict(self._values_of(order.config))
        engine = {**values.get("train", {}), "seed": order.seed}
        values["train"] = {**engine, "resume": run_dir.name} if resumes else engine
        given, text = RunRecord.given_file(self._task, self._num_ranks, values)
        return Job(
            command=(sys.executable, "-m", "hemostat", "train", self._task, "--config", str(run_dir / given)),
            num_ranks=self._num_ranks,
            run_id=run_dir.name,
            run_dir=run_dir,
            files={given: text},
            records=True,
        )

    def pause_at(self, order: Order) -> int:
        """The first position that only the step of the nearest evaluation reaches; see `positions.on_scale`."""
        global_batch, eval_steps = self._rhythm_of(order.config)
        num_evals = max(1, round(order.until / (global_batch * eval_steps)))
        return (num_evals * eval_steps - 1) * global_batch + 1


class ScriptJobs:
    """Trials of any command line, with `{name}` where a parameter's value goes.

    `{seed}` and `{run_dir}` are filled in too. Where a parameter does not exist in a configuration, its word is left
    out, and the flag before it.

    Args:
        words: of the command, program first.
        names: of the space's parameters.
        num_ranks: processes of one trial.
        metric: name of the objective.
        can_pause: the script saves and leaves when `hemostat.track.control()` asks for it, and goes on by itself.
        own: what a configuration is by the names of the command.

    Raises:
        UnknownNameError: a placeholder that the space does not have.
        FieldError: no command; a parameter that the command does not use.
    """

    def __init__(
        self,
        words: Sequence[str],
        names: Iterable[str],
        num_ranks: int,
        metric: str,
        *,
        can_pause: bool,
        own: Callable[[Configuration], Configuration] = dict,
    ) -> None:
        self.metric, self.can_pause = metric, can_pause
        self._own = own
        self._words, self._num_ranks = tuple(words), num_ranks
        self._names = tuple(names)
        if not words:
            raise FieldError(
                "command", "", "is empty", "Write it after --, as in -- python train.py --lr {lr}."
            )
        used = {name for word in words for name in _PLACEHOLDER.findall(word)}
        for name in sorted(used - {*self._names, *_FREE}):
            raise UnknownNameError("placeholder", name, {*self._names, *_FREE})
        for name in self._names:
            if name not in used:
                fix = f"Write {{{name}}} where its value goes, or take it out of the space."
                raise FieldError("space", name, "is not used by the command", fix)

    def job(self, order: Order, run_dir: Path, *, resumes: bool) -> Job:
        """See `TrialJobs.job`; a script looks for its own checkpoint."""
        return Job(
            command=self.command(order, run_dir),
            num_ranks=self._num_ranks,
            run_id=run_dir.name,
            run_dir=run_dir,
        )

    def pause_at(self, order: Order) -> int:
        """Scripts count in the study's own unit."""
        return order.until

    def command(self, order: Order, run_dir: Path) -> tuple[str, ...]:
        """The words with their values."""
        values = {"seed": order.seed, "run_dir": run_dir, **self._own(order.config)}
        filled: list[str] = []
        for place, word in enumerate(self._words):
            if any(name not in values for name in _PLACEHOLDER.findall(word)):
                before = self._words[place - 1]
                if (
                    _PLACEHOLDER.fullmatch(word)
                    and before.startswith("-")
                    and not _PLACEHOLDER.search(before)
                ):
                    filled.pop()
                continue
            filled.append(_PLACEHOLDER.sub(lambda found: _text(values[found[1]]), word))
        return tuple(filled)


def _text(value: Any) -> str:
    """As a command line has it; `repr` of a float is the shortest text that gives it back."""
    return repr(value) if isinstance(value, float) else str(value)


def asks_control(words: Iterable[str]) -> bool:
    """Tell whether a command's own Python file takes part in control.json, by the call that stands in it.

    Examples:
        >>> asks_control(["python", "no-such-file.py"])
        False
    """
    for path in map(Path, words):
        if path.suffix == ".py" and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if "hemostat" in text and re.search(r"\bcontrol\(", text):
                return True
    return False
