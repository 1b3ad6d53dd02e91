"""RunRecord: one run, read from its directory; big parts are read when asked for."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from hemostat.errors import RecordError
from hemostat.track.attempts import median_step_s, seconds_after
from hemostat.track.beats import Beat, Lookout, forget_beats, this_host, write_beat
from hemostat.track.claim import Claim
from hemostat.track.control import write_control
from hemostat.track.deadline import Deadline, forget_deadline, read_deadline, write_deadline
from hemostat.track.evaluations import evaluation_dir, read_evaluations, write_evaluation
from hemostat.track.exits import read_exit
from hemostat.track.files import read_json
from hemostat.track.fingerprint import Fingerprint
from hemostat.track.fingerprint_files import read_fingerprint, write_fingerprint
from hemostat.track.given import FILE as GIVEN_FILE
from hemostat.track.given import Given, given_text, read_given, write_private
from hemostat.track.metrics import last_position, metric_files, metric_names, read_metric
from hemostat.track.run import update_run
from hemostat.track.samples import Sample, read_samples, write_sample

# a run that has written nothing for this long is not called running any more
_SILENT_S = 120.0


class RunRecord:
    """One run.

    Attributes:
        id: the run id, also the folder's name.
        path: the run directory.
        headline: run.json without its bulky parts (diff, environment, packages, recipe).
        error: why run.json could not be read; empty when it could.
    """

    def __init__(self, path: Path, headline: Mapping[str, Any] | None = None, error: str = "") -> None:
        self.id = path.name
        self.path = path
        self.headline = dict(headline or {})
        self.error = error

    def __repr__(self) -> str:
        return f"RunRecord({self.id!r}, state={self.state!r})"

    @cached_property
    def header(self) -> dict[str, Any]:
        """All of run.json.

        Raises:
            RecordError: it is absent or garbled.
        """
        try:
            return read_json(self.path / "run.json")
        except FileNotFoundError:
            raise RecordError(f"record={str(self.path)!r}: has no run.json. The run left none.") from None

    @property
    def created(self) -> float:
        """When the run was made, in seconds since 1970; 0 when unknown."""
        value = self.headline.get("created", 0.0)
        return float(value) if isinstance(value, int | float) else 0.0

    @property
    def summary(self) -> dict[str, Any]:
        """What the run says about its end (`update_run(path, summary={...})`); empty before."""
        value = self.headline.get("summary")
        return value if isinstance(value, dict) else {}

    @cached_property
    def exit(self) -> tuple[int, str] | None:
        """(status, why) of the run's end; None when no rank has written one."""
        return read_exit(self.path)

    @property
    def state(self) -> str:
        """One word.

        That is done, left (by its own loop), paused, failed, usage, guard, budget, saved, running, lost or unreadable.
        """
        if self.error:
            return "unreadable"
        if self.exit is None:
            # a script of the user's own may say how it went without a rank's exit file
            return "running" if self.silent_s < _SILENT_S else "done" if self.summary else "lost"
        if self.exit[0] == 0 and self.summary.get("status") in ("left", "paused"):
            return str(self.summary["status"])
        names = {0: "done", 1: "done", 2: "usage", 4: "guard", 5: "budget", 75: "saved"}
        return names.get(self.exit[0], "failed")

    @property
    def silent_s(self) -> float:
        """Seconds since anything was written in the run directory."""
        try:
            stamps = [item.stat().st_mtime for item in (self.path, *metric_files(self.path))]
        except OSError:
            return float("inf")
        return time.time() - max(stamps)

    def command(self, verb: str) -> str:
        """The command line that does something with this run, as it works in the working directory.

        Args:
            verb: what stands before the id, such as "train --resume".

        Examples:
            >>> RunRecord(Path(".hemostat/runs/a-run")).command("train --resume")
            'hemostat train --resume a-run'
            >>> RunRecord(Path("/our runs/a-run")).command("runs show")
            "hemostat runs show a-run --runs '/our runs'"
        """
        root, here = self.path.parent.resolve(), Path.cwd()
        if root == here / ".hemostat" / "runs":
            return f"hemostat {verb} {self.id}"
        told = root.relative_to(here) if root.is_relative_to(here) else root
        return f"hemostat {verb} {self.id} --runs {shlex.quote(str(told))}"

    @property
    def position(self) -> tuple[int, int] | None:
        """Last recorded (step, samples)."""
        return last_position(self.path)

    @property
    def step_s(self) -> float | None:
        """Median seconds of an optimizer step; None for fewer than three."""
        return median_step_s(self.path)

    def note_restart(self, why: str) -> None:
        """Keep why all ranks had to start again; a run that nobody described has no place for it.

        Raises:
            RecordError: run.json cannot be written.
        """
        if (self.path / "run.json").exists():
            told = read_json(self.path / "run.json").get("restarts", [])
            update_run(self.path, restarts=[*told, {"time": time.time(), "why": why}])

    def seconds_after(self, samples: int | None) -> float:
        """Seconds that were spent after a checkpoint at `samples`, in all attempts since, without the pauses.

        None means that there is no checkpoint: all of them.
        """
        return seconds_after(self.path, samples)

    def metrics(self, name: str) -> list[tuple[int, int, float]]:
        """Read one metric as (step, samples, value), merged over ranks, in order of samples."""
        return read_metric(self.path, name)

    def metric_names(self) -> list[str]:
        """List the metrics that any rank wrote."""
        return metric_names(self.path)

    def ask(self, action: str, at_samples: int | None = None, why: str = "") -> None:
        """Ask the run to go on, pause or stop (control.json); see `hemostat.track.control`."""
        write_control(self.path, action, at_samples, why)

    def given(self) -> Given:
        """The task, the ranks and the settings that the run was started with.

        Raises:
            RecordError: nobody wrote them down.
        """
        return read_given(self.path)

    @staticmethod
    def given_file(task: str, num_ranks: int, values: dict[str, Any]) -> tuple[str, str]:
        """Name and text of the file that `given` reads; `keep` writes it once the run is claimed."""
        return GIVEN_FILE, given_text(Given(task=task, num_ranks=num_ranks, values=values))

    def keep(self, name: str, text: str) -> None:
        """Write a file into the run directory that only its owner can read."""
        write_private(self.path / name, text)

    def claim(self) -> Claim:
        """Lock the run for this process until what comes back is closed.

        Raises:
            RecordError: another process is running it.
        """
        return Claim(self.path)

    def beat(self, rank: int, **fields: Any) -> None:
        """Say what a rank of this machine is doing now, by the fields of `Beat`."""
        write_beat(self.path, Beat(rank=rank, **{"host": this_host(), **fields}))

    def forget_beats(self, rank: int | None = None) -> None:
        """A rank has left; None means that all have."""
        forget_beats(self.path, rank)

    def lookout(self, *, late: bool = False) -> Lookout:
        """A watcher that tells which rank keeps the others waiting.

        Args:
            late: it has not watched so far, and must believe the times in the beats.
        """
        return Lookout(self.path, late=late)

    def set_deadline(self, at_s: float, cap: str) -> None:
        """Say when a cap is reached, on the clock of `time.monotonic`."""
        write_deadline(self.path, Deadline(at_s=at_s, cap=cap))

    def deadline(self) -> Deadline | None:
        """When a cap is reached; None without one."""
        return read_deadline(self.path)

    def forget_deadline(self) -> None:
        """The launch that said it is over."""
        forget_deadline(self.path)

    def samples(self) -> list[Sample]:
        """What the task's `show()` returned at each evaluation, in order of steps."""
        return read_samples(self.path)

    def add_sample(self, step: int, name: str, content: str | bytes) -> None:
        """Keep text, or the bytes of a PNG, that shows how the model does at a step."""
        write_sample(self.path, step, name, content)

    def fingerprint(self, tier: str) -> Fingerprint | None:
        """The fingerprint of the training data at one level, with each file's; None where it was not reached."""
        return read_fingerprint(self.path, tier)

    def add_fingerprint(self, found: Fingerprint) -> None:
        """Keep a fingerprint of the training data beside those of other levels."""
        write_fingerprint(self.path, found)

    def evaluations(self) -> list[dict[str, Any]]:
        """What `hemostat evaluate` found, oldest first: split, checkpoint, figures with standard errors."""
        return read_evaluations(self.path)

    def evaluation_dir(self, evaluation_id: str) -> Path:
        """The folder of one evaluation; what its processes say of their end is there too."""
        return evaluation_dir(self.path, evaluation_id)

    def add_evaluation(self, evaluation_id: str, fields: Mapping[str, Any]) -> None:
        """Record an evaluation under an id from `new_run_id`."""
        write_evaluation(self.path, evaluation_id, fields)
