"""Seconds of parts on one device: limits that arithmetic gives, and what divides them."""

from __future__ import annotations

import math

import pytest

from hemostat.plan.compute import Cut, Terms, part_s
from hemostat.plan.hardware import device
from hemostat.plan.profile import Kept, Part, Product

A100 = device("A100-80GB")
FULL = Terms(matmul=1.0, attention=1.0, memory=1.0, launch_s=1e-9)


def mlp(**changes) -> Part:
    return Part(name="mlp", products=(Product(rows=2048, inner=8192, columns=8192, **changes),))


def test_a_large_product_takes_its_flop_at_the_reachable_rate():
    part = mlp()
    time = part_s(part, Cut(64), A100, FULL)
    assert time.forward_s == pytest.approx(64 * part.flop / A100.reached("bf16"), rel=0.01)
    assert time.backward_s == pytest.approx(2 * time.forward_s, rel=0.01)


def test_a_product_with_a_short_sum_is_bound_by_writing_its_result():
    part = Part(name="thin", products=(Product(rows=8192, inner=16, columns=8192),))
    assert part_s(part, Cut(1), A100, FULL).forward_s == pytest.approx(2 * 8192**2 / 2.039e12, rel=0.01)


def test_tiles_that_do_not_fill_the_device_cost_a_whole_round():
    def seconds(num_tiles: int) -> float:
        part = Part(name="mlp", products=(Product(rows=256 * num_tiles, inner=8192, columns=128),))
        return part_s(part, Cut(1), A100, FULL).forward_s

    assert seconds(108) < seconds(109)
    assert seconds(109) / seconds(108) > 1.2  # smaller tiles soften it
    assert seconds(1) > seconds(108) / 108  # and one tile cannot use all of it


def test_the_host_starts_each_product():
    terms = Terms(launch_s=1e-4)
    attention = Product(rows=64, inner=64, columns=64, count=16, has_weight=False)
    part = Part(name="two and attention", products=(*mlp().products * 2, attention))
    assert part_s(part, Cut(4), A100, terms).start_s == pytest.approx(3e-4)
    assert part_s(Part(name="embedding"), Cut(4), A100, terms).start_s == 1e-4


@pytest.mark.parametrize("cut", ["columns", "inner"])
def test_tensor_parallelism_divides_what_it_cuts(cut):
    whole = part_s(mlp(), Cut(32), A100, FULL).forward_s
    assert part_s(mlp(cut=cut), Cut(32, tp=4), A100, FULL).forward_s == pytest.approx(whole / 4, rel=0.1)
    assert part_s(mlp(), Cut(32, tp=4), A100, FULL).forward_s == whole


def test_heads_are_divided_and_micro_batches_add_heads():
    attention = Part(
        name="attention",
        products=(
            Product(rows=2048, inner=128, columns=2048, count=64, has_weight=False, cut="count", density=0.5),
        ),
    )
    one_s = part_s(attention, Cut(1), A100, FULL).forward_s
    assert part_s(attention, Cut(8), A100, FULL).forward_s == pytest.approx(8 * one_s, rel=0.05)
    assert part_s(attention, Cut(8, tp=8), A100, FULL).forward_s == pytest.approx(one_s, rel=0.05)


def test_half_of_the_scores_takes_half_the_time_and_is_not_done_again():
    def attention(density: float) -> Part:
        product = Product(rows=4096, inner=128, columns=4096, count=64, has_weight=False, density=density)
        return Part(name="attention", products=(product,))

    whole, half = (part_s(attention(density), Cut(1), A100, FULL) for density in (1.0, 0.5))
    flop_s = attention(0.5).flop / A100.reached("bf16")
    assert half.forward_s == pytest.approx(flop_s, rel=0.05)
    assert whole.forward_s > 2 * half.forward_s  # it also writes the scores
    assert half.again_s < 1e-6
    assert whole.again_s == whole.forward_s


def test_what_is_no_product_moves_at_the_bandwidth_and_is_divided_as_what_it_keeps():
    part = Part(
        name="norm and activation",
        moved_bytes=2.039e9,
        kept=(Kept(name="a", num_bytes=1, share="tp"), Kept(name="b", num_bytes=3, share="sp")),
    )
    assert part_s(part, Cut(1), A100, FULL).forward_s == pytest.approx(1e-3)
    assert part_s(part, Cut(1), A100, FULL).backward_s == pytest.approx(1.5e-3)
    assert part_s(part, Cut(2, tp=4), A100, FULL).forward_s == pytest.approx(2e-3 * (3 / 4 + 1 / 16))
    assert part_s(part, Cut(2, 4, True), A100, FULL).forward_s == pytest.approx(2e-3 / 4)


def test_fp32_is_slower_by_the_ratio_of_the_peaks():
    half, full = (part_s(mlp(), Cut(16, dtype=dtype), A100, FULL).forward_s for dtype in ("bf16", "fp32"))
    assert full / half == pytest.approx(312 / 19.5, rel=0.01)
    assert math.isfinite(full)
