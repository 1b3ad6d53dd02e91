"""`Checkpoints`: the checkpoint folders of a run, published whole or not at all, verified, pointed to, rotated."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from hemostat.disk import give_name, recording
from hemostat.errors import RecordError
from hemostat.track.files import read_json, write_json

CHECKPOINT_FORMAT = 1
MANIFEST = "manifest.json"
BEST = "best.json"
_BLOCK_BYTES = 1 << 20


class CheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a checkpoint as it was when it was written."""

    num_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole checkpoint says of itself; written last, before the folder gets its name.

    Attributes:
        format: of the folder; a newer one is refused.
        step: windows that were consumed, skipped ones included.
        samples: consumed by all ranks.
        num_ranks: that wrote it.
        files: name to size and digest.
        hemostat: version that wrote it.
    """

    format: int
    hemostat: str
    step: int
    samples: int
    num_ranks: int
    files: dict[str, CheckpointFile]


def digest_file(path: Path) -> CheckpointFile:
    """Size and sha256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    digest, num_bytes = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            num_bytes += len(block)
    return CheckpointFile(num_bytes=num_bytes, sha256=digest.hexdigest())


class Checkpoints:
    """The checkpoints of one run, as folders `checkpoints/step-<number>` with a manifest of digests in each.

    Args:
        run_dir: the run directory.

    Attributes:
        root: the folder of all checkpoints.

    Examples:
        >>> import pathlib, tempfile
        >>> checkpoints = Checkpoints(pathlib.Path(tempfile.mkdtemp()))
        >>> half = checkpoints.begin(step=7)
        >>> _ = (half / "weights").write_bytes(b"abc")
        >>> files = checkpoints.describe(half, ["weights"])
        >>> checkpoints.publish(half, step=7, samples=224, num_ranks=1, files=files).name
        'step-000000007'
        >>> checkpoints.last_whole()[0].name
        'step-000000007'
    """

    def __init__(self, run_dir: Path) -> None:
        self.root = run_dir / "checkpoints"

    def path(self, step: int) -> Path:
        """The folder of the checkpoint at a step, there or not."""
        return self.root / f"step-{step:09d}"

    def published(self) -> list[Path]:
        """All that were published, oldest step first."""
        return sorted(path for path in self.root.glob("step-*") if path.is_dir())

    def temporary(self, step: int) -> Path:
        """Where a checkpoint is written before it is published."""
        return self.root / f".step-{step:09d}.tmp"

    def begin(self, step: int) -> Path:
        """Make an empty temporary folder; what an earlier attempt left there is removed.

        Raises:
            RecordError: the disk refuses.
        """
        temporary = self.temporary(step)
        with recording(temporary):
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
        return temporary

    def describe(self, temporary: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Size and digest of files in a temporary folder, as plain values that a rank can send to another.

        Raises:
            RecordError: one cannot be read.
        """
        with recording(temporary):
            return {name: msgspec.to_builtins(digest_file(temporary / name)) for name in names}

    def publish(
        self, temporary: Path, *, step: int, samples: int, num_ranks: int, files: dict[str, dict[str, Any]]
    ) -> Path:
        """Give a finished temporary folder its name; nobody sees it before, and it is whole after.

        Args:
            temporary: from `begin`, with every file in it.
            step: windows that were consumed.
            samples: consumed by all ranks.
            num_ranks: that wrote it.
            files: from `describe`, of all ranks.

        Raises:
            RecordError: the disk refuses; what was published before is untouched.
        """
        final = self.path(step)
        manifest = {
            "format": CHECKPOINT_FORMAT,
            "hemostat": version("hemostat"),
            "step": step,
            "samples": samples,
        }
        write_json(temporary / MANIFEST, {**manifest, "num_ranks": num_ranks, "files": files})
        with recording(final):
            if final.exists():  # the same step again, after a resume
                shutil.rmtree(final)
            give_name(temporary, final)
        return final

    def manifest(self, path: Path) -> Manifest:
        """What a published checkpoint says of itself.

        Raises:
            RecordError: nothing, nonsense, or it is of a newer format.
        """
        return read_manifest(path)

    def trouble(self, path: Path) -> str:
        """What is wrong with a published checkpoint, naming the file; empty when every byte is as it was written."""
        return checkpoint_trouble(path)

    def last_whole(self) -> tuple[Path | None, list[str]]:
        """The newest checkpoint whose bytes are all as written, and what is wrong with each newer one."""
        troubles: list[str] = []
        for path in reversed(self.published()):
            trouble = checkpoint_trouble(path)
            if not trouble:
                return path, troubles
            troubles.append(f"{path.name}: {trouble}")
        return None, troubles

    def mark_best(self, path: Path) -> None:
        """Point to the checkpoint with the best metric; rotation keeps it.

        Raises:
            RecordError: the disk refuses.
        """
        write_json(self.root / BEST, {"checkpoint": path.name})

    def best(self) -> Path | None:
        """The checkpoint that `mark_best` named, if it is there.

        Raises:
            RecordError: its pointer is garbled.
        """
        try:
            name = read_json(self.root / BEST).get("checkpoint")
        except FileNotFoundError:
            return None
        except RecordError as error:
            raise RecordError(f"{BEST} is garbled: {error}") from None
        if not isinstance(name, str):
            raise RecordError(f"{BEST} is garbled: {str(self.root / BEST)!r} names no checkpoint.")
        return next((path for path in self.published() if path.name == name), None)

    def rotate(self, keep: int) -> None:
        """Remove all but the newest `keep` and the best, and what unfinished saves left.

        Nothing is removed unless the newest one is whole: an older one may be the only way back. Nor where it is not
        known which one is the best.
        """
        published = self.published()
        if not published or checkpoint_trouble(published[-1]):
            return
        try:
            kept = {*published[-keep:], self.best()}
        except RecordError:
            return
        gone = [path for path in published if path not in kept]
        for path in [*self.root.glob(".step-*.tmp"), *gone]:
            shutil.rmtree(path, ignore_errors=True)


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises:
        RecordError: there is none, it is garbled, or it is of a newer format.
    """
    try:
        manifest = msgspec.convert(read_json(path / MANIFEST), Manifest)
    except FileNotFoundError:
        raise RecordError(f"{path} has no {MANIFEST}: it is no whole checkpoint.") from None
    except msgspec.ValidationError as error:
        raise RecordError(f"{path / MANIFEST} is garbled: {error}.") from None
    if manifest.format > CHECKPOINT_FORMAT:
        raise RecordError(
            f"{path} is of checkpoint format {manifest.format}; this hemostat reads up to {CHECKPOINT_FORMAT}. "
            f"It was made with hemostat {manifest.hemostat}. Update this one."
        )
    return manifest


def checkpoint_trouble(path: Path) -> str:
    """What is wrong with a checkpoint, naming the file; empty when every byte is as it was written."""
    try:
        manifest = read_manifest(path)
    except RecordError as error:
        return str(error)
    for name, then in sorted(manifest.files.items()):
        try:
            now = digest_file(path / name)
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror or error}"
        if now.num_bytes != then.num_bytes:
            return f"{name} has {now.num_bytes:,} bytes instead of {then.num_bytes:,}"
        if now.sha256 != then.sha256:
            return f"{name} is damaged: its digest differs"
    return ""
