"""Shares of tensor parallelism."""

from __future__ import annotations

import pytest

from hemostat.plan.layout import Layout
from hemostat.plan.parallel.tp import (
    divisor,
    local_bytes,
    local_matrix_params,
    local_params,
    loss_temporaries,
)
from hemostat.plan.profile import Kept, Part, Product

KEPT = tuple(Kept(name=share or "whole", num_bytes=8, share=share) for share in ("tp", "sp", "loss", ""))


@pytest.mark.parametrize(
    ("layout", "total"),
    [
        (Layout(), 32),
        (Layout(tp=4), 2 + 2 + 2 + 8),
        (Layout(tp=4, sequence_parallel=False), 2 + 8 + 2 + 8),
        (Layout(tp=4, loss_parallel=False), 2 + 2 + 8 + 8),
    ],
)
def test_each_tensor_is_divided_by_who_shares_it(layout, total):
    assert local_bytes(KEPT, layout) == total
    assert divisor("", layout) == 1


def test_matrices_are_cut_and_norms_are_not():
    part = Part(
        name="block",
        num_params=110,
        num_tp_params=100,
        products=(
            Product(rows=3, inner=5, columns=10, cut="columns"),
            Product(rows=3, inner=10, columns=5, cut="inner"),
            Product(rows=3, inner=7, columns=3, has_weight=False, cut="count"),
        ),
    )
    assert local_params(part, Layout(tp=2)) == 60
    assert local_matrix_params(part, Layout(tp=2)) == 50


def test_a_loss_whose_logits_stay_shared_out_has_more_temporaries_of_less_each():
    """torch's loss_parallel: 18 bytes a logit instead of 14, divided by tp."""
    head = Part(name="head", forward_passing_bytes=4, passing_bytes=8)
    kept = 6
    assert kept / 8 + loss_temporaries(head, Layout(tp=8))[1] == 18 / 8
    assert loss_temporaries(head, Layout(tp=8, loss_parallel=False)) == (4, 8)
    assert loss_temporaries(head, Layout()) == (4, 8)
