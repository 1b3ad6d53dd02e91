"""The ways of deciding which trials go on, one file each."""

from __future__ import annotations

from hemostat.errors import UnknownNameError
from hemostat.tune.pruner import Pruner
from hemostat.tune.pruners.asha import AshaPruner
from hemostat.tune.pruners.halving import HalvingPruner
from hemostat.tune.pruners.hyperband import HyperbandPruner
from hemostat.tune.pruners.none import NonePruner
from hemostat.tune.pruners.promotion import PromotionPruner

PRUNERS: dict[str, type[Pruner]] = {
    "none": NonePruner,
    "halving": HalvingPruner,
    "hyperband": HyperbandPruner,
    "asha": AshaPruner,
    "promotion": PromotionPruner,
}


def pruner(name: str) -> Pruner:
    """Find a pruner by its name.

    Raises:
        UnknownNameError: no pruner of that name; the known ones are listed.

    Examples:
        >>> pruner("asha").rungs(length=50, step=1)
        (1, 4, 16, 50)
    """
    if name not in PRUNERS:
        raise UnknownNameError("pruner", name, PRUNERS)
    return PRUNERS[name]()
