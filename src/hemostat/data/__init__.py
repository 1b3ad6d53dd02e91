"""Feeding the ranks: the order, the shares, the fetch, who reads, the waits."""

from hemostat.data.choose import Workers
from hemostat.data.fetch import Source
from hemostat.data.images import ImageFolder
from hemostat.data.jobs import MicroBatch
from hemostat.data.loader import EvalLoader, TrainLoader
from hemostat.data.order import Order
from hemostat.data.prepared import PreparedData
from hemostat.data.reading import sample_rng
from hemostat.data.stream import Stream
from hemostat.data.tokens import TokenFile
from hemostat.data.windows import Feed

__all__ = [
    "EvalLoader",
    "Feed",
    "ImageFolder",
    "MicroBatch",
    "Order",
    "PreparedData",
    "Source",
    "Stream",
    "TokenFile",
    "TrainLoader",
    "Workers",
    "sample_rng",
]
