"""Digests of files that were read before: a sqlite cache that may be deleted, garbled or shared at any time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from types import TracebackType

FILE = "digests.sqlite"
_VERSION = 1
_TOGETHER = 256
# a file that was written so lately may be written again without a change of its time (as git's index has it)
_SETTLED_NS = 2_000_000_000


class DigestCache:
    """Digests by (path, size, mtime_ns, inode), so that an unchanged file is not read a second time.

    Nothing here ever fails: a cache that is garbled is built again, one that is locked, read-only or on a full disk
    is done without. Use it in one thread, as a context.

    Args:
        path: the sqlite file; None keeps it in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._fresh: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._table: sqlite3.Connection | None = None

    def __enter__(self) -> DigestCache:
        self._table = self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write()
        if self._table is not None:
            self._table.close()

    def get(self, path: Path, level: str, stat: os.stat_result) -> bytes | None:
        """The digest of a file that still has this size, time and inode."""
        key, stamp = (str(path), level), _stamp(stat)
        if key in self._fresh:
            known, digest = self._fresh[key]
            return digest if known == stamp else None
        row = None
        if self._table is not None:
            try:
                found = self._table.execute(
                    "SELECT digest FROM digests WHERE path = ? AND level = ? AND stamp = ?", (*key, stamp)
                )
                row = found.fetchone()
            except sqlite3.OperationalError:  # locked: read the file then
                pass
            except sqlite3.DatabaseError:
                self._table.close()
                self._forget()
                self._table = self._open()
        return row[0] if row is not None and isinstance(row[0], bytes) else None

    def put(self, path: Path, level: str, stat: os.stat_result, digest: bytes) -> None:
        """Keep the digest of a file that had this stat before and after it was read."""
        if abs(time.time_ns() - stat.st_mtime_ns) < _SETTLED_NS:
            return
        self._fresh[str(path), level] = (_stamp(stat), digest)
        if len(self._fresh) >= _TOGETHER:
            self._write()

    def _write(self) -> None:
        """In one short transaction: nobody waits while a file is read."""
        rows = [(*key, *value) for key, value in self._fresh.items()]
        self._fresh.clear()
        if self._table is None or not rows:
            return
        with contextlib.suppress(sqlite3.Error), self._table:
            self._table.executemany("REPLACE INTO digests VALUES (?, ?, ?, ?)", rows)

    def _open(self) -> sqlite3.Connection | None:
        for _ in range(2):
            table = None
            try:
                if self._path is not None:
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                table = sqlite3.connect(self._path or ":memory:", timeout=2.0)
                if table.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                    table.execute("DROP TABLE IF EXISTS digests")
                table.execute(
                    "CREATE TABLE IF NOT EXISTS digests "
                    "(path TEXT, level TEXT, stamp TEXT, digest BLOB, PRIMARY KEY (path, level))"
                )
                table.execute("SELECT path, level, stamp, digest FROM digests LIMIT 1").fetchone()
                table.execute(f"PRAGMA user_version = {_VERSION}")
                return table
            except (sqlite3.DatabaseError, OSError) as error:
                if table is not None:
                    table.close()
                if isinstance(error, sqlite3.OperationalError | OSError):  # locked, read-only, full
                    return None
                self._forget()
        return None

    def _forget(self) -> None:
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


def _stamp(stat: os.stat_result) -> str:
    return f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ino}"
