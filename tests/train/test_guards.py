import torch

from hemostat.train.guards import nonfinite_rows

NAN = float("nan")


def test_rows_of_any_tree_are_found():
    batch = {"x": torch.tensor([[1.0, 2.0], [3.0, NAN], [5.0, 6.0]]), "more": [torch.tensor([1.0, 2.0, NAN])]}
    assert nonfinite_rows(batch) == [1, 2]


def test_integers_and_other_things_are_never_bad():
    assert nonfinite_rows((torch.tensor([1, 2]), "text", torch.tensor(NAN))) == []


def test_high_dims_count_by_row():
    images = torch.zeros(4, 3, 8, 8)
    images[2, 1, 5, 5] = float("-inf")
    assert nonfinite_rows(images) == [2]
