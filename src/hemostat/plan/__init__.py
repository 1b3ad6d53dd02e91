"""Predictions before paying: layouts of processes, and the dated table of prices."""

from hemostat.plan.layout import Layout, layout_values
from hemostat.plan.prices import Price, known_instances, price_usd_per_hour

__all__ = ["Layout", "Price", "known_instances", "layout_values", "price_usd_per_hour"]
