"""Space: the parameters of a study, which of them exist when, and what is not allowed together."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from hemostat.errors import FieldError, UnknownNameError
from hemostat.tune.condition import Condition
from hemostat.tune.parameter import Choice, Integer, Parameter, Real
from hemostat.tune.trial import Configuration

__all__ = ["Choice", "Integer", "Parameter", "Real", "Space"]

MAX_COUNTED: Final = 1_000_000  # configurations that are counted one by one where conditions forbid a product
_MAX_DRAWS: Final = 20_000  # one allowed configuration in a few thousand is still found


@dataclass(frozen=True)
class Space:
    """What may be chosen.

    Attributes:
        parameters: each with its own name.
        constraints: comparisons that hold for every configuration, such as "micro_batch * accumulation <= 1024";
            one that names a parameter which does not exist in a configuration says nothing about it.
        start: a configuration that is known to work; what it leaves out is taken from the middle of the range.

    Raises:
        FieldError: no parameter; a name twice; no configuration is allowed; a start that is not.
        UnknownNameError: a condition, a constraint or the start names a parameter that there is not.

    Examples:
        >>> space = Space(
        ...     (Real("lr", 1e-4, 1e-2), Choice("optimizer", ("adamw", "sgd")),
        ...      Choice("momentum", (0.0, 0.9), when="optimizer == 'sgd'")),
        ... )
        >>> space.decode((0.5, 0.0, 1.0)), space.decode((0.5, 1.0, 1.0))
        ({'lr': 0.001, 'optimizer': 'adamw'}, {'lr': 0.001, 'optimizer': 'sgd', 'momentum': 0.9})
        >>> space.num_configs is None
        True
    """

    parameters: tuple[Parameter, ...]
    constraints: tuple[str, ...] = ()
    start: Configuration | None = None

    def __post_init__(self) -> None:
        if not self.parameters:
            raise FieldError(
                "space", [], "has no parameter", "Name at least one, such as lr from 1e-4 to 1e-1."
            )
        object.__setattr__(self, "parameters", tuple(self.parameters))
        object.__setattr__(self, "constraints", tuple(self.constraints))
        for place, name in enumerate(self.names):
            if name in self.names[:place]:
                raise FieldError("space", name, "is there twice", "Give each parameter once.")
        for condition in (*self._when.values(), *self._rules):
            for name in sorted(condition.names):
                if name not in self._by_name:
                    raise UnknownNameError(f"{condition.text!r}", name, self.names)
        self._order  # noqa: B018 - conditions in a circle are refused here
        if self.constraints:
            self._check_possible()
        if self.start is not None:
            self._check_start(self.start)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all parameters, in their order."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def num_configs(self) -> int | None:
        """How many configurations are allowed; None where there is a real number, or too many to be counted."""
        product = self._product
        if product is None or not (self._when or self._rules):
            return product
        return sum(1 for _ in self.configs()) if product <= MAX_COUNTED else None

    def configs(self) -> Iterator[Configuration]:
        """Every allowed configuration of a finite space, the last parameter moving fastest."""
        levels = [parameter.values for parameter in self.parameters if not isinstance(parameter, Real)]
        seen = set()
        for values in itertools.product(*levels):
            config = self._active(dict(zip(self.names, values, strict=True)))
            if self._rules and not self._obeys(config):
                continue
            if self._when:
                key = self.key(config)
                if key in seen:
                    continue
                seen.add(key)
            yield config

    def sample(self, rng: random.Random) -> Configuration:
        """Draw a configuration evenly.

        Raises:
            FieldError: the constraints leave so little that nothing is found.
        """
        for _ in range(_MAX_DRAWS):
            config = self._active(
                {
                    parameter.name: rng.choice(parameter.values)
                    if isinstance(parameter, Choice)
                    else parameter.decode(rng.random())
                    for parameter in self.parameters
                }
            )
            if not self._rules or self._obeys(config):
                return config
        if self._product is not None and self._product <= MAX_COUNTED:
            return rng.choice(list(self.configs()))
        raise self._impossible(f"allowed none of {_MAX_DRAWS:,} configurations that were drawn")

    def encode(self, config: Mapping[str, Any]) -> tuple[float, ...]:
        """The place of a configuration in the unit cube; 0.5 for a parameter that does not exist in it."""
        return tuple(
            parameter.encode(config[parameter.name]) if parameter.name in config else 0.5
            for parameter in self.parameters
        )

    def decode(self, units: Sequence[float]) -> Configuration:
        """The configuration at a place of the unit cube; it may break a constraint."""
        return self._active(
            {
                parameter.name: parameter.decode(unit)
                for parameter, unit in zip(self.parameters, units, strict=True)
            }
        )

    def key(self, config: Mapping[str, Any]) -> str:
        """A text that two configurations share if, and only if, they are the same run."""
        return ";".join(
            [
                f"{parameter.name}={parameter.checked(config[parameter.name])!r}"
                for parameter in self.parameters
                if parameter.name in config
            ]
        )

    def allows(self, config: Mapping[str, Any]) -> bool:
        """Tell whether a configuration is in the space: it names what exists, in range, and obeys the constraints."""
        try:
            for name, value in config.items():
                self._by_name[name].checked(value)
        except (KeyError, FieldError):
            return False
        return self._exists(config) and self._obeys(config)

    def neighbours(self, config: Configuration, step: float) -> list[Configuration]:
        """Allowed configurations that differ in one parameter, parameter by parameter, the higher value first.

        Args:
            config: where one stands.
            step: distance in the unit cube; a parameter with few values moves by one value at least.
        """
        near = []
        for parameter in self.parameters:
            if parameter.name not in config:
                continue
            for value in _beside(parameter, config[parameter.name], step):
                other = self.complete({**config, parameter.name: value})
                if self._obeys(other):
                    near.append(other)
        return near

    def complete(self, config: Mapping[str, Any]) -> Configuration:
        """Fill in what a configuration leaves out, from the start or the middle, and drop what does not exist."""
        known = {**(self.start or {}), **config}
        return self._active(
            {
                parameter.name: known[parameter.name] if parameter.name in known else parameter.decode(0.5)
                for parameter in self.parameters
            }
        )

    @cached_property
    def _by_name(self) -> dict[str, Parameter]:
        return {parameter.name: parameter for parameter in self.parameters}

    @cached_property
    def _when(self) -> dict[str, Condition]:
        return {each.name: Condition(each.when, f"{each.name}.when") for each in self.parameters if each.when}

    @cached_property
    def _rules(self) -> list[Condition]:
        return [Condition(text) for text in self.constraints]

    @cached_property
    def _product(self) -> int | None:
        counts = [parameter.num_values for parameter in self.parameters]
        return None if None in counts else math.prod(count for count in counts if count is not None)

    @cached_property
    def _order(self) -> list[str]:
        """Names of the conditional parameters, each after those that it depends on."""
        order: list[str] = []
        left = dict(self._when)
        while left:
            free = [name for name, condition in left.items() if not condition.names & left.keys()]
            if not free:
                name, condition = next(iter(left.items()))
                fix = "Let one of them exist always."
                raise FieldError(f"{name}.when", condition.text, "depends on itself in a circle", fix)
            order += free
            for name in free:
                del left[name]
        return order

    def _active(self, full: Configuration) -> Configuration:
        """The configuration without what does not exist; a parameter whose condition names one that is absent is."""
        for name in self._order:
            condition = self._when[name]
            if not (condition.names <= full.keys() and condition.holds(full)):
                del full[name]
        return full

    def _exists(self, config: Mapping[str, Any]) -> bool:
        """Exactly those parameters are there that exist."""
        for name in self.names:
            condition = self._when.get(name)
            if (name in config) != (
                condition is None or (condition.names <= config.keys() and condition.holds(config))
            ):
                return False
        return True

    def _obeys(self, config: Mapping[str, Any]) -> bool:
        return all(rule.holds(config) for rule in self._rules if rule.names <= config.keys())

    def _check_possible(self) -> None:
        if self._product is not None and self._product <= MAX_COUNTED:
            if next(self.configs(), None) is None:
                raise self._impossible(f"allow none of the {self._product:,} configurations")
            return
        self.sample(random.Random(0))

    def _impossible(self, rule: str) -> FieldError:
        fix = "Drop the one that contradicts the ranges or the others."
        return FieldError("constraints", list(self.constraints), rule, fix)

    def _check_start(self, start: Configuration) -> None:
        for name, value in start.items():
            if name not in self._by_name:
                raise UnknownNameError("start", name, self.names)
            self._by_name[name].checked(value)
        full = self.complete(start)
        for rule in self._rules:
            if rule.names <= full.keys() and not rule.holds(full):
                raise FieldError(
                    "start", full, f"breaks the constraint {rule.text!r}", "Choose a start that is allowed."
                )
        object.__setattr__(self, "start", full)


def _beside(parameter: Parameter, value: Any, step: float) -> list[Any]:
    """Values next to a value, the higher one first; all others where there is no order."""
    if isinstance(parameter, Choice):
        if not parameter.ordered:
            return [other for other in parameter.values if other != value]
        rising = sorted(parameter.values, key=parameter.encode)
    place = parameter.encode(value)
    found = []
    for sign in (1, -1):
        if isinstance(parameter, Choice):
            further = [each for each in rising if sign * (parameter.encode(each) - place) > 0]
            if further:  # the one nearest to a whole step, so at least the next one
                found.append(min(further, key=lambda each: abs(parameter.encode(each) - place - sign * step)))
            continue
        other = parameter.decode(min(max(place + sign * step, 0.0), 1.0))
        if isinstance(parameter, Integer) and other == value:
            other = value + sign
        if other != value and parameter.low <= other <= parameter.high:
            found.append(other)
    return found
