"""How a job ended: the ranks' own answer, or one line about the rank that could not give one."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from hemostat.errors import Interrupted, RecordError
from hemostat.launch.agentlog import Failure, ending, failures
from hemostat.launch.job import Job
from hemostat.track import RunRecord, write_exit

LOG = "launcher.log"
# answers that the ranks gave together on purpose; a rank that dies meanwhile does not change them
_DECIDED = (2, 4, 5, 75)
FAILED = 3
# a rank's own word about its failure
_TOLD = (1, FAILED)
_ABOVE = "what it said stands above"


class Seen(NamedTuple):
    """What the launcher saw while a job ran.

    Attributes:
        received: signals that were passed on.
        hung: rank and sentence of a rank that was killed because it hung; that was said already.
        stepped: a rank has taken a step, as far as is known.
    """

    received: Sequence[signal.Signals] = ()
    hung: tuple[int, str] | None = None
    stepped: bool = True


def verdict(job: Job, code: int, seen: Seen) -> int:
    """Find the exit status of a job, and leave an exit file where the ranks left none.

    A rank that was killed wrote nothing, and the others write that they lost it. So the launcher writes in its
    place, with the status that a shell would show (128 + signal), and says it on stderr.

    Args:
        job: what was run.
        code: how the direct child ended, negative for a signal.
        seen: meanwhile.

    Returns:
        0, what the ranks decided, or 3; 75 after a signal before the first step, since nothing was lost.
    """
    written = RunRecord(job.run_dir).exit
    if code == 0:
        if written is None:
            _write(job, 0, 0, "")
        return 0
    if written is not None and written[0] in _DECIDED:
        return written[0]
    if seen.hung is not None:
        _write(job, seen.hung[0], 128 + signal.SIGKILL, seen.hung[1])
        return 3
    if seen.received:
        name = seen.received[0].name
        if not seen.stepped:
            _write(job, 0, Interrupted.exit_status, f"{name} before the first step; nothing was lost")
            return Interrupted.exit_status
        how = "killed after a second signal" if len(seen.received) > 1 else f"ended by {name}"
        return _blame(
            job, [Failure(rank=0, code=-seen.received[0])], f"{how}; nothing says that the run was saved"
        )
    failed = failures(job.run_dir / LOG) if job.num_ranks > 1 else [Failure(rank=0, code=code)]
    dead = [failure for failure in failed if failure.code < 0]
    if dead:
        return _blame(job, dead, _sentence(dead) + _hint(dead))
    if written is not None and written[0] in _TOLD:
        return written[0]
    if failed:
        return _blame(job, failed, f"{_sentence(failed)}; {_ABOVE}")
    said = f"torch's launcher {ending(code)}; its own words are in {job.run_dir / LOG}"
    return _blame(job, [Failure(rank=0, code=code)], said)


def tell_restart(record: RunRecord, number: int, most: int) -> None:
    """Say why all ranks start again, and keep it; the exit files of the attempt are removed.

    Args:
        record: of the run.
        number: of the restart.
        most: restarts that are allowed.
    """
    status, why = RunRecord(record.path).exit or (FAILED, "")
    if status in _TOLD and why and _ABOVE not in why:  # else it was said already
        sys.stderr.write(f"error: {why}\n")
    sys.stderr.write(f"note: all ranks start again ({number} of {most})\n")
    sys.stderr.flush()
    with contextlib.suppress(RecordError):
        record.note_restart(why)


def _blame(job: Job, culprits: Sequence[Failure], sentence: str) -> int:
    for culprit in culprits:
        status = culprit.code if culprit.code > 0 else 128 - culprit.code
        _write(job, culprit.rank, status, sentence)
    sys.stderr.write(f"error: {sentence}.\n")
    sys.stderr.flush()
    return 3


def _write(job: Job, rank: int, status: int, why: str) -> None:
    # the verdict stands without its file, for instance on a full disk
    with contextlib.suppress(RecordError):
        write_exit(job.run_dir, rank, status, why)


def _sentence(culprits: Sequence[Failure]) -> str:
    return "; ".join(culprit.sentence() for culprit in culprits)


def _hint(dead: Sequence[Failure]) -> str:
    if any(failure.code == -signal.SIGKILL for failure in dead):
        return " (when nobody did that, the machine ran out of memory)"
    return ""
