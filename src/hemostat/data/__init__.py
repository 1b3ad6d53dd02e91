"""Feeding the ranks: the order, the shares, the fetch, the waits."""

from hemostat.data.fetch import Source
from hemostat.data.loader import EvalLoader, MicroBatch, TrainLoader
from hemostat.data.order import PERMUTATION, Order
from hemostat.data.waits import Waits
from hemostat.data.windows import Feed, Window, num_micro_batches, windows

__all__ = [
    "PERMUTATION",
    "EvalLoader",
    "Feed",
    "MicroBatch",
    "Order",
    "Source",
    "TrainLoader",
    "Waits",
    "Window",
    "num_micro_batches",
    "windows",
]
