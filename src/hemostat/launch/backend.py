"""Backend: what every place that can run a job has in common."""

from __future__ import annotations

from typing import Protocol

from hemostat.errors import UsageError
from hemostat.launch.job import Job


class Started(Protocol):
    """A job that was started and is not waited for."""

    def poll(self) -> int | None:
        """The exit status of the run, as of `Backend.run`; None while it runs."""
        ...

    def end(self, *, now: bool = False) -> None:
        """Ask the ranks to save and leave, or with `now` kill them; `poll` tells when they have ended."""
        ...


class Backend(Protocol):
    """A place where jobs run.

    Attributes:
        name: what the user writes after `--on`.
        cannot: what it cannot do, out of "several ranks", "restarts" and "port"; checked before any start.
    """

    name: str
    cannot: frozenset[str]

    def run(self, job: Job) -> int:
        """Start the job's ranks, wait for all of them, and leave none behind.

        Returns:
            The exit status of the run: 0 clean, 1 findings, 2 usage, 3 failure, 4 guard, 5 budget, 75 saved.

        Raises:
            UsageError: the job asks for something in `cannot`.
            EnvironmentFailure: the machine refuses before anything has started.
        """
        ...

    def start(self, job: Job) -> Started:
        """Start the job's ranks and come back; what they print goes to `output.log` in the run directory.

        A job ends with the process that started it where the place can see to that.

        Raises:
            UsageError: the job asks for something in `cannot`.
            EnvironmentFailure: the run directory cannot be written; what comes later is in the status.
        """
        ...


def needs(job: Job) -> frozenset[str]:
    """Name what a job asks for beyond one process.

    Examples:
        >>> from pathlib import Path
        >>> sorted(needs(Job(command=("true",), num_ranks=2, run_id="r", run_dir=Path("r"), port=29500)))
        ['port', 'several ranks']
    """
    asked = {
        "several ranks": job.num_ranks > 1,
        "restarts": job.max_restarts > 0,
        "port": job.port is not None,
    }
    return frozenset(name for name, wanted in asked.items() if wanted)


def check(place: Backend, job: Job) -> None:
    """Refuse a job that a backend cannot run.

    Raises:
        UsageError: names what it cannot do.
    """
    refused = sorted(needs(job) & place.cannot)
    if refused:
        raise UsageError(
            f"backend={place.name!r}: cannot do {', '.join(refused)}. Drop that, or choose another backend."
        )
