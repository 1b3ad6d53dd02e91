"""load_task: `file.py:Class` and its settings become a task and the recipe's base values."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from hemostat.blame import said, shown, user_line
from hemostat.config import decode
from hemostat.errors import FieldError, TaskError, UnknownNameError
from hemostat.recipe import Base
from hemostat.task.losses import door_of
from hemostat.task.task import Task, hyper_parameters


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedTask:
    """A task that is ready to be asked.

    Attributes:
        task: the user's object.
        base: what works on one device: defaults, then the task's fields of the same name, then the settings.
        given: names that the task or the settings set; the others are defaults.
        spec: `file.py:Class`, complete.
        path: absolute path of the file.
    """

    task: Task
    base: Base
    given: frozenset[str]
    spec: str
    path: Path

    @property
    def hyper_parameters(self) -> dict[str, Any]:
        """Name to value of the fields of the task."""
        return hyper_parameters(self.task)


def load_task(spec: str, values: Mapping[str, Any] | None = None) -> LoadedTask:
    """Import a task file and build its task.

    Args:
        spec: `file.py:Class`; the class may be left out where the file has exactly one.
        values: settings by name: fields of the task or of `hemostat.recipe.Base`.

    Raises:
        TaskError: the file or the class cannot be used; the message names file and line.
        UnknownNameError: a setting that neither has.
        FieldError: a setting of the wrong kind.
    """
    values = dict(values or {})
    path, class_name = _parse(spec)
    module = _import(path)
    cls = _find(module, path, class_name)
    _check_complete(cls, path)
    task, base = build_task(cls, values)
    given = frozenset(values) | frozenset(hyper_parameters(task))
    return LoadedTask(task=task, base=base, given=given, spec=f"{shown(path)}:{cls.__name__}", path=path)


def build_task(cls: type[Task], values: Mapping[str, Any]) -> tuple[Task, Base]:
    """A task of this class and the base values that go with it.

    Raises:
        UnknownNameError: a setting that neither has.
        FieldError: a setting of the wrong kind.
        TaskError: a field without a value.

    Examples:
        >>> class Line(Task):
        ...     lr: float = 0.1
        ...     width: int = 8
        >>> task, base = build_task(Line, {"width": 16, "epochs": 3})
        >>> task, base.lr, base.epochs
        (Line(lr=0.1, width=16), 0.1, 3.0)
    """
    own = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    of_base = {field.encode_name for field in msgspec.structs.fields(Base)}
    for name in values:
        if name not in own and name not in of_base:
            raise UnknownNameError("--set", name, {*own, *of_base})
    hints = _hints(cls)
    given = {name: _converted(name, values[name], hints.get(name)) for name in values if name in own}
    missing = [
        name
        for name, field in own.items()
        if field.init
        and name not in given
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise TaskError(
            f"{cls.__name__}.{missing[0]} has no value. "
            f"Give it a default in the class, or --set {missing[0]}=VALUE."
        )
    try:
        task = cls(**given)
    except Exception as error:
        if isinstance(error, (TaskError, FieldError)):
            raise
        where = user_line(error)
        raise TaskError(f"{cls.__name__}() raised {said(error)}{f' at {where}' if where else ''}.") from error
    shared = {name: value for name, value in hyper_parameters(task).items() if name in of_base}
    settings = {**{name: values[name] for name in values if name in of_base}, **shared}
    return task, decode(Base, {name: value for name, value in settings.items() if value is not None})


def _parse(spec: str) -> tuple[Path, str]:
    """Path and class name ("" where it is left out)."""
    text, colon, class_name = spec.rpartition(":")
    if not colon or not text or class_name.endswith(".py") or "/" in class_name or "\\" in class_name:
        text, class_name = spec, ""
    path = Path(text).expanduser()
    form = "Write it like digits.py:Digits."
    if path.is_dir():
        raise TaskError(f"{text} is a folder: a task is a class in a Python file. {form}")
    if not path.exists():
        near = sorted(file.name for file in path.parent.glob("*.py")) if path.parent.is_dir() else []
        beside = f" Python files there: {', '.join(near[:8])}." if near else ""
        raise TaskError(f"{text}: no such file. {form}{beside}")
    if path.suffix != ".py":
        raise TaskError(f"{text} is not a Python file: its name must end in .py. {form}")
    return path.resolve(), class_name


def _import(path: Path) -> ModuleType:
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem
    known = sys.modules.get(name)
    if not name.isidentifier() or (known is not None and getattr(known, "__file__", None) != str(path)):
        name = f"hemostat_task_{''.join(mark if mark.isalnum() else '_' for mark in name)}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise TaskError(f"{shown(path)} cannot be imported. Its name must end in .py.")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    try:
        module_spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise TaskError(_about_import(error, path)) from error
    return module


def _about_import(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(error.filename)}:{error.lineno}: {error.msg}. Mend that line."
    where = user_line(error) or shown(path)
    if isinstance(error, TaskError):
        return f"{where}: {error}"
    if isinstance(error, SystemExit):
        return f"{where}: importing the file ends the program. Put that under if __name__ == '__main__'."
    if isinstance(error, ModuleNotFoundError):
        return f"{where}: no module named {error.name!r}. Install it here, or mend the import."
    return f"{where}: importing the task file raised {said(error)}."


def _find(module: ModuleType, path: Path, class_name: str) -> type[Task]:
    found = {
        name: item
        for name, item in vars(module).items()
        if isinstance(item, type) and issubclass(item, Task) and item is not Task
    }
    here = {name: item for name, item in found.items() if item.__module__ == module.__name__}
    names = ", ".join(here or found)
    file = shown(path)
    if not class_name:
        chosen = list((here or found).values())
        if len(chosen) == 1:
            return chosen[0]
        if chosen:
            raise TaskError(f"{file} has {len(chosen)} tasks: {names}. Write {file}:{chosen[-1].__name__}.")
        raise TaskError(f"{file} has no task. Write class {_title(path)}(hemostat.Task): ...")
    if class_name in found:
        return found[class_name]
    item = getattr(module, class_name, None)
    if isinstance(item, type):
        raise TaskError(f"{file}:{class_name} is not a task. Write class {class_name}(hemostat.Task): ...")
    if item is not None:
        raise TaskError(
            f"{file}:{class_name} is a {type(item).__name__}, not a class. Tasks there: {names or 'none'}."
        )
    raise TaskError(f"{file} has no class {class_name}. Tasks there: {names or 'none'}.")


def _check_complete(cls: type[Task], path: Path) -> None:
    for name, form in (("model", "-> nn.Module"), ("train_data", "that returns a data set")):
        if getattr(cls, name) is getattr(Task, name):
            raise TaskError(f"{shown(path)}:{cls.__name__} has no {name}(). Write def {name}(self) {form}.")
    door_of(cls)


def _title(path: Path) -> str:
    return "".join(part.capitalize() for part in path.stem.split("_")) or "MyTask"


def _hints(cls: type[Task]) -> dict[str, Any]:
    """Types of the fields; where a name exists for type checkers only, those of the plain defaults."""
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError):
        defaults = {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        return {
            name: type(value) for name, value in defaults.items() if type(value) in (bool, int, float, str)
        }


def _converted(name: str, value: Any, hint: Any) -> Any:
    """A setting as the field's type wants it: int for float is fine, text for a number is not."""
    if hint is None:
        return value
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at")[0].replace("Expected", "must be").replace(", got", ", not")
        quoted = hint is str and not isinstance(value, (list, dict))
        fix = f"Quote it: --set {name}='\"{value}\"'." if quoted else "Give a value of that kind."
        raise FieldError(name, value, reason.replace("`", ""), fix) from None
    except TypeError:  # a type that msgspec does not know, such as torch.dtype
        return value
