"""Predictions before paying; so far the dated table of prices."""

from hemostat.plan.prices import Price, known_instances, price_usd_per_hour

__all__ = ["Price", "known_instances", "price_usd_per_hour"]
