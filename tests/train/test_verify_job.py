"""Tasks with one fault each, run on one and two ranks: the fault is named, and nothing else is blamed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hemostat.train.verify import judge_jobs
from hemostat.train.verify_job import verify_rank

HEAD = """
import random
import torch, hemostat
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    lr: float = 0.01
    tuned_batch: int = 16
    epochs: float = 2
    schedule: str = "cosine"
    warmup_steps: int = 3

    def model(self):
        return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))

    def train_data(self):
        return TensorDataset(*self.tensors())

    def tensors(self):
        x = torch.randn(300, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float32)
        return x, (x.sum(1) > 0).long() + (x[:, 0] > 1).long()

    def val_data(self):
        return TensorDataset(*self.tensors())

    def loss(self, output, target):
        return functional.cross_entropy(output, target, reduction="sum"), len(target)

    def metrics(self, output, target):
        return {"accuracy": ((output.argmax(1) == target).sum(), len(target))}
"""
FAULTS = {
    "mean for sum": (
        "HV001",
        "a mean where a sum belongs",
        """
    def loss(self, output, target):
        return functional.cross_entropy(output, target), len(target)
""",
    ),
    "mean of means": (
        "HV001",
        "depends on how the batch is cut",
        """
    def loss(self, output, target):
        kept = target > 0
        return functional.cross_entropy(output[kept], target[kept]) * len(target), len(target)
""",
    ),
    "count stands still": (
        "HV001",
        "the counts of one batch add up to",
        """
    def loss(self, output, target):
        return functional.cross_entropy(output, target, reduction="sum"), 1
""",
    ),
    "batch norm": (
        "HV002",
        "BatchNorm normalises each share by itself (1)",
        """
    def model(self):
        return nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 3))
""",
    ),
    "augmentation": (
        "HV004",
        "two reads of a sample differ",
        """
    def train_data(self):
        x, y = self.tensors()
        class Noisy(torch.utils.data.Dataset):
            def __len__(self):
                return 300
            def __getitem__(self, i):
                return x[i] + torch.randn(6), y[i]
        return Noisy()
""",
    ),
    "sampler": (
        "HV005",
        "samples of the step are not those of one process",
        """
    def train_data(self):
        import os
        x, y = self.tensors()
        class Mine(torch.utils.data.IterableDataset):
            def __len__(self):
                return 120
            def __iter__(self):
                rank, num = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
                yield x[0], y[0]  # the same on all ranks, which the start of a run looks at
                yield from ((x[i], y[i]) for i in range(1 + rank, 300, num))
        return Mine()
""",
    ),
    "optimizer": (
        "HV006",
        "the ranks hold different weights",
        """
    def optimizer(self, params):
        import os
        class Noisy(torch.optim.SGD):
            def step(self, closure=None):
                super().step(closure)
                noise = torch.Generator().manual_seed(int(os.environ.get("RANK", 0)))
                with torch.no_grad():
                    for group in self.param_groups:
                        for p in group["params"]:
                            p.add_(1e-3 * torch.randn(p.shape, generator=noise))
        return Noisy(params, lr=0.01)
""",
    ),
    "beside the model": (
        "HV007",
        "the losses are equal and the gradients differ",
        """
    def model(self):
        model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
        model[0].weight.register_hook(lambda g: g.sign())
        return model
""",
    ),
    "metric": (
        "HV009",
        "val_accuracy depends on how the rows are cut",
        """
    def metrics(self, output, target):
        return {"accuracy": ((output.argmax(1) == target)[:2].double().mean(), 1)}
""",
    ),
    "hidden state": (
        "HV010",
        "state that the optimizer keeps outside of its state_dict",
        """
    def optimizer(self, params):
        class Counting(torch.optim.SGD):
            number = 0
            def step(self, closure=None):
                self.number += 1
                for group in self.param_groups:
                    for p in group["params"]:
                        p.grad.mul_(1 / self.number)
                super().step(closure)
        return Counting(params, lr=0.01)
