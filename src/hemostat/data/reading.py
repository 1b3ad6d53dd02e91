"""What a thread is reading now: the sample, for messages about stalls, and the key of its random numbers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

Cell = list[int] | memoryview  # one number that another thread or process may look at
_MASK64: Final = (1 << 64) - 1


class Reading(threading.local):
    """One per thread; the loaders fill it in before each fetch.

    Attributes:
        seed: of the loader.
        epoch: of the batch that is being read.
        cell: its item 0 is the sample that is being read, -1 where that is not known.
    """

    seed = 0
    epoch = 0

    def __init__(self) -> None:
        self.cell: Cell = [-1]


READING: Final = Reading()


def sample_rng(index: int) -> np.random.Generator:
    """Random numbers for the augmentation of one sample, for use inside `__getitem__` or `__getitems__`.

    They follow from (seed of the run, epoch, index) and nothing else: the same on any rank, in any thread or
    worker process, and after a resume; other ones in the next epoch. Evaluation always reads epoch 0 of seed 0,
    and so does a data set that is used without a loader.

    Args:
        index: the sample, as the data set was asked for it.

    Examples:
        >>> sample_rng(7).random() == sample_rng(7).random()
        True
        >>> sample_rng(7).random() == sample_rng(8).random()
        False

    Source: Salmon et al. 2011 (Philox, a counter-based generator: any key is as good as any other).
    """
    import numpy as np

    key = np.array([_key(READING.seed, READING.epoch), index & _MASK64], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def _key(seed: int, epoch: int) -> int:
    return (seed * 0x9E3779B97F4A7C15 + epoch * 0xD1342543DE82EF95 + 1) & _MASK64
