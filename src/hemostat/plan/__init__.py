"""Predictions before paying: what fits, how fast, for how much; layouts of processes and schedules of their stages."""

from hemostat.plan.layout import Layout
from hemostat.plan.pipelines import Action, Pipeline, pipeline
from hemostat.plan.plan import Plan
from hemostat.plan.prices import price_usd_per_hour
from hemostat.plan.profile import Kept, Part, Product, Profile
from hemostat.plan.search import Choice
from hemostat.plan.stages import balance

__all__ = [
    "Action",
    "Choice",
    "Kept",
    "Layout",
    "Part",
    "Pipeline",
    "Plan",
    "Product",
    "Profile",
    "balance",
    "pipeline",
    "price_usd_per_hour",
]
