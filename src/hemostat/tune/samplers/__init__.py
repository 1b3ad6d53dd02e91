"""Ways of choosing the next configuration, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hemostat.errors import UnknownNameError
from hemostat.tune.sampler import Sampler
from hemostat.tune.samplers.gp import Gp
from hemostat.tune.samplers.grid import Grid
from hemostat.tune.samplers.kde import Kde
from hemostat.tune.samplers.optuna import Optuna
from hemostat.tune.samplers.random import Random

DEFAULT: Final = "gp"
SAMPLERS: Final[dict[str, Callable[[], Sampler]]] = {
    "gp": Gp,
    "grid": Grid,
    "kde": Kde,
    "optuna": Optuna,
    "optuna-gp": lambda: Optuna("optuna-gp"),
    "random": Random,
}


def sampler(name: str = DEFAULT) -> Sampler:
    """A new sampler; it belongs to one study.

    Raises:
        UnknownNameError: there is none of that name.

    Examples:
        >>> sampler("random").name
        'random'
    """
    if name not in SAMPLERS:
        raise UnknownNameError("sampler", name, SAMPLERS)
    return SAMPLERS[name]()
