"""A space from a file, from grids, and from the recipe of a task."""

from __future__ import annotations

import json

import pytest

from hemostat.cli.tune_setup import Asked, TuneSettings, setup
from hemostat.cli.tune_space import space_of
from hemostat.errors import FieldError
from hemostat.tune.workers import Order

TASK = """
import torch, hemostat

class Line(hemostat.Task):
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 2
    dropout: float = 0.1

    def model(self): return torch.nn.Linear(3, 1)
    def train_data(self): return torch.utils.data.TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
    def loss(self, output, target): return ((output - target) ** 2).sum(), len(target)
"""


def asked(task: str = "", *command: str, **change) -> Asked:
    return Asked(task=task, command=command, tune=TuneSettings(), **change)


def test_a_file_says_what_may_be_chosen(tmp_path):
    (tmp_path / "space.toml").write_text("lr = {low = 1e-4, high = 1e-1}\nlayers = [2, 4]\n")
    assert space_of(asked(), tmp_path / "space.toml").space.names == ("lr", "layers")


def test_several_grids_keep_the_names_of_the_script(tmp_path):
    grids = [{"lr": [0.1, 0.2], "kernel": ["a"]}, {"lr": [0.3], "depth": [5]}]
    (tmp_path / "grid.json").write_text(json.dumps(grids))
    found = space_of(asked(), tmp_path / "grid.json")
    assert found.is_grids
    assert found.space.num_configs == 3
    words = ("t", "--lr", "{lr}", "--kernel", "{kernel}", "--depth", "{depth}")
    made = setup(asked("", *words, is_grids=True), found.space.names, 1)
    commands = [
        made.jobs.command(Order(trial=0, config=config, start=0, until=1, seed=0), tmp_path)
        for config in found.space.configs()
    ]
    assert ("t", "--lr", "0.3", "--depth", "5") in commands
    assert ("t", "--lr", "0.2", "--kernel", "a") in commands


def test_a_task_has_a_space_with_reasons_and_keeps_its_length(here):
    found = space_of(asked("line.py:Line"), None)
    assert found.space.names[0] == "lr"
    assert "dropout" in found.space.names
    assert not {"epochs", "tuned_batch"} & set(found.space.names)
    assert [row.field for row in found.reasons] == list(found.space.names)
    made = setup(asked("line.py:Line"), found.space.names, 1)
    settings = made.settings_of({"lr": 0.1, "batch": 16, "warmup_share": 0.25, "dropout": 0.2})
    assert {name: settings[name] for name in ("lr", "global_batch", "new_warmup_steps", "dropout")} == {
        "lr": 0.1,
        "global_batch": 16,
        "new_warmup_steps": 2,
        "dropout": 0.2,
    }


def test_what_is_no_space_is_refused(tmp_path):
    with pytest.raises(FieldError, match="is needed for a script"):
        space_of(asked("", "true"), None)
    with pytest.raises(FieldError, match="cannot be read"):
        space_of(asked(), tmp_path / "no.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(FieldError, match="is no JSON"):
        space_of(asked(), tmp_path / "bad.json")
