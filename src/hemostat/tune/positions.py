"""Positions: where the evaluations of a run stand on the scale on which a study compares its trials."""

from __future__ import annotations

from collections.abc import Sequence

_HALF = (
    0.55  # of the distance between two evaluations; windows that end with an epoch pull them forward a little
)


def on_scale(points: Sequence[tuple[int, float]], length: int, step: int) -> list[tuple[int, float]]:
    """Give every multiple of a study's step the evaluation that is nearest to it, as soon as that one is there.

    Trials with other batches are evaluated after other numbers of samples; where they are compared is the same for
    all. The untrained model is left out, and the end of a run is the run's own end.

    Args:
        points: (position, value), increasing.
        length: where a run ends.
        step: distance between two places of comparison.

    Examples:
        >>> on_scale([(0, 9.0), (992, 0.9), (1984, 0.8), (2976, 0.7), (3000, 0.7)], length=3000, step=1000)
        [(1000, 0.9), (2000, 0.8), (3000, 0.7)]
        >>> on_scale([(1536, 0.9)], length=3000, step=1000)
        [(1000, 0.9), (2000, 0.9)]
    """
    trained = [point for point in points if point[0] > 0]
    found: list[tuple[int, float]] = []
    done = 0
    for at, value in trained:
        near = int(at + _HALF * trained[0][0])
        reached = length if at >= length else min(near // step * step, (length - 1) // step * step)
        found += [(place, value) for place in range(done + step, reached + 1, step)]
        done = max(done, reached // step * step)
        if at >= length:
            return found if length % step == 0 else [*found, (length, value)]
    return found
