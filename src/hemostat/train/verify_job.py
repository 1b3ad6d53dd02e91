"""What one rank of a verification does: several short runs of one task or script, each watched."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from hemostat.config import decode
from hemostat.errors import Interrupted, UsageError
from hemostat.task import load_task
from hemostat.train.loop import train
from hemostat.train.rank import as_rank, split_values
from hemostat.train.rehearsal import Leg, Plan, Rehearsal
from hemostat.train.session import Session
from hemostat.train.traces import write_job
from hemostat.train.watch import Watch

LEGS = (
    Leg("real", plain=False, folder="real"),
    Leg("cut", plain=False, stops=True, folder="cut"),
    Leg("resumed", plain=False, resumes=True, folder="cut"),
    Leg("plain", folder="plain"),
    Leg("accumulated", accumulation=2, folder="accumulated"),
    Leg("shifted", shift=1000, folder="shifted"),  # on one rank only: are there other random numbers?
    Leg("normed", batch_norm=True, folder="normed"),  # only with BatchNorm
    Leg("normed_accumulated", accumulation=2, batch_norm=True, folder="normed_accumulated"),
)


def verify_rank(spec: str, values: Mapping[str, Any], plan: Mapping[str, Any]) -> int:
    """Run all legs as one rank of a job; rank 0 leaves what was seen in the run directory.

    Args:
        spec: "file.py:Class" for a task, "file.py" for a script that builds a session.
        values: TOML and --set, merged; a script has none.
        plan: fields of `Plan`, the same for all jobs.

    Returns:
        The exit status of this rank.
    """

    def work() -> None:
        folder = Path(os.environ["HEMOSTAT_RUN_DIR"])
        rank = int(os.environ.get("RANK", "0"))
        common = decode(Plan, plan)
        usual = torch.get_default_dtype()
        torch.set_default_dtype(getattr(torch, common.dtype))
        Session.watch = rehearsal = Rehearsal(common)
        run = _task(spec, values, rehearsal) if ":" in spec else _script(spec)
        try:
            for leg in LEGS:
                if _is_wanted(leg, rehearsal):
                    with _inside(folder / leg.folder, folder / f"output.{rank}.txt"):
                        rehearsal.begin(leg)
                        run()
                        if not rehearsal.end():
                            raise UsageError(
                                f"{spec} built no hemostat Session, so there is nothing to verify. Write "
                                f"{spec}:CLASS for a task, or see docs/own_loop.md."
                            )
        finally:
            Session.watch = Watch()
            torch.set_default_dtype(usual)
        if rank == 0:
            write_job(rehearsal.job, folder)

    return as_rank(work)


def _is_wanted(leg: Leg, rehearsal: Rehearsal) -> bool:
    if leg.name == "shifted":
        return os.environ.get("WORLD_SIZE", "1") == "1"
    return not leg.batch_norm or bool(rehearsal.job.batch_norms)


@contextlib.contextmanager
def _inside(run_dir: Path, output: Path) -> Iterator[None]:
    """Sessions record in `run_dir`; what the user's code prints goes to a file."""
    before = os.environ["HEMOSTAT_RUN_DIR"]
    os.environ["HEMOSTAT_RUN_DIR"] = str(run_dir)
    try:
        with (
            output.open("a", encoding="utf-8") as file,
            contextlib.redirect_stdout(file),
            contextlib.redirect_stderr(file),
        ):
            yield
    finally:
        os.environ["HEMOSTAT_RUN_DIR"] = before


def _task(spec: str, values: Mapping[str, Any], rehearsal: Rehearsal) -> Callable[[], None]:
    rest, devices, settings = split_values({**values, "train": {**values.get("train", {}), "device": "cpu"}})

    def run() -> None:
        try:
            train(load_task(spec, rest), devices, settings)
        except Interrupted:
            if not rehearsal.stops:
                raise

    return run


def _script(spec: str) -> Callable[[], None]:
    path = Path(spec)
    if not path.is_file():
        raise UsageError(
            f"{spec}: no such file. Write a script like train.py, or a task like digits.py:Digits."
        )

    def run() -> None:
        sys.argv = [spec]
        folder = str(path.resolve().parent)
        if sys.path[0] != folder:
            sys.path.insert(0, folder)
        try:
            runpy.run_path(spec, run_name="__main__")
        except SystemExit as left:
            if left.code not in (None, 0):
                raise UsageError(f"{spec} ended with {left.code}. Verify what runs by itself.") from None

    return run
