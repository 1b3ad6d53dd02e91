"""What a plan is made of: the model as a profile, and what a task and the command line say of batch and length."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hemostat.cli.recipe import base_of_task
from hemostat.errors import FieldError
from hemostat.plan import Plan, Profile
from hemostat.recipe import Devices, convert
from hemostat.units import parse_count

_OF_OTHERS = frozenset({"plan", "train", "launch", *Devices.__struct_fields__})


def sizes_of(model: str, numbers: Mapping[str, Any], section: Mapping[str, Any]) -> dict[str, Any] | None:
    """The sizes of a decoder from a config.json or from the flags; None for a task, which is traced.

    Raises:
        FieldError: neither, both, or a file that cannot be read.
    """
    if numbers and model:
        raise FieldError(
            "params", next(iter(numbers.values())), "describe a model that has no file", "Leave one out."
        )
    if not numbers and not model:
        raise FieldError(
            "model", "", "is missing", "Give task.py:Task, a config.json, or --params --layers --hidden."
        )
    if numbers:
        sizes = {
            "num_params": parse_count(numbers["params"], "params") if "params" in numbers else None,
            "num_layers": numbers.get("layers"),
            "hidden": numbers.get("hidden"),
            "num_tokens": section.get("sample_tokens"),
        }
        return {name: value for name, value in sizes.items() if value is not None}
    return _read_json(Path(model)) if model.endswith(".json") else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FieldError(
            "model", str(path), f"cannot be read ({error.strerror})", "Check the path."
        ) from None
    except ValueError as error:
        raise FieldError("model", str(path), f"is not JSON ({error})", "Give a config.json.") from None
    if not isinstance(found, dict):
        raise FieldError("model", str(path), "is no table of names", "Give a Hugging Face config.json.")
    return found


def profile_of_model(model: str, sizes: Mapping[str, Any] | None, values: Mapping[str, Any]) -> Profile:
    """The profile: in closed form of sizes, else traced from the task.

    Raises:
        HemostatError: sizes that cannot be, or a task that cannot be traced.
    """
    section = values.get("plan", {})
    if sizes is None:
        from hemostat.task import load_task  # torch
        from hemostat.train import task_profile

        return task_profile(load_task(model, task_values(values)), str(section.get("precision", "bf16")))
    if "model_type" in sizes or model:
        return Plan.profile_of_config(sizes, section.get("sample_tokens"))
    return Plan.profile_of_numbers(sizes)


def task_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of all settings those of the task."""
    return {name: value for name, value in values.items() if name not in _OF_OTHERS}


def of_task(model: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a task says of its batch, its length and its optimizer; nothing for a model without a task.

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
