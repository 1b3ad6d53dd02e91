"""What runs in the keeper process of a job apart: `python -m hemostat.launch.keeper BACKEND`, the job on its stdin."""

# The job gets a main thread of its own: signals need one (relay.py), and Linux ties the ranks' lives to the thread
# that forked them (leash.py). A thread of the controller would be neither.

from __future__ import annotations

import contextlib
import sys
from typing import Any

import msgspec

from hemostat.errors import HemostatError, RecordError
from hemostat.launch.backends import backend
from hemostat.launch.job import Job
from hemostat.track import write_exit


def keep(name: str, text: bytes) -> int:
    """Run a job and wait for it.

    Args:
        name: of the backend.
        text: the job as JSON.

    Returns:
        The exit status of the run; what stops it before its first rank stands in its exit file.
    """
    job = msgspec.json.decode(text, type=Job, dec_hook=_path)
    try:
        return backend(name).run(job)
    except HemostatError as error:
        sys.stderr.write(f"error: {error}\n")
        with contextlib.suppress(RecordError):
            write_exit(job.run_dir, 0, error.exit_status, str(error))
        return error.exit_status


def _path(kind: type, value: Any) -> Any:
    return kind(value)


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1], sys.stdin.buffer.read()))
