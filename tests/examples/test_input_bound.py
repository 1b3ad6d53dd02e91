"""The scans: the prepared copy holds the same ones, and the task learns from it."""

from __future__ import annotations

import torch

from hemostat.data import PreparedData, Source


def test_the_prepared_copy_holds_the_same_scans(example, tmp_path):
    module = example("input_bound")
    packed = module.Scans(num_scans=8).train_data()
    Source(packed).prepare(tmp_path / "copy")
    copy = module.Scans(prepared=str(tmp_path / "copy")).train_data()
    assert isinstance(copy, PreparedData) and len(packed) == len(copy) == 8
    wanted = torch.tensor([5, 2])
    for one, other in zip(Source(packed).fetch(wanted), Source(copy).fetch(wanted), strict=True):
        assert torch.equal(one, other)


def test_rows_and_columns_can_be_told_apart(example):
    module = example("input_bound")
    task = module.Scans(num_scans=64)
    data, model = Source(task.train_data()), task.model()
    scans, labels = data.fetch(torch.arange(64))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        loss, count = task.loss(model(scans), labels)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    assert (model(scans).argmax(1) == labels).float().mean() > 0.9
