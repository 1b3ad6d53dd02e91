"""`Claim`: one process at a time runs a run, by a lock in its directory that ends with whoever holds it."""

from __future__ import annotations

import contextlib
import fcntl
from pathlib import Path
from types import TracebackType

from hemostat.disk import recording
from hemostat.errors import RecordError

_FILE = "run.lock"


class Claim:
    """Holds a run until it is closed, or until this process and those that inherit the file have ended.

    Args:
        run_dir: the run directory.

    Raises:
        RecordError: another process is running it, or the folder cannot be written.
    """

    def __init__(self, run_dir: Path) -> None:
        with recording(run_dir):
            self._file = (run_dir / _FILE).open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise RecordError(
                f"run_dir={str(run_dir)!r}: another process is running this run. Wait for it, or stop it first."
            ) from None
        except OSError:
            pass  # some network volumes have no locks

    def fileno(self) -> int:
        """The descriptor, for a child that is to hold the run too."""
        return self._file.fileno()

    def close(self) -> None:
        """Give the run free, whoever has inherited the file; a second call does nothing."""
        if not self._file.closed:
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
