"""From allocated bytes to reserved ones, and to what the device shows; each with its error."""

from __future__ import annotations

from typing import Final

from hemostat.config import Config

GIB: Final = 2**30
# Reserved over allocated: the median of SimuMax's rows that bench/plan_memory.py may fit on.
RESERVED_RATIO: Final = 1.053
# Published over predicted reserved bytes: 5 % of the rows that may be fitted on are below, 5 % above; SimuMax's and
# torchtitan's count alike. Source: `reserved_low_5_pct`, `reserved_high_95_pct` of bench/plan_memory.py.
RESERVED_RANGE: Final = (0.956, 1.069)
SEGMENT_BYTES: Final = 2 * 2**20  # large blocks come in multiples of it
# The least, the usual and the most that was measured (stas00/ml-engineering, training/performance: A100, torch 2.1,
# lazy and eager loading of kernels).
CONTEXT_BYTES: Final = (0.47 * GIB, 0.55 * GIB, 0.92 * GIB)
COMMUNICATOR_BYTES: Final = (
    1.45 * GIB
)  # measured there once, for one group of two ranks; more groups take more


class Size(Config, frozen=True, kw_only=True):
    """A predicted number of bytes, and between what nine of ten published figures were.

    Attributes:
        num_bytes: predicted.
        low_bytes: the lower end of the error bar.
        high_bytes: its upper end.
    """

    num_bytes: float
    low_bytes: float
    high_bytes: float

    def __str__(self) -> str:
        """In GiB.

        Examples:
            >>> str(Size(num_bytes=2**31, low_bytes=2**30, high_bytes=2**32))
            '2.0 GiB (1.0 to 4.0)'
        """
        return f"{self.num_bytes / GIB:.1f} GiB ({self.low_bytes / GIB:.1f} to {self.high_bytes / GIB:.1f})"


def reserved(allocated: Size, aside_bytes: float = 0.0) -> Size:
    """What the caching allocator takes from the device for so many allocated bytes.

    Args:
        allocated: at the peak.
        aside_bytes: freed by then, but in blocks of other streams, which it does not give to this one.

    Source: SimuMax v1.2 `docs/b200`, allocated and reserved of 19 configurations; the median ratio of those that are
        not held out is `RESERVED_RATIO` (bench/plan_memory.py). `c10/cuda/CUDACachingAllocator.cpp` for the multiple
        of 2 MiB.

    Examples:
        >>> reserved(Size(num_bytes=100e9, low_bytes=100e9, high_bytes=100e9)).num_bytes / 1e9 < 105.4
        True
    """
    num_bytes = allocated.num_bytes * RESERVED_RATIO + aside_bytes
    low, high = (_whole_segments(num_bytes * end) for end in RESERVED_RANGE)
    return Size(num_bytes=_whole_segments(num_bytes), low_bytes=low, high_bytes=high)


def on_device(reserved_size: Size, num_ranks: int) -> Size:
    """What `nvidia-smi` shows for the process: reserved, the context, and the communicators.

    Args:
        reserved_size: of the allocator.
        num_ranks: of the job; one alone has no communicator.

    Source: A100, torch 2.1: 0.55 GiB before the first NCCL barrier of two ranks and 2.0 GiB after it; contexts of 0.47
        to 0.92 GiB (stas00/ml-engineering, `training/performance`).

    Examples:
        >>> nothing = Size(num_bytes=0, low_bytes=0, high_bytes=0)
        >>> on_device(nothing, 8).num_bytes / GIB
        2.0
    """
    low, usual, high = (size + (COMMUNICATOR_BYTES if num_ranks > 1 else 0) for size in CONTEXT_BYTES)
    return Size(
        num_bytes=reserved_size.num_bytes + usual,
        low_bytes=reserved_size.low_bytes + low,
        high_bytes=reserved_size.high_bytes + high,
    )


def _whole_segments(num_bytes: float) -> float:
    return -(-num_bytes // SEGMENT_BYTES) * SEGMENT_BYTES
