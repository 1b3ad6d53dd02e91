"""The task of a recorded run: found again, built with the recorded values, and compared with what was recorded."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from hemostat.blame import shown
from hemostat.config import to_plain
from hemostat.errors import FieldError, TaskError, UsageError
from hemostat.recipe import Base
from hemostat.task import LoadedTask, load_task
from hemostat.track import RunRecord, collect_provenance


def load_recorded_task(record: RunRecord, spec: str | None = None) -> LoadedTask:
    """Load the task that a run was trained with.

    Args:
        record: the run; run.json has the file, the class and the values of the fields.
        spec: "file.py:Class" to use in place of the recorded one, as after a move; for a loop of the user's own
            the class with the same model, with its defaults.

    Raises:
        TaskError: the run has no task and none is named, or its file is gone.
        UsageError: the file does not fit the values any more.
    """
    task = recorded(record)
    if spec is None and not task:
        raise TaskError(
            f"run {record.id} came from a loop of your own, so no task is recorded. Name one that builds the same "
            f"model and has the data: --task FILE.py:CLASS. For the model alone: hemostat.load(RUN, model=MODEL)."
        )
    return _load(spec or _where(record, str(task["spec"])), dict(task.get("values", {})))


def recorded(record: RunRecord) -> dict[str, Any]:
    """What run.json says of the task, "spec" and "values"; empty for a loop of the user's own."""
    task = record.header.get("task")
    return task if isinstance(task, dict) and "spec" in task else {}


def is_own_loop(record: RunRecord) -> bool:
    """The run came from a session in the user's script; `hemostat train` notes itself before its task."""
    return not recorded(record) and record.header.get("kind") != "train"


def _load(spec: str, values: dict[str, Any]) -> LoadedTask:
    """A value that JSON cannot hold, such as torch.float16, stands in run.json as its text: it is the default."""
    try:
        return load_task(spec, values)
    except FieldError as error:
        rest = {name: value for name, value in values.items() if name != error.field}
        if len(rest) == len(values) or not isinstance(error.value, str):
            raise
        loaded = _load(spec, rest)
        if repr(getattr(loaded.task, error.field, None)) != error.value:
            raise
        return loaded


def _where(record: RunRecord, spec: str) -> str:
    name, _, cls = spec.rpartition(":")
    origin = record.header.get("provenance", {}).get("cwd")  # the folder of the task file
    known = record.header.get("task_file", {}).get("path")
    places = [known, str(Path(origin) / Path(name).name) if origin else None, name]
    for place in places:
        if place and Path(place).is_file():
            return f"{place}:{cls}"
    commit = _commit(record.header)
    again = f" It was at commit {commit[:12]}: git checkout {commit[:12]}." if commit else ""
    raise TaskError(
        f"the task file of run {record.id}, {name}, is not there any more.{again} "
        f"Or name another place: --task FILE.py:{cls}."
    )


def task_file(path: Path) -> dict[str, str]:
    """What run.json keeps to find a task file again and to see whether it has changed."""
    return {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def task_changes(record: RunRecord, loaded: LoadedTask) -> list[str]:
    """Sentences about what differs between now and the run: the task file, the commit."""
    notes = []
    before = record.header.get("task_file", {}).get("sha256")
    if before is not None and before != task_file(loaded.path)["sha256"]:
        notes.append(f"{shown(loaded.path)} has changed since the run")
    then, now = _commit(record.header), _commit({"provenance": collect_provenance(loaded.path.parent)})
    if then and now and then != now:
        notes.append(f"the code is at commit {now[:7]}, the run was at {then[:7]}")
    return notes


def value_changes(record: RunRecord, loaded: LoadedTask) -> list[str]:
    """Fields of the task that have another value than in the run, `name: before -> now`.

    Those that the recipe knows are left out: they are compared with what became of them.
    """
    before, now = recorded(record).get("values", {}), task_values(loaded)
    names = [name for name in now if name in before and name not in Base.__struct_fields__]
    return [f"{name}: {before[name]} -> {now[name]}" for name in names if not _alike(before[name], now[name])]


def _alike(read: Any, value: Any) -> bool:
    """JSON has lists for tuples, and texts for NaN and infinities."""
    return json.dumps(read) == json.dumps(value) or str(read) == str(value)


def task_values(loaded: LoadedTask) -> dict[str, Any]:
    """The fields of a task as run.json keeps them."""
    return {name: plain_or_text(value) for name, value in loaded.hyper_parameters.items()}


def plain_or_text(value: Any) -> Any:
    """A hyper-parameter as JSON can hold it; what it cannot, such as torch.float16, as its text."""
    try:
        return to_plain(value)
    except UsageError:
        return repr(value)


def _commit(header: dict[str, Any]) -> str | None:
    git = header.get("provenance", {}).get("git", {})
    commit = git.get("commit")
    return commit if isinstance(commit, str) else None
