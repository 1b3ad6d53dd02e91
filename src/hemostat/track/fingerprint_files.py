"""Fingerprints that a run keeps: `data.<tier>.json`, the digest of each file, so that a changed one can be named."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hemostat.errors import RecordError
from hemostat.track.files import read_json, write_json
from hemostat.track.fingerprint import Fingerprint

MAX_FILES = 20_000  # about 2 MB a level; beyond, only the digest of all is kept
_KEPT_LETTERS = 32


def write_fingerprint(run_dir: Path, found: Fingerprint) -> None:
    """Keep a fingerprint of one level; digests of single files are cut to 128 bits.

    Raises:
        RecordError: the folder cannot be written.
    """
    files = {name: (size, digest[:_KEPT_LETTERS]) for name, (size, digest) in found.files.items()}
    kept = files if len(files) <= MAX_FILES else {}
    write_json(run_dir / f"data.{found.tier}.json", msgspec.structs.replace(found, files=kept))


def read_fingerprint(run_dir: Path, tier: str) -> Fingerprint | None:
    """The fingerprint of one level, its files' digests as `write_fingerprint` cut them; None without a legible one."""
    try:
        return msgspec.convert(read_json(run_dir / f"data.{tier}.json"), Fingerprint)
    except (FileNotFoundError, RecordError, msgspec.ValidationError):
        return None
