"""What run.json says of a run before its first step: where it comes from and how each value came about."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import torch

from hemostat.config import to_plain
from hemostat.recipe import Recipe
from hemostat.task import Task, call
from hemostat.track import collect_provenance, fingerprint
from hemostat.train.data_watch import DataWatch
from hemostat.train.process import World
from hemostat.train.recorded_task import task_file, task_values

if TYPE_CHECKING:
    from pathlib import Path

    from hemostat.data import Source
    from hemostat.task import LoadedTask
    from hemostat.train.session import Session
    from hemostat.train.settings import TrainSettings


def session_header(session: Session) -> dict[str, Any]:
    """All that run.json says of a session before its first step."""
    plain = type(session.described_by) is Task  # else the trainer describes the data, with those it judges by
    described = {"data": hash_data(session.described_by, session.source)} if plain else {}
    return {
        **run_header(session.origin, session.settings, session.recipe),
        "hardware": hardware(session.world) | {"usd_per_hour": session.usd_per_hour},
        "layout": str(session.mesh.layout),
        "precision": session.precision.name,
        **described,
        **({"attempts": session.attempts} if session.attempts else {}),
    }


def hardware(world: World) -> dict[str, Any]:
    """What the run computes on."""
    return {
        "device": str(world.device),
        "name": torch.cuda.get_device_name(world.device) if world.device.type == "cuda" else "cpu",
        "num_ranks": world.num_ranks,
        "threads_per_rank": torch.get_num_threads(),
        "torch": str(torch.__version__),
    }


def run_header(origin: Path, settings: TrainSettings, recipe: Recipe) -> dict[str, Any]:
    """Where the run comes from, its settings, and what the recipe says."""
    return {
        "provenance": to_plain(collect_provenance(origin)),
        "seed": settings.seed,
        "settings": to_plain(settings),
        **recipe_header(recipe),
    }


def recipe_header(recipe: Recipe) -> dict[str, Any]:
    """Every value with its reason, the findings, and how the batch is cut; written again when that changes."""
    return {
        "hyper_parameters": to_plain(recipe.settings()),
        "recipe": [to_plain(value) for value in recipe.values],
        "findings": [to_plain(finding) for finding in recipe.findings],
        "batch": {
            "global_batch": recipe.global_batch,
            "micro_batch": recipe.micro_batch,
            "accumulation": recipe.accumulation,
            "num_ranks": recipe.num_ranks,
        },
        "length": {"total_samples": recipe.total_samples, "total_steps": recipe.total_steps},
    }


def task_header(loaded: LoadedTask, source: Source, val_data: Source | None) -> dict[str, Any]:
    """The task file, its values, its training data (still to be hashed) and the baselines it names."""
    return {
        "task": {
            "spec": loaded.spec,
            "values": task_values(loaded),
        },
        "task_file": task_file(loaded.path),
        "data": hash_data(loaded.task, source, num_val_samples=val_data.num_samples if val_data else 0),
        "baselines": {name: float(value) for name, value in call(loaded.task, "baselines").items()},
    }


def data_fingerprint(task: Task, source: Source) -> dict[str, Any]:
    """Digest of a task's data, read now, with the tier that was reached (see `hash_data`)."""
    parts, known = data_parts(task, source)
    return known if parts is None else {**known, **fingerprint(parts).summary()}


def hash_data(task: Task, source: Source, **known: Any) -> DataWatch | dict[str, Any]:
    """The data section of run.json, whose digests are made while the run goes on.

    Digests of files, of tensors in memory, or of what the task's `fingerprint()` names. "declared": only type and
    size are known, which does not tell two versions apart.
    """
    parts, found = data_parts(task, source)
    return found | known if parts is None else DataWatch(parts, found | known)


def data_parts(task: Task, source: Source) -> tuple[list[Any] | None, dict[str, Any]]:
    """(what a fingerprint is made of, what is known without one)."""
    given = task.fingerprint()
    if given is None:
        given = source.content()
    elif isinstance(given, str | bytes | PathLike):
        given = [given]
    known = {"tier": "declared", "num_samples": source.num_samples, "type": type(source.dataset).__name__}
    of_huggingface = getattr(source.dataset, "_fingerprint", None)  # it follows paths and times, not content
    if isinstance(of_huggingface, str):
        known["huggingface"] = of_huggingface
    return None if given is None else list(given), known
