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
        self._aside = self.root / ".aside"  # what is being replaced, until the new one has its name
        self._known: dict[Path, tuple[tuple[str, int, int], ...]] = {}

    def path(self, step: int) -> Path:
        """The folder of the checkpoint at a step, there or not."""
        return self.root / f"step-{step:09d}"

    def published(self) -> list[Path]:
        """All that were published, oldest step first; one that was set aside counts where a kill left no other."""
        named = {path.name: path for path in self.root.glob("step-*") if path.is_dir()}
        # looked at second: what is set aside meanwhile is found in one of the two places
        aside = {path.name: path for path in self._aside.glob("step-*")}
        found = aside | named
        return [found[name] for name in sorted(found)]

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
            self._put_back()
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
        aside = self._aside / final.name
        with recording(final):
            if final.exists():  # the same step again, after a resume
                self._aside.mkdir(exist_ok=True)
                final.rename(aside)
            try:
                give_name(temporary, final)
            except OSError:
                self._put_back()
                raise
            shutil.rmtree(self._aside, ignore_errors=True)
        return final

    def _put_back(self) -> None:
        """Give what a killed save has set aside its name again; only the writer of the run does this."""
        for path in self._aside.glob("step-*"):
            if not (self.root / path.name).exists():
                path.rename(self.root / path.name)
        shutil.rmtree(self._aside, ignore_errors=True)

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
        """The newest checkpoint whose bytes are all as written, and what is wrong with each newer one.

        Raises:
            RecordError: a newer hemostat wrote a checkpoint after it; to pass that over would undo its work unasked.
        """
        troubles: list[str] = []
        for path in reversed(self.published()):
            trouble = checkpoint_trouble(path, refuses_newer=True)
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
        """Remove what is older than the newest `keep` whole ones and not the best, and what unfinished saves left.

        Damaged ones do not count, and nothing is removed while the newest is damaged: an older one may be the only
        way back. Each is read once, and again when a file of it was written since. Nor is anything removed where it
        is not known which one is the best.
        """
        published = self.published()
        if not published or not self._is_whole(published[-1]):
            return
        try:
            kept = {self.best()}
        except RecordError:
            return
        for path in self.root.glob(".step-*.tmp"):
            shutil.rmtree(path, ignore_errors=True)
        num_whole = 0
        for path in reversed(published):
            if num_whole == keep and path not in kept:
                self._known.pop(path, None)
                shutil.rmtree(path, ignore_errors=True)
            elif num_whole < keep:
                num_whole += self._is_whole(path)

    def _is_whole(self, path: Path) -> bool:
        try:
            files = [(file.name, file.stat()) for file in sorted(path.iterdir())]
        except OSError:
            return False
        now = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in files)
        if self._known.get(path) == now:
            return True
        if checkpoint_trouble(path):
            return False
        self._known[path] = now
        return True


class NewerFormatError(RecordError):
    """A checkpoint that only a newer hemostat can read; it is not damaged."""


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
        raise NewerFormatError(
            f"{path} is of checkpoint format {manifest.format}, made with hemostat {manifest.hemostat}; this is "
            f"hemostat {version('hemostat')}, which reads up to {CHECKPOINT_FORMAT}. Update it, or move that folder "
            "away to go on from an older checkpoint."
        )
    return manifest


def checkpoint_trouble(path: Path, *, refuses_newer: bool = False) -> str:
    """What is wrong with a checkpoint, naming the file; empty when every byte is as it was written.

    Args:
        path: its folder.
        refuses_newer: raise on one of a newer format.

    Raises:
        RecordError: it is of a newer format, if that is to be refused.
    """
    try:
        manifest = read_manifest(path)
    except NewerFormatError as error:
        if refuses_newer:
            raise
        return str(error)
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
