"""The schedules as a whole: what may be asked for, and bubble and memory against the literature on a grid of sizes."""

from __future__ import annotations

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.layout import SCHEDULES
from hemostat.plan.pipelines import PATTERNS, Size, in_flight, pipeline, pipeline_bubble, simulate

FAMILIES = [("gpipe", 1), ("1f1b", 1), ("zero_bubble", 1), *(("interleaved", v) for v in (1, 2, 3, 4))]
GRID = [(p, m) for p in range(2, 17) for m in range(1, 65)]


def literature(name: str, p: int, m: int, v: int) -> tuple[float | None, list[int]]:
    """Bubble and micro-batches in flight per rank, as the papers print them; None outside of what they cover."""
    first_on_rank_0 = [p - rank for rank in range(p)]
    if name == "gpipe":  # Narayanan et al. 2021, section 2.2.1
        return (p - 1) / m, [m] * p
    if name == "1f1b" or (v == 1 and name == "interleaved"):
        return (p - 1) / m, [min(m, held) for held in first_on_rank_0]
    if name == "zero_bubble":  # Qi et al. 2023, table 2, with F = I = W: p - 1 of 3 m
        return ((p - 1) / (3 * m) if m >= p else None), [min(m, p)] * p
    if m % p:  # Narayanan et al. 2021, section 2.2.2, asks for a multiple
        return None, []
    return (p - 1) / (v * m), [min(v * m, (v - 1) * p + 2 * (p - 1 - rank) + 1) for rank in range(p)]


@pytest.mark.parametrize(("name", "v"), FAMILIES)
def test_bubble_and_in_flight_equal_the_theory(name, v):
    num_covered = 0
    for p, m in GRID:
        size = Size(p, m, v)
        played = pipeline(name, *size)
        bubble, held = simulate(played).bubble, list(in_flight(played))
        assert bubble == pytest.approx(pipeline_bubble(name, *size), rel=1e-9), size
        assert held == [PATTERNS[name].in_flight(rank, size) for rank in range(p)], size
        printed, printed_held = literature(name, p, m, v)
        if printed is not None:
            num_covered += 1
            assert bubble == pytest.approx(printed, rel=0.01), size
        if printed_held:
            assert held == printed_held, size
    covered = {
        "zero_bubble": [(p, m) for p, m in GRID if m >= p],
        "interleaved": [(p, m) for p, m in GRID if v == 1 or m % p == 0],
    }
    assert num_covered == len(covered.get(name, GRID))


@pytest.mark.parametrize(("name", "v"), FAMILIES)
def test_the_bubble_of_passes_that_take_differently_long(name, v, draw_times):
    for time in draw_times:
        for p in (2, 3, 5, 8):
            for m in (1, 2, 3, 4, 5, 7, 8, 13, 16):
                size = Size(p, m, v)
                played = simulate(pipeline(name, *size), [time] * (p * v))
                assert played.bubble == pytest.approx(PATTERNS[name].bubble(size, time), rel=1e-9), (
                    size,
                    time,
                )


def test_the_layout_knows_the_same_schedules():
    assert set(PATTERNS) == set(SCHEDULES)


def test_one_rank_is_never_idle():
    for name in PATTERNS:
        assert simulate(pipeline(name, 1, 5)).bubble == pipeline_bubble(name, 1, 5) == 0.0


def test_more_stages_per_rank_wait_less():
    bubbles = [pipeline_bubble("interleaved", 4, 8, v) for v in (1, 2, 4)]
    assert bubbles == [0.375, 0.1875, 0.09375]


@pytest.mark.parametrize("build", [pipeline, pipeline_bubble])
def test_what_cannot_be_meant_is_refused(build):
    with pytest.raises(UnknownNameError, match=r"schedule='1f1'.*Did you mean '1f1b'"):
        build("1f1", 2, 2)
    for size, field in [((0, 2), "num_ranks"), ((2, 0), "num_micro_batches"), ((2, 2, 0), "stages_per_rank")]:
        with pytest.raises(FieldError, match=f"^{field}=0: must be 1 or more"):
            build("interleaved", *size)
    with pytest.raises(FieldError, match=r"stages_per_rank=2: needs schedule=interleaved, not gpipe"):
        build("gpipe", 2, 2, 2)
