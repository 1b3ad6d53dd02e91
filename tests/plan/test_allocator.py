"""Allocated, reserved and device bytes are three numbers."""

from __future__ import annotations

import statistics

import pytest

from hemostat.plan.allocator import (
    GIB,
    RESERVED_RANGE,
    RESERVED_RATIO,
    SEGMENT_BYTES,
    Size,
    on_device,
    reserved,
)


def exactly(num_bytes: float) -> Size:
    return Size(num_bytes=num_bytes, low_bytes=num_bytes, high_bytes=num_bytes)


def test_the_ratio_is_the_median_of_measured_pairs():
    """SimuMax v1.2 on B200, GiB allocated and reserved of the ten configurations that are not held out."""
    pairs = [
        (66.55, 70.88),
        (60.68, 62.53),
        (39.07, 40.18),
        (87.08, 92.26),
        (38.57, 39.83),
        (68.43, 70.33),
        (87.03, 91.15),
        (139.22, 152.14),
        (147.99, 159.65),
        (118.13, 127.5),
    ]
    ratios = [after / before for before, after in pairs]
    assert statistics.median(ratios) == pytest.approx(RESERVED_RATIO, abs=0.001)


def test_reserved_comes_in_whole_segments_and_counts_other_streams():
    found = reserved(exactly(10 * GIB), aside_bytes=GIB)
    assert found.num_bytes % SEGMENT_BYTES == 0
    assert found.num_bytes == pytest.approx((10 * RESERVED_RATIO + 1) * GIB, abs=SEGMENT_BYTES)
    low, high = RESERVED_RANGE
    assert found.low_bytes == pytest.approx(low * found.num_bytes, abs=2 * SEGMENT_BYTES)
    assert found.high_bytes == pytest.approx(high * found.num_bytes, abs=2 * SEGMENT_BYTES)


def test_one_process_has_no_communicator():
    nothing = exactly(0)
    assert (
        on_device(nothing, 1).num_bytes < on_device(nothing, 2).num_bytes == on_device(nothing, 64).num_bytes
    )
    least, most = on_device(nothing, 1).low_bytes, on_device(nothing, 1).high_bytes
    assert (least / GIB, most / GIB) == pytest.approx((0.47, 0.92))  # contexts that were measured
