"""The scans: both data sets give the same samples, and the task learns from them."""

from __future__ import annotations

import torch


def test_both_data_sets_hold_the_same_scans(example):
    module = example("input_bound")
    packed = module.Packed(8)
    decoded = module.Decoded(packed)
    assert len(packed) == len(decoded) == 8
    pixels, labels = decoded.__getitems__([5, 2])
    for row, index in enumerate((5, 2)):
        for scan, label in (packed[index], decoded[index]):
            assert torch.equal(scan, pixels[row])
            assert label == labels[row]


def test_rows_and_columns_can_be_told_apart(example):
    module = example("input_bound")
    task = module.Scans(num_scans=64, decoded=True)
    data, model = task.train_data(), task.model()
    scans, labels = data.__getitems__(list(range(64)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        loss, count = task.loss(model(scans), labels)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    assert (model(scans).argmax(1) == labels).float().mean() > 0.9
