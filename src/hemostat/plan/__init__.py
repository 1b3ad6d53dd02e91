"""Predictions before paying: layouts of processes, schedules of their stages, and the dated table of prices."""

from hemostat.plan.layout import Layout, layout_values
from hemostat.plan.pipelines import Action, Pipeline, pipeline, pipeline_bubble
from hemostat.plan.prices import Price, known_instances, price_usd_per_hour
from hemostat.plan.stages import balance

__all__ = [
    "Action",
    "Layout",
    "Pipeline",
    "Price",
    "balance",
    "known_instances",
    "layout_values",
    "pipeline",
    "pipeline_bubble",
    "price_usd_per_hour",
]
