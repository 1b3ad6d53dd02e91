"""Real, Integer, Choice: one parameter of a space and its place between 0 and 1; logarithmic where the name asks."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from hemostat.errors import FieldError, HemostatWarning

Scale = Literal["linear", "log", "one minus"]  # "one minus": logarithm of 1 - value
_RATES: Final = re.compile(
    r"(^|[._])(lr|learning_rate|weight_decay|wd|l1|l2|eps|epsilon)$|^(lr|learning_rate)_init$"
)
_BETAS: Final = re.compile(r"(^|[._])(beta_?[12]?|momentum|ema|ema_decay)$")
_NEAR_ONE: Final = 0.9
_DECADE: Final = 10.0
_WIDE: Final = 1000.0
_DIGITS: Final = 4  # a value that a person can copy; finer than any effect on a run


def _usual_scale(name: str, low: float, high: float, wide: float) -> Scale:
    """Logarithmic by name, or where the range spans more than `wide` times its low end."""
    if _BETAS.search(name) and _NEAR_ONE <= high < 1:
        return "one minus"
    if _RATES.search(name) or (low > 0 and high / low > wide):
        return "log"
    return "linear"


def _to_scale(scale: Scale, value: float) -> float:
    if scale == "log":
        return math.log(value)
    return -math.log1p(-value) if scale == "one minus" else float(value)


def _from_scale(scale: Scale, place: float) -> float:
    if scale == "log":
        return _rounded(math.exp(place))
    return round(1 - _rounded(math.exp(-place)), 15) if scale == "one minus" else place


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _check_range(name: str, low: float, high: float) -> None:
    for edge in (low, high):
        if isinstance(edge, bool) or not isinstance(edge, int | float) or not math.isfinite(edge):
            raise FieldError(name, edge, "an end of the range must be a finite number", "Write low and high.")
    if low >= high:
        raise FieldError(
            name, [low, high], "low must be below high", "Swap them, or fix the parameter to one value."
        )


@dataclass(frozen=True)
class Real:
    """A real number.

    Attributes:
        name: as the task or the command knows it.
        low, high: ends of the range, both allowed.
        log: spread evenly over the logarithm; None: by name (learning rates, weight decay, epsilon, and 1 - value of
            a beta near 1) or where high is over 1000 times low.
        when: condition on other parameters under which it exists at all.

    Raises:
        FieldError: the range is empty; it is logarithmic and has no logarithm.

    Examples:
        >>> rate = Real("lr", 1e-4, 1e-2)
        >>> rate.decode(0.5), Real("beta2", 0.9, 0.999).decode(0.5), Real("dropout", 0.0, 0.5).decode(0.5)
        (0.001, 0.99, 0.25)
    """

    name: str
    low: float
    high: float
    log: bool | None = None
    when: str | None = None

    def __post_init__(self) -> None:
        _check_range(self.name, self.low, self.high)
        usual = _usual_scale(self.name, self.low, self.high, _WIDE)
        if self.scale == "log" and self.low <= 0:
            fix = "Write a small number above 0, or log=false to search evenly."
            raise FieldError(self.name, self.low, "is searched on a logarithmic scale, which has no 0", fix)
        if self.log is False and usual != "linear" and (_RATES.search(self.name) or _BETAS.search(self.name)):
            warnings.warn(
                f"{self.name} is searched on a linear scale: most trials will be near {self.high:g}.\
 Leave log out, unless its range is narrow.",
                HemostatWarning,
                stacklevel=3,
            )

    @cached_property
    def scale(self) -> Scale:
        """How its range is spread."""
        usual = _usual_scale(self.name, self.low, self.high, _WIDE)
        if self.log is None:
            return usual
        return ("one minus" if usual == "one minus" else "log") if self.log else "linear"

    @property
    def num_values(self) -> int | None:
        """None: more than can be counted."""
        return None

    @property
    def ordered(self) -> bool:
        """Values that lie close are alike."""
        return True

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return _to_scale(self.scale, self.low), _to_scale(self.scale, self.high)

    def encode(self, value: Any) -> float:
        """The place of a value, 0 to 1."""
        low, high = self._ends
        return (_to_scale(self.scale, value) - low) / (high - low)

    def decode(self, unit: float) -> float:
        """The value at a place, 0 to 1, rounded to four digits."""
        low, high = self._ends
        value = _from_scale(self.scale, low + unit * (high - low))
        value = (
            value
            if self.scale != "linear"
            else round(value, 3 - math.floor(math.log10(self.high - self.low)))
        )
        return min(max(value, float(self.low)), float(self.high))

    def checked(self, value: Any) -> float:
        """The value in the one form in which it is compared.

        Raises:
            FieldError: it is no number of the range.
        """
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not self.low <= value <= self.high
        ):
            rule = f"must be a number from {self.low:g} to {self.high:g}"
            raise FieldError(self.name, value, rule, "Widen the range, or choose a value in it.")
        return float(value)


@dataclass(frozen=True)
class Integer:
    """A whole number.

    Attributes:
        name: as the task or the command knows it.
        low, high: ends of the range, both allowed.
        log: spread evenly over the logarithm; None: where high is over 10 times a low above 0.
        when: condition on other parameters under which it exists at all.

    Raises:
        FieldError: the range is empty or not of whole numbers; it is logarithmic and reaches 0.

    Examples:
        >>> Integer("num_layers", 1, 4).num_values
        4
        >>> [Integer("batch", 8, 512).decode(unit) for unit in (0.0, 0.5, 1.0)]
        [8, 62, 512]
    """

    name: str
    low: int
    high: int
    log: bool | None = None
    when: str | None = None

    def __post_init__(self) -> None:
        _check_range(self.name, self.low, self.high)
        if not (isinstance(self.low, int) and isinstance(self.high, int)):
            raise FieldError(
                self.name, [self.low, self.high], "must be whole numbers", "Use Real for the others."
            )
        if self.log and self.low < 1:
            fix = "Write low=1, or log=false to search evenly."
            raise FieldError(self.name, self.low, "is searched on a logarithmic scale, which has no 0", fix)

    @cached_property
    def scale(self) -> Scale:
        """How its range is spread."""
        log = self.low > 0 and self.high / self.low > _DECADE if self.log is None else self.log
        return "log" if log else "linear"

    @property
    def num_values(self) -> int:
        """How many there are."""
        return self.high - self.low + 1

    @property
    def values(self) -> range:
        """All of them."""
        return range(self.low, self.high + 1)

    @property
    def ordered(self) -> bool:
        """Values that lie close are alike."""
        return True

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return _to_scale(self.scale, self.low - 0.5), _to_scale(self.scale, self.high + 0.5)

    def encode(self, value: Any) -> float:
        """The place of a value, 0 to 1; half a value stays free at both ends."""
        low, high = self._ends
        return (_to_scale(self.scale, value) - low) / (high - low)

    def decode(self, unit: float) -> int:
        """The value at a place, 0 to 1."""
        low, high = self._ends
        place = low + unit * (high - low)
        return min(max(round(math.exp(place) if self.scale == "log" else place), self.low), self.high)

    def checked(self, value: Any) -> int:
        """The value in the one form in which it is compared.

        Raises:
            FieldError: it is no whole number of the range.
        """
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value == round(value)
        if not whole or not self.low <= value <= self.high:
            rule = f"must be a whole number from {self.low} to {self.high}"
            raise FieldError(self.name, value, rule, "Widen the range, or choose a value in it.")
        return int(value)


@dataclass(frozen=True)
class Choice:
    """One of several values; numbers are ordered.

    Attributes:
        name: as the task or the command knows it.
        values: numbers, texts, true and false, or lists of them; numbers are searched by their logarithm where they
            span over a decade.
        when: condition on other parameters under which it exists at all.

    Raises:
        FieldError: there is no value, or one stands there twice.

    Examples:
        >>> batch = Choice("batch", (32, 64, 512))
        >>> [round(batch.encode(value), 3) for value in batch.values], batch.ordered
        ([0.0, 0.25, 1.0], True)
    """

    name: str
    values: tuple[Any, ...]
    when: str | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise FieldError(self.name, [], "has no value to choose from", "List at least one.")
        if len(self._index) < len(self.values):
            raise FieldError(self.name, list(self.values), "has a value twice", "List each value once.")

    @property
    def num_values(self) -> int:
        """How many there are."""
        return len(self.values)

    @cached_property
    def ordered(self) -> bool:
        """Values that lie close are alike; so are two numbers, but not two texts."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {_hashable(value): index for index, value in enumerate(self.values)}

    @cached_property
    def places(self) -> tuple[float, ...]:
        """Where each value lies, 0 to 1."""
        count = len(self.values)
        if count == 1:
            return (0.5,)
        if not self.ordered:
            return tuple((index + 0.5) / count for index in range(count))
        low, high = min(self.values), max(self.values)
        scale = _usual_scale(self.name, low, high, _DECADE)
        least = min((value for value in self.values if value > 0), default=high)
        if low <= 0 and (scale == "log" or (least > 0 and high / least > _DECADE)):
            rising = sorted(self.values)  # 0 beside powers of ten: there is no scale but their order
            return tuple(rising.index(value) / (count - 1) for value in self.values)
        start, end = _to_scale(scale, low), _to_scale(scale, high)
        return tuple((_to_scale(scale, value) - start) / (end - start) for value in self.values)

    def index(self, value: Any) -> int:
        """Which of the values it is.

        Raises:
            FieldError: it is none of them.
        """
        found = self._index.get(_hashable(value))
        if found is None:
            raise FieldError(
                self.name, value, f"must be one of {list(self.values)}", "Add it, or choose another."
            )
        return found

    def encode(self, value: Any) -> float:
        """The place of a value, 0 to 1."""
        return self.places[self.index(value)]

    def decode(self, unit: float) -> Any:
        """The value nearest to a place, 0 to 1."""
        return self.values[min(range(len(self.values)), key=lambda index: abs(self.places[index] - unit))]

    def checked(self, value: Any) -> Any:
        """The value in the one form in which it is compared.

        Raises:
            FieldError: it is none of the values.
        """
        return self.values[self.index(value)]


Parameter = Real | Integer | Choice


def _hashable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    return (value, True) if isinstance(value, bool) else value  # True is not 1 here
