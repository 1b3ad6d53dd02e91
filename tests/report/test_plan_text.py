"""The pages of a plan: which one, and that they say what they must."""

from __future__ import annotations

import json
import re

import pytest

from hemostat.errors import FieldError, RecordError, UnknownNameError
from hemostat.plan import Plan
from hemostat.report import plan_text, write_plan_files

NUMBERS = {"num_params": 320e6, "num_layers": 24, "hidden": 1024}


@pytest.fixture(scope="module")
def plan() -> Plan:
    values = {"num_tokens": 6.4e9, "global_batch": 1024, "layout": {"dp": 8}, "micro_batch": 128}
    return Plan.make(Plan.profile_of_numbers(NUMBERS), "8xA100-40GB", values)


@pytest.fixture(scope="module")
def nothing() -> Plan:
    return Plan.make(Plan.profile_of_numbers({"num_layers": 96, "hidden": 12288}), "8xV100-16GB", {})


def test_another_page_is_refused(plan):
    with pytest.raises(UnknownNameError, match="explain"):
        plan_text(plan, "explian")


def test_the_short_page_says_peak_change_price_and_twice_the_devices(plan):
    text = plan_text(plan)
    for start in ("plan ", "best ", "peak ", "wanted ", "change ", "double ", "price "):
        assert re.search(f"^{start}", text, re.MULTILINE), start
    assert len(text.splitlines()) <= 12


def test_reasons_have_every_moment_and_tell_allocated_from_reserved(plan):
    text = plan_text(plan, "why")
    assert {"loss", "end of forward", "optimizer step", "initialisation", "checkpoint load"} <= set(
        re.findall(r"^memory   stage \d, ([^:]+):", text, re.MULTILINE)
    )
    assert "allocated" in text and "reserved" in text and "on the device" in text
    assert len(text) > len(plan_text(plan))


def test_a_plan_without_a_fit_has_pages_too(nothing):
    assert "nothing fits: " in plan_text(nothing)
    assert "nothing to explain" in plan_text(nothing, "explain")
    with pytest.raises(FieldError, match="nothing fits"):
        plan_text(nothing, "ask")


def test_a_rate_per_thousand_dollars_is_that_of_the_price(plan):
    text = plan_text(plan.with_largest(NUMBERS), "fit")
    assert text.count("fits ") == 3
    per_day = plan.goal.price.usd(86400)
    expected = plan.best.step.tokens_per_s * 86400 / per_day * 1000
    assert f"{expected / 1e9:.3g}B" in re.search(r"\$1,000 +(\S+)", text)[1]


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
