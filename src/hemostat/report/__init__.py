"""What a person reads after a run: the summary and its pictures."""

from hemostat.report.picture import draw_loss
from hemostat.report.summary import run_summary

__all__ = ["draw_loss", "run_summary"]
