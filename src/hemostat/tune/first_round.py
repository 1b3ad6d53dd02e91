"""First round: what is known to work, or what smaller runs foretell, with its neighbours; then the sampler decides."""

from __future__ import annotations

from typing import Final

from hemostat.tune.scaling_law import Start
from hemostat.tune.settings import Given
from hemostat.tune.space import Space

NEIGHBOUR_STEP: Final = 0.2  # of a range: a factor 2.5 where a learning rate has two decades


def first_round(space: Space, num_workers: int, law: Start | None = None) -> tuple[Given, ...]:
    """One configuration for each worker.

    A prior ends here: the sampler that comes next reads results only, so that one round is all that a wrong start
    can cost.

    Args:
        space: with its start, if there is one.
        num_workers: trials side by side.
        law: a start from smaller runs; it goes before the recipe's.

    Returns:
        The law's first trial, the recipe's, then the law's neighbours, then the recipe's; empty without either.

    Examples:
        >>> from hemostat.tune.space import Choice, Real
        >>> space = Space((Real("lr", 1e-4, 1e-2), Choice("batch", (32, 64))), start={"lr": 1e-3, "batch": 32})
        >>> [(given.origin, given.config["lr"], given.config["batch"]) for given in first_round(space, 4)]
        [('recipe', 0.001, 32), ('neighbour', 0.002512, 32), ('neighbour', 0.0003981, 32), ('neighbour', 0.001, 64)]
    """
    foretold = (
        [Given(origin="scaling law", config=each) for each in law.configs(space, num_workers)] if law else []
    )
    known = [] if space.start is None else [Given(origin="recipe", config=space.start)]
    near = [] if space.start is None else space.neighbours(space.start, NEIGHBOUR_STEP)
    order = [
        *foretold[:1],
        *known,
        *foretold[1:],
        *(Given(origin="neighbour", config=config) for config in near),
    ]
    first = {space.key(given.config): given for given in reversed(order)}
    kept = [given for given in order if first[space.key(given.config)] is given]
    return tuple(kept[:num_workers])
