"""Configs for people who train with something else."""

from __future__ import annotations

import json

import pytest

from hemostat.errors import FieldError, RecordError
from hemostat.plan import Plan
from hemostat.report import write_plan_files


def test_configs_name_the_batch_of_the_plan(plan, tmp_path):
    write_plan_files(plan, tmp_path / "configs", "train.py")
    config = json.loads((tmp_path / "configs" / "deepspeed.json").read_text())
    assert config["train_batch_size"] == 1024 and config["zero_optimization"]["stage"] == 0
    assert config["bf16"] == {"enabled": True}
    assert "MULTI_GPU" in (tmp_path / "configs" / "accelerate.yaml").read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot write"):
        write_plan_files(plan, tmp_path / "file" / "configs", "train.py")


def test_shards_become_fsdp_2_and_zero_3(tmp_path):
    made = Plan.make(
        Plan.profile_of_numbers({"num_params": 7e9, "num_layers": 32, "hidden": 4096}), "16xA100-80GB", {}
    )
    write_plan_files(made, tmp_path, "train.py")
    text = (tmp_path / "accelerate.yaml").read_text()
    assert "distributed_type: FSDP" in text and "fsdp_version: 2" in text and "num_machines: 2" in text
    assert json.loads((tmp_path / "deepspeed.json").read_text())["zero_optimization"]["stage"] in (2, 3)
    assert "--nnodes=2" in (tmp_path / "torchrun.sh").read_text()


def test_configs_without_stages_have_no_place_for_them(nothing, tmp_path):
    with pytest.raises(FieldError, match="copies and shards only"):
        write_plan_files(nothing, tmp_path, "train.py")
