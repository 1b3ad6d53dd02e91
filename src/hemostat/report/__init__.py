"""What a person reads: the recipe as a table, a plan, the summary of a run and its pictures."""

from hemostat.report.compare import Comparison
from hemostat.report.notify import Message, Notifier, NotifySettings
from hemostat.report.picture import draw_loss
from hemostat.report.plan_files import write_plan_files
from hemostat.report.plan_picture import draw_plan
from hemostat.report.plan_text import plan_text
from hemostat.report.recipe_table import recipe_lines
from hemostat.report.study_page import StudyPage
from hemostat.report.summary import run_summary

__all__ = [
    "Comparison",
    "Message",
    "Notifier",
    "NotifySettings",
    "StudyPage",
    "draw_loss",
    "draw_plan",
    "plan_text",
    "recipe_lines",
    "run_summary",
    "write_plan_files",
]
