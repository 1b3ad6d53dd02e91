"""Task: the one class a user writes; fields are hyper-parameters, methods are model, data and loss."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, dataclass_transform

from hemostat.errors import TaskError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

TARGET_KEYS: Final = ("target", "targets", "labels", "label", "y")
_PLAIN: Final = (bool, int, float, str, tuple, list, dict, type(None))


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
class Task:
    """What is trained: a model, its data, its loss. Subclass it in a file of your own.

    Every subclass becomes a frozen dataclass, so its annotated attributes are hyper-parameters that
    `--set name=value` and `hemostat tune` can change. Names that the recipe knows (`lr`, `optimizer`,
    `epochs`, `schedule`, ...) tell it what works on one device.

    Required are `model`, `train_data`, and one door for the loss:

    * `loss(output, target) -> (sum, count)` is exact everywhere: the sum over the items, and their number.
    * `step(model, batch) -> loss`, `(loss, count)` or an object with `.loss`, for models that compute their
      own. Here the loss is a mean; it is multiplied by `count`, or by the number of samples.

    Raises:
        TaskError: the class body breaks a rule; raised when the class is defined.

    Examples:
        >>> class Line(Task):
        ...     lr: float = 0.1
        ...     width: int = 8
        >>> Line(width=16)
        Line(lr=0.1, width=16)
        >>> class Bad(Task):
        ...     lr = 0.1
        Traceback (most recent call last):
        hemostat.errors.TaskError: Bad.lr=0.1 has no type. Write lr: float = 0.1 or, for a constant, LR = 0.1.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_body(cls)
        try:
            dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        except ValueError as error:  # the only one left: a mutable default
            raise TaskError(_about_default(cls, error)) from None

    def model(self) -> nn.Module:
        """The model, freshly initialised, on the CPU."""
        raise NotImplementedError

    def train_data(self) -> Any:
        """The training set: `__len__` and `__getitem__`, or a DataLoader around such a data set."""
        raise NotImplementedError

    def val_data(self) -> Any:
        """The validation set, or None."""
        return None

    def test_data(self) -> Any:
        """The test set, or None. Training never looks at it."""
        return None

    def optimizer(self, params: Iterable[Tensor]) -> Optimizer | None:
        """An optimizer of your own over `params`; None: hemostat builds it from the recipe.

        Where a name is enough, a field takes the method's place: `optimizer: str = "sgd"`.
        """
        return None

    def split(self, batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """Divide a batch into positional inputs, keyword inputs and target of the model.

        Of a tuple or list the last element is the target; of a dict the one under "target", "targets",
        "labels", "label" or "y".

        Raises:
            TaskError: neither holds; override this method.
        """
        if isinstance(batch, (tuple, list)) and len(batch) > 1:
            return tuple(batch[:-1]), {}, batch[-1]
        if isinstance(batch, Mapping):
            for key in TARGET_KEYS:
                if key in batch:
                    inputs = {name: value for name, value in batch.items() if name != key}
                    return (), inputs, batch[key]
        raise TaskError(
            f"{type(self).__name__}: no target found in a batch that is {_described(batch)}. "
            f"Write split(self, batch) that returns (inputs,), {{}}, target."
        )

    def loss(self, output: Any, target: Any) -> Any:
        """First door: `(sum, count)` of what the model returned against the target."""
        raise NotImplementedError

    def step(self, model: nn.Module, batch: Any) -> Any:
        """Second door: the mean loss of a batch, `(mean, count)`, or an object with `.loss`."""
        raise NotImplementedError

    def metrics(self, output: Any, target: Any) -> Mapping[str, Any]:
        """Figures beside the loss: `{name: (sum, count)}` or `{name: torchmetrics object}`."""
        return {}

    def baselines(self) -> Mapping[str, float]:
        """What other methods reach in the monitored metric; the summary of a run shows it beside the best value."""
        return {}

    def show(self, output: Any, batch: Any) -> Any:
        """A few samples (text, images) that are recorded at each evaluation, or None."""
        return None

    def blocks(self, model: nn.Module) -> Sequence[nn.Module] | None:
        """Modules of `model` in the order in which they are called: units for sharding, and what stages are made of.

        None: they are found, in an `nn.Sequential`, in an `nn.ModuleList`, or by the kind of the model.
        """
        return None

    def tensor_plan(self, model: nn.Module) -> Mapping[str, str] | None:
        """Names of modules of `model`, with `*` for the number of a block, to how tensor parallelism shares them out.

        Words are "colwise", "rowwise", "heads", "sequence", "vocab_in" and "vocab_out"; modules that are not named
        stay whole on every rank. None: known for decoders of Hugging Face only.
        """
        return None

    def fingerprint(self) -> Iterable[bytes] | Iterable[str | Path] | None:
        """What identifies the data: bytes or paths of files; None: taken from the data set, if it can be."""
        return None


HOOKS: Final = tuple(
    name for name, member in vars(Task).items() if inspect.isfunction(member) and name[0] != "_"
)


def hyper_parameters(task: Task) -> dict[str, Any]:
    """Name to value of the fields of a task.

    Examples:
        >>> class Line(Task):
        ...     width: int = 8
        >>> hyper_parameters(Line())
        {'width': 8}
    """
    return {field.name: getattr(task, field.name) for field in dataclasses.fields(task)}  # type: ignore[arg-type]


def _check_body(cls: type[Task]) -> None:
    typed = inspect.get_annotations(cls)
    for name in typed:
        if name in HOOKS and name != "optimizer":  # that one may be a method or just a name
            raise TaskError(
                f"{cls.__name__}.{name} is a method of Task, so it cannot be a hyper-parameter. "
                f"Give the field another name, such as {name}_name."
            )
    for name, value in vars(cls).items():
        if name in typed or name.startswith("_") or name.isupper() or not isinstance(value, _PLAIN):
            continue
        kind = "str | None" if value is None else type(value).__name__
        raise TaskError(
            f"{cls.__name__}.{name}={value!r} has no type. "
            f"Write {name}: {kind} = {value!r} or, for a constant, {name.upper()} = {value!r}."
        )


def _about_default(cls: type[Task], error: ValueError) -> str:
    for name in inspect.get_annotations(cls):
        value = vars(cls).get(name)
        if getattr(type(value), "__hash__", None) is None:
            fix = (
                f"a tuple: {name}: tuple[...] = {tuple(value)!r}" if isinstance(value, (list, set)) else None
            )
            return (
                f"{cls.__name__}.{name}={value!r} would be shared by all tasks. "
                f"Write {fix or f'{name}: ... = dataclasses.field(default_factory=lambda: {value!r})'}."
            )
    return f"{cls.__name__}: {error}"


def _described(batch: Any) -> str:
    if isinstance(batch, Mapping):
        return f"a dict with keys {', '.join(map(repr, batch))}"
    if isinstance(batch, (tuple, list)):
        return f"a {type(batch).__name__} of {len(batch)}"
    return f"a {type(batch).__name__}"
