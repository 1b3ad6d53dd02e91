"""What a loader hands out, and what it plans before it is fetched."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor


class MicroBatch(NamedTuple):
    """What one rank computes on before it looks for the next one.

    Attributes:
        data: a tree of tensors, as the data set gives it.
        num_samples: real samples in it on this rank; 0 marks a filler that must weigh nothing.
        window_samples: real samples of the whole window, over all ranks.
        last: the last micro-batch of its window.
        position: samples consumed by all ranks once this window has been applied.
    """

    data: Any
    num_samples: int
    window_samples: int
    last: bool
    position: int


class Job(NamedTuple):
    """A micro-batch that has not been fetched yet; the last four fields are those of `MicroBatch`."""

    indices: Tensor
    epoch: int
    num_samples: int
    window_samples: int
    last: bool
    position: int

    def filled(self, data: Any) -> MicroBatch:
        """The micro-batch, once its data are there."""
        return MicroBatch(data, self[2], self[3], self[4], self[5])
