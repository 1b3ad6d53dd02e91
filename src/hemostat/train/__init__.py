"""The engine: one session, driven by the trainer over a task or by a plain loop."""

from hemostat.train.check_loss import check_loss
from hemostat.train.export import export_run
from hemostat.train.handover import load
from hemostat.train.judge import evaluate_rank
from hemostat.train.loop import train
from hemostat.train.planned import task_profile
from hemostat.train.prepared import prepare
from hemostat.train.rank import run_rank
from hemostat.train.session import Session
from hemostat.train.settings import TrainSettings
from hemostat.train.verify import judge_jobs
from hemostat.train.verify_job import verify_rank

__all__ = [
    "Session",
    "TrainSettings",
    "check_loss",
    "evaluate_rank",
    "export_run",
    "judge_jobs",
    "load",
    "prepare",
    "run_rank",
    "task_profile",
    "train",
    "verify_rank",
]
