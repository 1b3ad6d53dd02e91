"""What a person reads: the recipe as a table, the summary of a run and its pictures."""

from hemostat.report.compare import compare_lines, compare_runs, draw_compare
from hemostat.report.notify import Message, Notifier, NotifySettings
from hemostat.report.picture import draw_loss
from hemostat.report.recipe_table import recipe_lines
from hemostat.report.summary import run_summary

__all__ = [
    "Message",
    "Notifier",
    "NotifySettings",
    "compare_lines",
    "compare_runs",
    "draw_compare",
    "draw_loss",
    "recipe_lines",
    "run_summary",
]
