"""Tune: the best hyper-parameters inside a budget; trials are runs, started by a launch backend; no torch."""

from hemostat.tune.answer import Answer, answer
from hemostat.tune.budget import Budget
from hemostat.tune.drive import drive
from hemostat.tune.importance import Importance, ranked
from hemostat.tune.journal import Journal
from hemostat.tune.settings import Settings
from hemostat.tune.space import Space
from hemostat.tune.study import Study
from hemostat.tune.trial import History

__all__ = [
    "Answer",
    "Budget",
    "History",
    "Importance",
    "Journal",
    "Settings",
    "Space",
    "Study",
    "answer",
    "drive",
    "ranked",
]
