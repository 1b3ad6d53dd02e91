"""What do my one-device hyper-parameters become on N devices? Pure arithmetic, no torch, no numpy."""

from __future__ import annotations

from hemostat.recipe import online
from hemostat.recipe.batch import Devices
from hemostat.recipe.convert import convert
from hemostat.recipe.critical import BatchRun, fit_critical_batch
from hemostat.recipe.length import convert_length
from hemostat.recipe.one_device import Base
from hemostat.recipe.patience import Stopper, Verdict
from hemostat.recipe.recipe import Recipe
from hemostat.recipe.scaling import scale_lr
from hemostat.recipe.schedule import Schedule

__all__ = [
    "Base",
    "BatchRun",
    "Devices",
    "Recipe",
    "Schedule",
    "Stopper",
    "Verdict",
    "convert",
    "convert_length",
    "fit_critical_batch",
    "online",
    "scale_lr",
]
