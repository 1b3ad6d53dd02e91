"""Grid search: every configuration in order; here only so that people can see what it would cost them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hemostat.errors import FieldError
from hemostat.tune.samplers.taken import Taken
from hemostat.tune.space import Choice, Parameter, Space
from hemostat.tune.trial import Configuration, History


class Grid:
    """Goes through the whole grid, the last parameter moving fastest.

    Args:
        num_levels: values of a real number, and of an integer that has more, spread over its scale.

    Raises:
        FieldError: fewer than two levels.

    Examples:
        >>> from hemostat.tune.space import Integer, Real
        >>> space = Space((Real("lr", 1e-4, 1e-2), Integer("layers", 1, 2)))
        >>> list(Grid(3).gridded(space).configs())[:3]
        [{'lr': 0.0001, 'layers': 1}, {'lr': 0.0001, 'layers': 2}, {'lr': 0.001, 'layers': 1}]
    """

    name = "grid"

    def __init__(self, num_levels: int = 5) -> None:
        if num_levels < 2:
            raise FieldError("num_levels", num_levels, "must be at least 2", "Three show a trend.")
        self._num_levels = num_levels
        self._taken = Taken()
        self._left: Iterator[Configuration] = iter(())
        self._next: Configuration | None = None

    def propose(self, space: Space, history: History, rng: random.Random) -> Configuration | None:
        """The first configuration of the grid that no trial has had; None at its end."""
        before = self._taken.configs
        self._taken.update(space, history)
        if self._taken.num_kept < len(before) or not before:
            self._left = self.gridded(space).configs()
            self._next = next(self._left, None)
        while self._next is not None and space.key(self._next) in self._taken.keys:
            self._next = next(self._left, None)
        return None if self._next is None else dict(self._next)

    def gridded(self, space: Space) -> Space:
        """The space with the levels of the grid for values."""
        return Space(tuple(self._levels(parameter) for parameter in space.parameters), space.constraints)

    def _levels(self, parameter: Parameter) -> Parameter:
        if parameter.num_values is not None and (
            isinstance(parameter, Choice) or parameter.num_values <= self._num_levels
        ):
            return parameter
        units = [level / (self._num_levels - 1) for level in range(self._num_levels)]
        return Choice(parameter.name, tuple(dict.fromkeys(map(parameter.decode, units))), parameter.when)
