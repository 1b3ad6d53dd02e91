"""Settings: TOML, then `--set a.b=c`, decoded into frozen structs; `Resolved` is a value with its reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hemostat.errors import FieldError, UnknownNameError, UsageError

T = TypeVar("T", bound=msgspec.Struct)


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every settings struct: frozen, unknown keys refused; `None` means "derive it".

    Subclasses write `kw_only=True` themselves: msgspec does not inherit it.
    """


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """One value that was derived or given, with the reason, as it is recorded and printed by `--why`.

    Attributes:
        field: dotted name, as the user would set it.
        value: what will be used.
        why: one sentence.
        before: what it was on one device; None where the question has no meaning.
        source: where the rule comes from; empty when the user gave the value.
        confidence: "high", "medium", "low", or "given".
    """

    field: str
    value: Any
    why: str
    before: Any = None
    source: str = ""
    confidence: str = "given"


def read_toml(path: Path) -> dict[str, Any]:
    """Read a settings file.

    Raises:
        FieldError: the file is absent or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FieldError("config", str(path), "no such file", "Check the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FieldError("config", str(path), f"is not valid TOML ({error})", "Mend that line.") from None
    except OSError as error:
        raise FieldError(
            "config", str(path), f"cannot be read ({error.strerror})", "Check the path."
        ) from None


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """Turn `a.b=c` pairs into a nested dict; values are TOML, and bare words are strings.

    Raises:
        FieldError: a pair without `=` or without a name.

    Examples:
        >>> parse_overrides(["lr=0.1", "schedule=cosine", "train.seed=3", "betas=[0.9, 0.99]"])
        {'lr': 0.1, 'schedule': 'cosine', 'train': {'seed': 3}, 'betas': [0.9, 0.99]}
    """
    tree: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not all(name.strip().split(".")):
            raise FieldError("--set", pair, "is not name=value", "Write it like --set lr=0.1.")
        *parents, leaf = name.strip().split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise FieldError(
                    "--set", pair, f"{parent!r} was set to a value before", "Drop one of the two."
                )
        node[leaf] = _toml_value(text.strip())
    return tree


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        pass  # not a TOML value, so it is a bare word
    try:
        return float(text)  # TOML has no `.5` and no `1e-3` without a digit before the dot
    except ValueError:
        return text


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one nested mapping over another; neither is changed.

    Examples:
        >>> merge({"a": 1, "train": {"seed": 0, "clip": 1}}, {"train": {"seed": 3}})
        {'a': 1, 'train': {'seed': 3, 'clip': 1}}
    """
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merge(out[key], value) if both else value
    return out


def decode(cls: type[T], values: Mapping[str, Any], prefix: str = "") -> T:
    """Build a settings struct from plain values, strictly.

    Args:
        cls: a `Config` subclass.
        values: name to value.
        prefix: what stands before the field names in messages ("train.").

    Raises:
        UnknownNameError: a key that the struct does not have; the known ones are listed.
        FieldError: a value of the wrong type.
    """
    known = {field.encode_name: field for field in msgspec.structs.fields(cls)}
    for name in values:
        if name not in known:
            raise UnknownNameError("--set" if not prefix else prefix.rstrip("."), name, known)
    plain = dict(values)
    for name, value in values.items():
        kind = known[name].type
        if isinstance(value, Mapping) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            plain[name] = decode(kind, value, f"{prefix}{name}.")  # so that messages name the inner field
    try:
        return msgspec.convert(plain, cls)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        field = path.strip("`.").split(".")[0].split("[")[0]
        raise FieldError(
            f"{prefix}{field}", values.get(field), _plain(reason), "Give a value of that kind."
        ) from None


def _plain(reason: str) -> str:
    """'Expected `int`, got `str`' -> 'must be int, not str'."""
    return reason.replace("Expected", "must be").replace(", got", ", not").replace("`", "").strip()


def to_plain(value: Any) -> Any:
    """Structs to dicts without `None`s, ready for TOML or JSON.

    Raises:
        UsageError: a value that neither format can hold.
    """
    try:
        plain = msgspec.to_builtins(value)
    except TypeError as error:
        raise UsageError(f"cannot be written as TOML or JSON: {error}") from None
    return _without_none(plain)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
