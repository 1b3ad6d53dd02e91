"""Configs for people who train with something else."""

from __future__ import annotations

import json

import msgspec
import pytest

from hemostat.errors import FieldError, RecordError
from hemostat.plan import Layout, Plan
from hemostat.report import write_plan_files
from hemostat.report.plan_files import torchrun_text


def with_best(plan: Plan, layout: Layout) -> Plan:
    """The same plan with another first choice."""
    first = msgspec.structs.replace(plan.best, layout=layout)
    found = msgspec.structs.replace(plan.found, choices=(first, *plan.found.choices))
    return msgspec.structs.replace(plan, found=found)


@pytest.fixture(scope="module")
def two_nodes() -> Plan:
    sizes = {"num_params": 7e9, "num_layers": 32, "hidden": 4096}
    return Plan.make(Plan.profile_of_numbers(sizes), "16xA100-80GB", {"global_batch": 122})


def test_configs_name_the_batch_of_the_plan(plan, tmp_path):
    write_plan_files(plan, tmp_path / "configs")
    config = json.loads((tmp_path / "configs" / "deepspeed.json").read_text())
    assert config["train_batch_size"] == 1024 and config["zero_optimization"]["stage"] == 0
    assert config["bf16"] == {"enabled": True}
    assert "MULTI_GPU" in (tmp_path / "configs" / "accelerate.yaml").read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot write"):
        write_plan_files(plan, tmp_path / "file" / "configs")


def test_shards_become_fsdp_2_and_zero_3_and_a_batch_that_does_not_divide_is_said(two_nodes, tmp_path):
    said = write_plan_files(two_nodes, tmp_path)
    text = (tmp_path / "accelerate.yaml").read_text()
    assert "distributed_type: FSDP" in text and "fsdp_version: 2" in text and "num_machines: 2" in text
    config = json.loads((tmp_path / "deepspeed.json").read_text())
    assert config["zero_optimization"]["stage"] in (2, 3)
    product = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * 16
    assert config["train_batch_size"] == product >= 122
    assert any(f"a step takes {product} samples, not 122" in each for each in said)


def test_several_machines_have_a_rank_and_an_address_each(two_nodes, tmp_path):
    write_plan_files(two_nodes, tmp_path)
    text = (tmp_path / "accelerate.yaml").read_text()
    assert "machine_rank: 0" not in text and "--machine_rank $NODE_RANK" in text
    assert "--main_process_ip $MASTER_ADDR" in text and "main_process_port: 29500" in text
    assert "--nnodes=2 --node-rank=$NODE_RANK" in (tmp_path / "torchrun.sh").read_text()


def test_accelerate_takes_copies_of_shards(two_nodes, tmp_path):
    launch = pytest.importorskip("accelerate.commands.launch")
    plan = with_best(two_nodes, Layout(dp=2, fsdp=8, recompute="full"))
    write_plan_files(plan, tmp_path)
    words = ["--config_file", str(tmp_path / "accelerate.yaml"), "--machine_rank", "1"]
    words += ["--main_process_ip", "10.0.0.1", "train.py"]
    args = launch._validate_launch_command(launch.launch_command_parser().parse_args(words))[0]
    assert (args.machine_rank, args.main_process_ip, args.main_process_port) == (1, "10.0.0.1", 29500)
    assert args.use_parallelism_config and args.use_fsdp and args.fsdp_version == 2
    assert (args.parallelism_config_dp_replicate_size, args.parallelism_config_dp_shard_size) == (2, 8)
    assert args.fsdp_activation_checkpointing in (True, "true")


def test_what_a_file_has_no_word_for_is_said(two_nodes, tmp_path):
    plan = with_best(two_nodes, Layout(pp=2, dp=4, tp=2, schedule="1f1b"))
    said = write_plan_files(plan, tmp_path)
    assert "# pp=2,dp=4,tp=2," in (tmp_path / "torchrun.sh").read_text()
    for name in ("accelerate.yaml", "deepspeed.json"):
        sentence = next(each for each in said if name in each)
        assert "not pp=2,dp=4,tp=2, which it has no words for" in sentence
    hybrid = write_plan_files(with_best(two_nodes, Layout(dp=2, fsdp=8, recompute="full")), tmp_path)
    assert "not dp=2,fsdp=8,recompute=full" in next(each for each in hybrid if "deepspeed.json" in each)


def test_a_task_is_run_by_hemostat_and_not_as_a_script(plan):
    assert "-m hemostat train words.py:Words --layout " in torchrun_text(plan, "words.py:Words")
    assert torchrun_text(plan).rstrip().endswith(" train.py")


def test_a_device_without_bf16_gets_fp16(numbers, tmp_path):
    write_plan_files(Plan.make(Plan.profile_of_numbers(numbers), "8xV100-16GB", {}), tmp_path)
    assert "mixed_precision: fp16" in (tmp_path / "accelerate.yaml").read_text()
    assert json.loads((tmp_path / "deepspeed.json").read_text())["fp16"] == {"enabled": True}


def test_where_nothing_fits_nothing_is_written(nothing, tmp_path):
    with pytest.raises(FieldError, match="nothing to write"):
        write_plan_files(nothing, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_say_any_layout_that_fits_is_left_out(two_nodes, tmp_path):
    staged = msgspec.structs.replace(two_nodes.best, layout=Layout(pp=2, dp=8, schedule="1f1b"))
    only = msgspec.structs.replace(
        two_nodes, found=msgspec.structs.replace(two_nodes.found, choices=(staged,))
    )
    said = write_plan_files(only, tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["torchrun.sh"]
    assert sum("no such layout fits" in each for each in said) == 2
