"""`Apart`: a job in a keeper process of its own, so that whoever starts it need not wait; it prints into a file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from hemostat.disk import recording
from hemostat.launch.backend import Backend, check
from hemostat.launch.job import Job

OUTPUT = "output.log"
_LEASH = Path(__file__).parent / "leash.py"


class Apart:
    """A job that runs beside this process and ends with it.

    What the ranks print is added to `output.log` in the run directory. When this process is killed, Linux kills the
    keeper and all ranks; it must be started from a thread that lives as long as the job.

    Args:
        place: backend whose `run` the keeper calls.
        job: what is to be run.

    Raises:
        UsageError: the job asks for something that the backend cannot do.
        RecordError: the run directory cannot be written.
    """

    def __init__(self, place: Backend, job: Job) -> None:
        check(place, job)
        with recording(job.run_dir):
            job.run_dir.mkdir(parents=True, exist_ok=True)
            output = (job.run_dir / OUTPUT).open("ab")
        keeper = (sys.executable, "-m", "hemostat.launch.keeper", place.name)
        with output:
            self._keeper = subprocess.Popen(
                (sys.executable, "-I", "-S", str(_LEASH), "alone", *keeper),
                env={**os.environ, "HEMOSTAT_PARENT_PID": str(os.getpid())},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in a terminal is for the controller, which ends its jobs in order
            )
        if self._keeper.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self._keeper.stdin as pipe:
                pipe.write(
                    msgspec.json.encode(job, enc_hook=str)
                )  # not argv: a job's variables may hold secrets

    def poll(self) -> int | None:
        """The exit status of the run; None while it runs. A keeper that was killed counts as a failure, 3."""
        code = self._keeper.poll()
        return code if code is None or code >= 0 else 3

    def end(self, *, now: bool = False) -> None:
        """Ask the ranks to save and leave, or kill them; `poll` tells when they have ended.

        Args:
            now: do not ask.
        """
        with contextlib.suppress(ProcessLookupError):
            self._keeper.send_signal(signal.SIGKILL if now else signal.SIGTERM)
