"""The small copy of the data, the sketch of a tensor, and the rows of a batch."""

from __future__ import annotations

import math

import pytest
import torch

from hemostat.data import Source, Stream
from hemostat.train.rehearsal import Few, row_digests, sketch


class Items:
    def __iter__(self):
        return ({"x": torch.full((2,), float(i), dtype=torch.float32), "n": i} for i in range(20))


def test_few_cuts_and_casts_tables_and_streams():
    table = Few(Source([(torch.ones(2, dtype=torch.float32), i) for i in range(9)]), 4, torch.float64)
    assert len(table) == 4 and table.fetch(torch.tensor([2]))[0].dtype == torch.float64
    assert table.fetch(torch.tensor([2]))[1].tolist() == [2]
    stream = Few(Source(Stream(Items(), 20)), 7, torch.float64)
    batch = stream.reader()(torch.tensor([0, 1]))
    assert (len(stream), len(stream.stream)) == (7, 7)
    assert batch["x"].dtype == torch.float64 and batch["n"].tolist() == [0, 1]
    assert len(Few(Source([1, 2]), 9, torch.float64)) == 2


def test_the_sketch_estimates_the_norm_of_a_difference():
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(50, 40, generator=generator, dtype=torch.float64)
    change = 1e-3 * torch.randn(50, 40, generator=generator, dtype=torch.float64)
    ratios = []
    for name in map(str, range(50)):
        one, other = sketch(first, name), sketch(first + change, name)
        assert one[0] == pytest.approx(float(first.norm()))
        square = sum((a - b) ** 2 for a, b in zip(one[1:], other[1:], strict=True)) / 4
        ratios.append(square / float(change.norm()) ** 2)
    assert math.isclose(sum(ratios) / len(ratios), 1.0, abs_tol=0.3)
    assert sketch(first, "a") == sketch(first.clone(), "a")
    assert sketch(first, "a")[1:] != sketch(first.flip(0), "a")[1:]


def test_rows_are_told_apart_whatever_the_batch():
    whole = {"x": torch.arange(6.0).reshape(3, 2), "y": [torch.arange(3)]}
    part = {"x": torch.arange(6.0).reshape(3, 2)[1:], "y": [torch.arange(3)[1:]]}
    assert row_digests(whole, 3)[1:] == row_digests(part, 2)
    assert len(set(row_digests(whole, 3))) == 3