""",
    ),
    "random forward": (
        "HV011",
        "random numbers that no dropout module explains",
        """
    def step(self, model, batch):
        return functional.cross_entropy(model(batch[0] + torch.randn_like(batch[0])), batch[1])
    loss = hemostat.Task.loss
    metrics = hemostat.Task.metrics
""",
    ),
}


def job(spec: str, folder: str) -> int:
    os.environ["HEMOSTAT_RUN_DIR"] = folder
    try:
        return verify_rank(spec, {}, {"most_ranks": 2})
    finally:
        del os.environ["HEMOSTAT_RUN_DIR"]


def verify(ranks, folder: Path, text: str, spec: str = ":Line"):
    name = f"task_{folder.name.replace('-', '_')}"
    (folder / f"{name}.py").write_text(text)
    runs = {}
    for num_ranks in (1, 2):
        runs[num_ranks] = folder / str(num_ranks)
        runs[num_ranks].mkdir()
        statuses = ranks(num_ranks, job, f"{folder / name}.py{spec}", str(runs[num_ranks]))
        said = [json.loads(path.read_text()) for path in runs[num_ranks].glob("exit.*.json")]
        assert statuses == [0] * num_ranks, said
    return judge_jobs(runs, "float64")


def test_a_good_task_is_equal(ranks, tmp_path):
    table, findings, about = verify(ranks, tmp_path, HEAD)
    assert findings == []
    assert about == {"samples": 41, "of_samples": 300, "steps": 6, "batch": 16, "dtype": "float64"}
    for row in table.values():
        assert max(row.values()) < 1e-12
        assert (row["data"], row["lr"], row["resumed"]) == (0, 0, 0)


# a last bit of a gradient has differed between two runs of the pool for a reason that is not known (docs/limits.md)
UNSTEADY = {"hidden state"}


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=[pytest.mark.slow] * (name in UNSTEADY)) for name in FAULTS]
)
def test_the_fault_is_named_and_nothing_else(ranks, tmp_path, fault):
    code, said, text = FAULTS[fault]
    _, findings, _ = verify(ranks, tmp_path, HEAD + text)
    assert [finding.code for finding in findings] == [code], [finding.message for finding in findings]
    assert said in findings[0].message
    assert findings[0].fix


def test_dropout_is_off_said_and_not_held_against_the_task(ranks, tmp_path):
    dropping = HEAD.replace("nn.Tanh(),", "nn.Dropout(0.3), nn.Tanh(),")
    table, findings, _ = verify(ranks, tmp_path, dropping)
    assert [(finding.code, finding.severity) for finding in findings] == [("HV003", 0)]
    assert table[2]["gradient"] < 1e-12 and table[2]["resumed"] == 0


def test_single_precision_inside_is_said(ranks, tmp_path):
    inside = (
        HEAD
        + """
    def step(self, model, batch):
        return functional.cross_entropy(model(batch[0]).float(), batch[1])
    loss = hemostat.Task.loss
    metrics = hemostat.Task.metrics
"""
    )
    _, findings, _ = verify(ranks, tmp_path, inside)
    assert [(finding.code, finding.severity) for finding in findings] == [("HV012", 0)]


SCRIPT = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
from hemostat import prepare

torch.manual_seed(0)
x = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
session, model, optimizer, loader = prepare(model, optimizer, loader, epochs=3)
for epoch in range(3):
    for batch, target in loader:
        loss = ((model(batch) - target) ** 2).mean()
        session.backward(LOSS, count=len(batch))
"""


@pytest.mark.parametrize(("loss", "codes"), [("loss * len(batch)", []), ("loss", ["HV001"])])
def test_a_script_is_verified_too(ranks, tmp_path, loss, codes):
    table, findings, about = verify(ranks, tmp_path, SCRIPT.replace("LOSS", loss), spec="")
    assert [finding.code for finding in findings] == codes
    assert about["batch"] == 16 and about["of_samples"] == 200
    assert table[2]["resumed"] == 0
