import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.data import Feed, Source
from hemostat.train.guards import nonfinite_rows, nonfinite_samples

NAN = float("nan")


@pytest.mark.parametrize("num_ranks", [1, 3])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_the_sample_is_named_whoever_holds_it(num_ranks, accumulation):
    values = torch.arange(23.0)
    values[[4, 17]] = NAN
    source = Source(TensorDataset(values))
    found = []
    for rank in range(num_ranks):
        feed = Feed(
            seed=5,
            global_batch=7,
            accumulation=accumulation,
            rank=rank,
            num_ranks=num_ranks,
            total_samples=46,
        )
        for start in (23, 30, 37, 44):  # the windows of the second epoch
            found += nonfinite_samples(source, feed, start)
    assert sorted(found) == [4, 17]


def test_rows_of_any_tree_are_found():
    batch = {"x": torch.tensor([[1.0, 2.0], [3.0, NAN], [5.0, 6.0]]), "more": [torch.tensor([1.0, 2.0, NAN])]}
    assert nonfinite_rows(batch) == [1, 2]


def test_integers_and_other_things_are_never_bad():
    assert nonfinite_rows((torch.tensor([1, 2]), "text", torch.tensor(NAN))) == []


def test_high_dims_count_by_row():
    images = torch.zeros(4, 3, 8, 8)
    images[2, 1, 5, 5] = float("-inf")
    assert nonfinite_rows(images) == [2]
