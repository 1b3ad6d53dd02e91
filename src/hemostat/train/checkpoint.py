"""`Saver`: writes checkpoints on all ranks, in the background where that pays, and publishes those that are whole."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hemostat.disk import refused
from hemostat.errors import RecordError
from hemostat.track import Checkpoints, RunRecord
from hemostat.train.process import World
from hemostat.train.together import together

# below this a copy of the tensors and a hop to a thread cost more than the disk does (measured, docs/log.md)
BACKGROUND_BYTES = 16 * 1024**2
SHARED_FILE = "state.json"
MODEL = "model/"  # what the names of a model's tensors begin with


class Shape(NamedTuple):
    """Size and dtype of a tensor on disk."""

    size: torch.Size
    dtype: torch.dtype


class State(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        tensors: by name; the same on all ranks, but for those of one rank only.
        shared: plain values that are equal on all ranks.
        own: plain values of this rank.
    """

    tensors: dict[str, torch.Tensor]
    shared: dict[str, Any]
    own: dict[str, Any]


def own_file(rank: int) -> str:
    """Name of the file that holds `State.own` of a rank."""
    return f"rank.{rank}.json"


class Saver:
    """Writes one checkpoint at a time; the same calls must be made on all ranks.

    Args:
        world: the ranks; a group of their own is made for the background.
        run_dir: the run directory.
        keep: newest checkpoints that rotation leaves, beside the best.

    Attributes:
        blocked_s: how long training has stood still for it.
        longest_s: what the longest checkpoint has taken, in the background or not.
        saved: (step, judged step) of the latest one.
    """

    def __init__(self, world: World, run_dir: Path, keep: int) -> None:
        self.blocked_s = self.longest_s = 0.0
        self.saved = (0, 0)
        self._world = world.beside()
        self._checkpoints = Checkpoints(run_dir)
        self._keep = keep
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    @classmethod
    def open(cls, world: World, run_dir: Path | None, keep: int) -> Saver | None:
        """A saver where there is a run directory."""
        return None if run_dir is None else cls(world, run_dir, keep)

    def save(self, state: State, *, best: bool) -> None:
        """Save a state; a large one is copied and written while training goes on.

        Args:
            state: of this rank.
            best: it has the best metric so far.

        Raises:
            RecordError: this or the save before it failed, on whichever rank; what was published stays.
        """
        self.wait()
        start_s = time.perf_counter()
        size = sum(tensor.numel() * tensor.element_size() for tensor in state.tensors.values())
        if size < BACKGROUND_BYTES:
            self._write(state, best)
            self.blocked_s += time.perf_counter() - start_s
            return
        copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.tensors.items()}
        self._pending = self._pool.submit(self._write, state._replace(tensors=copies), best)
        self.blocked_s += time.perf_counter() - start_s

    def wait(self) -> None:
        """Wait until nothing is being written.

        Raises:
            RecordError: it failed.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            start_s = time.perf_counter()
            pending.result()
            self.blocked_s += time.perf_counter() - start_s

    def close(self) -> None:
        """Wait, whatever comes of it, and end the thread."""
        self._pool.shutdown(wait=True)

    def _write(self, state: State, best: bool) -> None:
        start_s = time.perf_counter()
        step, samples = int(state.shared["step"]), int(state.shared["samples"])
        half = self._checkpoints.temporary(step)
        self._together(lambda: self._checkpoints.begin(step) if self._world.rank == 0 else None, half)
        described = self._together(lambda: self._write_own(state, half), half)
        files = {name: entry for part in described for name, entry in part.items()}
        self._together(lambda: self._publish(half, step, samples, files, best), half)
        self.longest_s = max(self.longest_s, time.perf_counter() - start_s)

    def _write_own(self, state: State, half: Path) -> dict[str, Any]:
        from hemostat.train.tensor_files import files_of_rank, write_tensors

        rank = self._world.rank
        write_tensors(state.tensors, half, self._world.group)
        texts = {own_file(rank): state.own} | ({SHARED_FILE: state.shared} if rank == 0 else {})
        for name, values in texts.items():
            _write_text(half / name, json.dumps(values))
        return self._checkpoints.describe(half, [*files_of_rank(half, rank), *texts])

    def _publish(self, half: Path, step: int, samples: int, files: dict[str, Any], best: bool) -> None:
        if self._world.rank != 0:
            return
        path = self._checkpoints.publish(
            half, step=step, samples=samples, num_ranks=self._world.num_ranks, files=files
        )
        if best:
            self._checkpoints.mark_best(path)
        self._checkpoints.rotate(self._keep)

    def _together(self, work: Callable[[], Any], half: Path) -> list[Any]:
        """Do a part on every rank, then let all raise if one could not: none is left waiting for it."""
        results, failure = together(self._world, work)
        if failure is None:
            return results
        if self._world.rank == 0:
            shutil.rmtree(half, ignore_errors=True)
        raise RecordError(f"the checkpoint was not saved: {failure.text}{self._way_back()}") from failure.own

    def _way_back(self) -> str:
        published = self._checkpoints.published()
        if not published:
            return ""
        go_on = RunRecord(self._checkpoints.root.parent).command("train --resume")
        return f" {published[-1].name} is whole; go on from it: {go_on}"


def _write_text(path: Path, text: str) -> None:
    try:
        with path.open("w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {refused(error)}") from None
