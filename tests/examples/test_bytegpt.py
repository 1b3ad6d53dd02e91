"""ByteGPT with short settings: shapes, causality, exact metrics, two processes, and better than it began."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
import torch


@pytest.fixture(scope="module")
def bytegpt(example):
    return example("bytegpt")


@pytest.fixture(scope="module")
def tiny(bytegpt):
    return bytegpt.ByteGPT(dim=16, num_layers=2, num_heads=2, window=32)


def shaken(model):
    """Weights that are not zero, so that every path carries something."""
    torch.manual_seed(0)
    with torch.no_grad():
        for param in model.parameters():
            param.copy_(torch.randn_like(param) * 0.2)
    return model


def test_it_has_at_most_two_million_parameters(bytegpt):
    assert sum(param.numel() for param in bytegpt.ByteGPT().model().parameters()) <= 2_000_000


def test_the_first_loss_is_that_of_guessing(tiny):
    inputs, targets = tiny.train_data().__getitems__([0, 5])
    nats, count = tiny.loss(tiny.model()(inputs), targets)
    assert nats.item() / count.item() == pytest.approx(math.log(256), rel=1e-5)


def test_no_position_sees_what_comes_after_it(tiny):
    model = shaken(tiny.model())
    inputs = torch.randint(1, 256, (1, 32), generator=torch.Generator().manual_seed(1))
    changed = inputs.clone()
    changed[0, 20] = (changed[0, 20] + 1) % 256
    before, after = model(inputs), model(changed)
    torch.testing.assert_close(before[:, :20], after[:, :20])
    assert (before[:, 20:] - after[:, 20:]).abs().amax(dim=-1).min() > 1e-4


def test_bits_per_byte_charges_separators_but_does_not_count_them(bytegpt, tiny):
    targets = torch.tensor([[65, 0, 66, bytegpt.IGNORE]])
    total, count = tiny.metrics(torch.zeros(1, 4, 256), targets)["bits_per_byte"]
    assert (total.item(), count.item()) == (pytest.approx(3 * 8, rel=1e-6), 2)


def test_the_optimizer_holds_every_parameter_once(tiny):
    params = list(tiny.model().parameters())
    groups = tiny.optimizer(params).param_groups
    held = [param for group in groups for param in group["params"]]
    assert sorted(map(id, held)) == sorted(map(id, params))
    assert all(param.ndim == 2 for param in groups[0]["params"])
    assert len(groups[0]["params"]) == 4 * tiny.num_layers


def test_show_prints_text_and_guess_in_two_lines(tiny):
    batch = tiny.val_data().__getitems__([0])
    lines = tiny.show(tiny.model()(batch[0]), batch).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["text", "guess"]


def test_two_processes_learn(examples, tmp_path):
    settings = ["dim=32", "num_layers=1", "num_heads=2", "window=64", "total_samples=1280", "warmup_steps=4"]
    command = [sys.executable, "-m", "hemostat", "train", f"{examples}/bytegpt.py:ByteGPT", "--nproc", "2"]
    command += ["--json", *(word for pair in settings for word in ("--set", pair))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    final = json.loads(done.stdout.splitlines()[-1])["final"]
    assert final["val_bits_per_byte"] < 5.0  # guessing is 8
