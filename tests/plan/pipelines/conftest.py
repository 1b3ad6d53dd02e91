"""Seconds of passes that are drawn once and the same in every run."""

from __future__ import annotations

import random

import pytest

from hemostat.plan.pipelines import StageTime


@pytest.fixture(scope="session")
def draw_times() -> list[StageTime]:
    """Twelve stages, with parts of equal length and of 30 times another among them."""
    drawn = random.Random(0)
    return [
        StageTime(*(drawn.choice((0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)) for _ in range(3))) for _ in range(12)
    ]
