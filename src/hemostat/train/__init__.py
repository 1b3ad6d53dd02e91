"""The engine: one session, driven by the trainer over a task or by a plain loop."""

from hemostat.train.check_loss import check_loss
from hemostat.train.export import export_run
from hemostat.train.handover import load
from hemostat.train.judge import evaluate_rank
from hemostat.train.loop import train
from hemostat.train.outcome import Outcome
from hemostat.train.prepared import prepare
from hemostat.train.rank import run_rank, split_values
from hemostat.train.session import Session
from hemostat.train.settings import TrainSettings
from hemostat.train.update import Step

__all__ = [
    "Outcome",
    "Session",
    "Step",
    "TrainSettings",
    "check_loss",
    "evaluate_rank",
    "export_run",
    "load",
    "prepare",
    "run_rank",
    "split_values",
    "train",
]
