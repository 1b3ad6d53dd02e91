"""What a plan is made of: the model as a profile, and what a task and the command line say of batch and length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hemostat.cli.recipe import base_of_task
from hemostat.errors import FieldError, UsageError
from hemostat.plan import Plan, Profile
from hemostat.recipe import Devices, convert
from hemostat.track import list_runs, load_run
from hemostat.units import parse_count

# what is typed -> what `Plan.profile_of_numbers` calls it
_SIZES: Final = {
    "params": "num_params",
    "layers": "num_layers",
    "hidden": "hidden",
    "vocab": "vocab",
    "seq": "num_tokens",
}
_FLAGS: Final = (
    "--cluster",
    "--global-batch",
    "--tokens",
    "--layout",
    "--max-usd",
    "--max-days",
    "--fit",
    "--ask",
    "--explain",
)
_OF_OTHERS = frozenset({"plan", "train", "launch", *Devices.__struct_fields__})


def read_words(words: Sequence[str]) -> tuple[str, dict[str, int]]:
    """(model, sizes) of what was typed beside the flags: a model's file, or sizes like `--params 320M`.

    Raises:
        UsageError: an option that is neither a flag nor a size.
        FieldError: a size without a number, or two models.

    Examples:
        >>> read_words(["--params", "320M", "--layers=24"])
        ('', {'num_params': 320000000, 'num_layers': 24})
    """
    model, sizes = "", {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("--"):
            if model:
                raise FieldError("model", word, f"{model} was named already", "Plan one model at a time.")
            model = word
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if name not in _SIZES:
            known = ", ".join([*(f"--{each}" for each in _SIZES), *_FLAGS])
            raise UsageError(f"No such option: --{name}. There are {known}. See hemostat plan --help.")
        sizes[_SIZES[name]] = parse_count(value if equals else next(rest, ""), name)
    return model, sizes


def sizes_of(model: str, numbers: Mapping[str, int], section: Mapping[str, Any]) -> dict[str, Any] | None:
    """The sizes of a decoder from a config.json or from what was typed; None for a task, which is traced.

    Raises:
        FieldError: neither, both, or a file that cannot be read.
    """
    if numbers and model:
        raise FieldError("model", model, "has its own sizes", "Leave the file or the sizes out.")
    if not numbers and not model:
        raise FieldError(
            "model", "", "is missing", "Give task.py:Task, a config.json, or --params --layers --hidden."
        )
    if numbers:
        tokens = section.get("sample_tokens")
        return {**numbers, "num_tokens": tokens} if tokens else dict(numbers)
    return Plan.read_config(model) if model.endswith(".json") else None


def profile_of_model(model: str, sizes: Mapping[str, Any] | None, values: Mapping[str, Any]) -> Profile:
    """The profile: in closed form of sizes, else traced from the task.

    Raises:
        HemostatError: sizes that cannot be, or a task that cannot be traced.
        UsageError: the steps to calibrate with are another task's.
    """
    section = values.get("plan", {})
    _check_task(model, section.get("measured", ()))
    if sizes is None:
        from hemostat.task import load_task  # torch
        from hemostat.train import task_profile

        return task_profile(load_task(model, task_values(values)), str(section.get("precision", "bf16")))
    if "model_type" in sizes or model:
        return Plan.profile_of_config(sizes, section.get("sample_tokens"))
    return Plan.profile_of_numbers(sizes)


def measured(names: str) -> dict[str, Any]:
    """`[[plan.measured]]` from runs on one device; nothing where none is named.

    Args:
        names: of the runs, with commas; those of several micro-batches tell the host from the device.

    Raises:
        UsageError: a run of several processes, of a CPU, or of fewer than three steps.
    """
    found = [_measured(name.strip()) for name in names.split(",") if name.strip()]
    return {"measured": found} if found else {}


def _measured(name: str) -> dict[str, Any]:
    record = load_run(Path(".hemostat") / "runs", name)
    header = record.header
    batch, hardware = header.get("batch", {}), header.get("hardware", {})
    if hardware.get("num_ranks") != 1 or hardware.get("name") in ("cpu", None):
        raise UsageError(
            f"run {record.id} used {hardware.get('num_ranks')} x {hardware.get('name')}. Calibrate with a run of ten "
            "steps or more on one accelerator: hemostat train TASK --nproc 1."
        )
    if record.step_s is None:
        raise UsageError(f"run {record.id} took fewer than three steps. Let it take ten or more.")
    return {
        "step_s": record.step_s,
        "micro_batch": batch["micro_batch"],
        "accumulation": batch["accumulation"],
        "device": hardware["name"],
        "precision": header.get("precision", ""),
        "task": header.get("task", {}).get("spec", ""),
        "run": record.id,
    }


def _check_task(model: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Refuse steps of another task than the one that is planned, as far as their run says which it was."""
    for step in steps:
        if step.get("task") and not _is_of(step["task"], model):
            raise UsageError(
                f"run {step.get('run', '')} trained {step['task']}, and {model or 'typed sizes'} are planned. "
                "Calibrate with a run of the same model."
            )


def _is_of(spec: str, model: str) -> bool:
    """A run's task, complete, is the one that was named, perhaps without its class."""
    (path, _, name), (file, colon, wanted) = spec.rpartition(":"), model.rpartition(":")
    return Path(path).resolve() == Path(file if colon else model).resolve() and (not colon or wanted == name)


def _critical_batch(model: str) -> float | None:
    """What the newest run of a task measured; None where none did."""
    for record in list_runs(Path(".hemostat") / "runs"):
        found = record.summary.get("critical_batch")
        if found and _is_of(str(record.header.get("task", {}).get("spec", "")), model):
            return float(found)
    return None


def task_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of all settings those of the task."""
    return {name: value for name, value in values.items() if name not in _OF_OTHERS}


def of_task(model: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a task and its runs say of batch, length, optimizer and critical batch; nothing without a task.

    Args:
        model: as it was given.
        values: all settings.
    """
    if not model or model.endswith(".json"):
        return {}
    base = base_of_task(model, task_values(values))
    batch = {name: values[name] for name in ("global_batch",) if name in values}
    recipe = convert(base, Devices(**batch))
    found: dict[str, Any] = {"global_batch": recipe.global_batch, "optimizer": base.optimizer}
    if recipe.total_samples:
        found["num_samples"] = recipe.total_samples
    critical = recipe.critical_batch or _critical_batch(model)
    if critical is not None:
        found["critical_batch"] = critical
    return found


def lengths(profile: Profile, global_batch: str, tokens: str) -> dict[str, Any]:
    """The batch in samples and the length in tokens, from what was typed."""
    found: dict[str, Any] = {}
    if global_batch:
        count = parse_count(global_batch, "global_batch")
        found["global_batch"] = count // profile.num_tokens if "tok" in global_batch else count
    if tokens:
        found["num_tokens"] = float(parse_count(tokens, "tokens"))
    return found
