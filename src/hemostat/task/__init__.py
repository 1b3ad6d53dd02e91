"""What a user writes: the task, its loading, and the one door to its loss."""

from hemostat.task.batch import to_device
from hemostat.task.calling import build_model, call
from hemostat.task.loading import LoadedTask, load_task
from hemostat.task.losses import LossDoor
from hemostat.task.modes import evaluation_mode
from hemostat.task.optimizer import own_optimizer, recipe_optimizer
from hemostat.task.profile import block_costs
from hemostat.task.task import Task
from hemostat.task.tracing import profile_of

__all__ = [
    "LoadedTask",
    "LossDoor",
    "Task",
    "block_costs",
    "build_model",
    "call",
    "evaluation_mode",
    "load_task",
    "own_optimizer",
    "profile_of",
    "recipe_optimizer",
    "to_device",
]
