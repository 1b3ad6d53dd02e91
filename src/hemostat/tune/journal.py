"""Journal: the append-only file that is all a study knows, its entries, and the lock of the one who writes it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec

from hemostat.disk import recording
from hemostat.errors import RecordError
from hemostat.tune.budget import Budget
from hemostat.tune.settings import Settings
from hemostat.tune.trial import Configuration, Outcome

FORMAT = 1
_NOT_FINITE = Literal["nan", "inf", "-inf"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """One line. Attributes: at_s: the study's clock."""

    at_s: float


class Began(Entry, frozen=True, kw_only=True, tag="study"):
    """The study; always the first line."""

    settings: Settings
    rungs: tuple[int, ...]
    format: int = FORMAT


class Ordered(Entry, frozen=True, kw_only=True, tag="order"):
    """A stretch was given to a worker. `config`, `origin` and `control` stand in the first one of a trial only."""

    trial: int
    start: int
    until: int
    config: Configuration | None = None
    origin: str = ""
    control: bool = False


class Measured(Entry, frozen=True, kw_only=True, tag="progress"):
    """A running trial was evaluated; JSON has no NaN, hence the words."""

    trial: int
    at: int
    value: float | _NOT_FINITE
    time_s: float


class Judged(Entry, frozen=True, kw_only=True, tag="verdict"):
    """A running trial may go on past a rung, is told to stop, or is ended at once."""

    trial: int
    verdict: Literal["go", "stop", "end"]
    why: str = ""


class Ended(Entry, frozen=True, kw_only=True, tag="end"):
    """A stretch ended."""

    trial: int
    outcome: Outcome
    time_s: float
    why: str = ""


class Extended(Entry, frozen=True, kw_only=True, tag="budget"):
    """The budget is another one from now on; a study that had ended goes on."""

    budget: Budget


class Finished(Entry, frozen=True, kw_only=True, tag="finish"):
    """The study starts nothing more."""

    reason: str


AnyEntry = Began | Ordered | Measured | Judged | Ended | Extended | Finished
_DECODER = msgspec.json.Decoder(AnyEntry)
_ENCODER = msgspec.json.Encoder()


def read_journal(path: Path) -> list[AnyEntry]:
    """Read a journal that somebody may be writing; a last line that is not whole yet is left out.

    Raises:
        RecordError: there is none, or a line before the last is not an entry.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[list[AnyEntry], int]:
    """The entries, and the length in bytes of the part of the file that holds them."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"journal={str(path)!r}: cannot be read, {error.strerror}. Check the path."
        ) from None
    entries: list[AnyEntry] = []
    num_bytes = 0
    lines = data.split(b"\n")[:-1]  # what follows the last newline was cut off in the middle of a write
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(_DECODER.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == len(lines):  # blocks of zeros after a power cut
                break
            fix = "Restore the file from a copy, or delete that line and all after it."
            raise RecordError(f"journal={str(path)!r}: line {number} is no entry ({error}). {fix}") from None
        num_bytes += len(line) + 1
    if entries and not isinstance(entries[0], Began):
        raise RecordError(f"journal={str(path)!r}: does not begin with a study. Check the path.")
    return entries, num_bytes


class Journal:
    """The entries of one study, on disk or in memory, held by one process at a time.

    Args:
        path: the file, made with its folder where it is absent; None keeps the entries in memory only.

    Raises:
        RecordError: another process holds it, which is named; it cannot be read or written.

    Examples:
        >>> journal = Journal(None)
        >>> journal.append(Finished(at_s=3.5, reason="enough"))
        >>> journal.entries[0].reason
        'enough'
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.entries: list[AnyEntry] = []
        self._file: int | None = None
        self._lock: int | None = None
        if path is None:
            return
        with recording(path.parent, "study"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._hold()
            num_bytes = 0
            if path.exists():
                self.entries, num_bytes = _read(path)
            with recording(path, "journal"):
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
                os.ftruncate(self._file, num_bytes)
        except BaseException:
            self.close()
            raise

    def append(self, entry: AnyEntry) -> None:
        """Write one entry; on return it survives a crash.

        Raises:
            RecordError: the disk refused.
        """
        if self.path is not None:
            if self._file is None:
                raise RecordError(f"journal={str(self.path)!r}: is closed. Open it again.")
            line = _ENCODER.encode(entry) + b"\n"
            with recording(self.path, "journal"):
                self._write(self._file, line)
        self.entries.append(entry)

    def close(self) -> None:
        """Give the study free; a second call does nothing."""
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def _write(file: int, line: bytes) -> None:
        """The whole line or nothing of it: what a full disk took of it would spoil the next one."""
        num_bytes = os.fstat(file).st_size
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, num_bytes)
            raise

    def _hold(self) -> None:
        lock = self._lock
        if lock is None or self.path is None:
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 200, 0).decode(errors="replace").strip() or "another process"
            raise RecordError(
                f"study={str(self.path.parent)!r}: {holder} is running it. Wait for it, or stop it first."
            ) from None
        except OSError:
            return  # some network volumes have no locks
        with contextlib.suppress(OSError):  # the name is a courtesy
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
