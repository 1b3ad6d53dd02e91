"""Which samples of which part of a stream make a step: arithmetic that every rank comes to alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


class Parts:
    """The parts of a stream, side by side: row i holds sample i of every part that has one.

    Positions count along the rows, so that any stretch of them takes about as much from each part. A sample's id is
    its number in the parts joined end to end. Inside a window the ids ascend, part after part: with W ranks and a
    multiple of W parts of one length, each rank finds its share in its own parts, if the window is a multiple of
    the parts.

    Args:
        lengths: samples of each part, all above 0.

    Examples:
        >>> parts = Parts([3, 3])
        >>> [parts.window(start, start + 2).tolist() for start in (0, 2, 4)]
        [[0, 3], [1, 4], [2, 5]]
        >>> list(parts.runs(np.array([1, 2, 3])))
        [(0, 1, 2), (1, 0, 1)]
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = np.array(lengths, dtype=np.int64)
        self._firsts = np.cumsum(self.lengths) - self.lengths
        # between two of these rows no part ends
        self._rows = np.concatenate([[0], np.unique(self.lengths)])
        self._positions = np.array([np.minimum(self.lengths, row).sum() for row in self._rows])

    def __len__(self) -> int:
        return len(self.lengths)

    def window(self, start: int, stop: int) -> NDArray[np.int64]:
        """Ids of the positions `start .. stop - 1`, ascending."""
        if len(self.lengths) == 1:
            return np.arange(start, stop)
        taken = self._taken(start)
        counts = self._taken(stop) - taken
        shifts = self._firsts + taken - (np.cumsum(counts) - counts)
        ids: NDArray[np.int64] = np.arange(stop - start) + np.repeat(shifts, counts)
        return ids

    def _taken(self, position: int) -> NDArray[np.int64]:
        """Samples of each part before a position."""
        stretch = int(np.searchsorted(self._positions, position, side="right")) - 1
        if stretch == len(self._rows) - 1:
            return self.lengths
        row, beyond = int(self._rows[stretch]), position - int(self._positions[stretch])
        whole, rest = divmod(beyond, int((self.lengths > row).sum()))
        taken: NDArray[np.int64] = np.minimum(self.lengths, row + whole)
        taken[np.flatnonzero(self.lengths > row + whole)[:rest]] += 1
        return taken

    def runs(self, ids: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
        """Ascending ids, adjoining in each part, as (part, first sample in it, how many)."""
        if len(self.lengths) == 1:
            yield 0, int(ids[0]), len(ids)
            return
        found, places, counts = np.unique(
            np.searchsorted(self._firsts, ids, side="right") - 1, return_index=True, return_counts=True
        )
        for part, place, count in zip(found.tolist(), places.tolist(), counts.tolist(), strict=True):
            yield part, int(ids[place] - self._firsts[part]), count
