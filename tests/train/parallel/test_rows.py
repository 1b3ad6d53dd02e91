"""Fillers of a smaller micro-batch: added behind, cut again in front of the loss."""

import torch

from hemostat.train.parallel.rows import filled, first_rows


def test_filled_and_cut_is_what_it_was():
    batch = (
        (torch.arange(6).reshape(3, 2),),
        {"mask": torch.tensor([1, 0, 1]), "scale": torch.tensor(2.0), "table": torch.ones(7)},
    )
    larger = filled(batch, 3, 5)
    assert larger[0][0].shape == (5, 2)
    assert larger[1]["scale"].dim() == 0
    assert larger[1]["table"] is batch[1]["table"]
    again = first_rows(larger, 3)
    assert torch.equal(again[0][0], batch[0][0])
    assert torch.equal(again[1]["mask"], batch[1]["mask"])


def test_a_full_one_is_left_alone():
    batch = torch.ones(4)
    assert filled(batch, 4, 4) is batch
