"""Loss curves with a known seed, and recorded ones where they lie beside the repository."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data"


@pytest.fixture(name="clean_run")
def _clean_run():
    return clean_run


@pytest.fixture(name="noise")
def _noise():
    return noise


@pytest.fixture(name="recorded")
def _recorded() -> Path:
    if not RECORDED.is_dir():
        pytest.skip("the recorded curves are not here")
    return RECORDED


def noise(rng: random.Random, num: int, correlation: float = 0.0) -> Iterator[float]:
    """Normal numbers of variance 1, each correlated with the one before."""
    value = rng.gauss(0.0, 1.0)
    for _ in range(num):
        yield value
        value = correlation * value + math.sqrt(1.0 - correlation**2) * rng.gauss(0.0, 1.0)


def clean_run(seed: int, num_steps: int, relative_noise: float) -> Iterator[tuple[float, float]]:
    """(loss, gradient norm) of a run that falls to a floor and has log-normal noise."""
    rng = random.Random(seed)
    start, floor, tau = rng.uniform(2, 11), rng.uniform(0.01, 2), rng.uniform(0.02, 0.4) * num_steps
    for step, wobble in enumerate(noise(rng, num_steps)):
        fall = floor + (start - floor) * math.exp(-step / tau)
        yield (
            fall * math.exp(relative_noise * wobble),
            math.exp(0.3 * rng.gauss(0.0, 1.0)) * (1 + step / num_steps),
        )
