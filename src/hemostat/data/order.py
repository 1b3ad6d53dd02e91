"""The order of the samples: a keyed permutation that is computed, never stored, so any position is O(1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hemostat.errors import FieldError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PERMUTATION: Final = "feistel6-v1"
_NUM_ROUNDS: Final = 6
_MIN_BITS: Final = 6  # below that some permutations of few samples never come up
_MASK64: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIX_A: Final = 0xBF58476D1CE4E5B9
_MIX_B: Final = 0x94D049BB133111EB


class Order:
    """A fresh order of `num_samples` samples in every epoch, the same on every rank and machine.

    A Feistel network permutes `0 .. 2**bits - 1`; values at or above `num_samples` are sent through it again
    until they fall inside (cycle walking). Only integer arithmetic is used, so the order does not depend on
    the version of any library. The scheme is called `feistel6-v1`; its values never change.

    Args:
        num_samples: size of the data set.
        seed: any integer; the low 64 bits count.

    Raises:
        FieldError: `num_samples` outside 1 .. 2**62.

    Examples:
        >>> order = Order(10, seed=0)
        >>> sorted(order.indices(0, 0, 10).tolist()) == list(range(10))
        True
        >>> Order(10**9, seed=0).indices(3, 10**7, 10**7 + 2).shape
        (2,)

    Source: Luby and Rackoff 1988 (Feistel networks); Black and Rogaway 2002, section 3 (cycle walking);
        Vigna, splitmix64.c (keys; the mixing constants are Stafford's variant 13).
    """

    permutation: Final = PERMUTATION

    def __init__(self, num_samples: int, seed: int) -> None:
        if not 1 <= num_samples <= 1 << 62:
            raise FieldError(
                "num_samples", num_samples, "must be between 1 and 2**62", "Give the size of the data."
            )
        self.num_samples = num_samples
        self.seed = seed
        bits = max(_MIN_BITS, (num_samples - 1).bit_length())
        self._low_bits = bits // 2
        self._high_bits = bits - self._low_bits

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """The samples at positions `start .. stop - 1` of an epoch, as int64 of shape (stop - start,).

        Raises:
            FieldError: a position outside the epoch.
        """
        import numpy as np

        return self.at(epoch, np.arange(start, stop, dtype=np.int64))

    def at(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The samples at the given positions of an epoch, in the shape of `positions`.

        Raises:
            FieldError: a position outside the epoch.
        """
        import numpy as np

        if positions.size and not (positions.min() >= 0 and positions.max() < self.num_samples):
            raise FieldError(
                "positions",
                f"{positions.min()}..{positions.max()}",
                f"must lie in 0..{self.num_samples - 1}",
                "Positions count from the start of the epoch.",
            )
        keys = [np.uint64(key) for key in _round_keys(self.seed, epoch)]
        values = self._permute(positions.astype(np.uint64), keys)
        limit = np.uint64(self.num_samples)
        outside = np.flatnonzero(values >= limit)
        while outside.size:
            walked = self._permute(values[outside], keys)
            values[outside] = walked
            outside = outside[walked >= limit]
        return values.view(np.int64)

    def _permute(self, values: NDArray[np.uint64], keys: list[np.uint64]) -> NDArray[np.uint64]:
        import numpy as np

        low_bits = np.uint64(self._low_bits)
        high = values >> low_bits
        low = values & np.uint64((1 << self._low_bits) - 1)
        for number in range(0, _NUM_ROUNDS, 2):
            high ^= _scramble(low, keys[number], self._high_bits)
            low ^= _scramble(high, keys[number + 1], self._low_bits)
        return (high << low_bits) | low


def _scramble(half: NDArray[np.uint64], key: np.uint64, num_bits: int) -> NDArray[np.uint64]:
    """The round function: the top `num_bits` of a 64-bit mix of one half and the round key."""
    import numpy as np

    mixed = half + key
    mixed *= np.uint64(_MIX_A)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(_MIX_B)
    mixed >>= np.uint64(64 - num_bits)
    return mixed


def _round_keys(seed: int, epoch: int) -> list[int]:
    """Six 64-bit keys by SplitMix64, from a state that holds both the seed and the epoch."""
    state = _splitmix((_splitmix(seed & _MASK64) + epoch) & _MASK64)
    return [_splitmix((state + number * _GOLDEN) & _MASK64) for number in range(1, _NUM_ROUNDS + 1)]


def _splitmix(state: int) -> int:
    state = (state + _GOLDEN) & _MASK64
    state = ((state ^ (state >> 30)) * _MIX_A) & _MASK64
    state = ((state ^ (state >> 27)) * _MIX_B) & _MASK64
    return state ^ (state >> 31)
