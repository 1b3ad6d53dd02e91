"""The commands that run a plan are ones that the other commands take."""

from __future__ import annotations

import shlex

import pytest

from hemostat.plan import Layout, Plan
from hemostat.report.plan_command import command, layout_text, precision_of


@pytest.mark.parametrize(
    "text",
    [
        "dp=8",
        "fsdp=8,reshard=false,recompute=full",
        "pp=2,dp=4,schedule=interleaved,stages_per_rank=2",
        "pp=4,fsdp=2,schedule=zero_bubble,recompute=selective",
    ],
)
def test_a_layout_is_read_back_as_it_was(text):
    layout = Layout.read(text).filled(8)
    assert Layout.read(layout_text(layout)).filled(8) == layout


def test_one_machine_takes_hemostat_and_several_take_torchrun_on_each(numbers):
    profile = Plan.profile_of_numbers(numbers)
    one = Plan.make(profile, "8xA100-40GB", {})
    words = shlex.split(command(one, one.best, "a.py:B"))
    assert words[:5] == ["hemostat", "train", "a.py:B", "--nproc", "8"] and "--layout" in words
    two = Plan.make(profile, "16xA100-40GB", {})
    words = shlex.split(command(two, two.best, ""))
    assert words[0] == "torchrun" and "--nnodes=2" in words and "--nproc-per-node=8" in words
    start = words.index("-m")
    assert words[start : start + 4] == ["-m", "hemostat", "train", "task.py:Task"] and "--nproc" not in words


def test_a_device_without_bf16_takes_fp16(numbers):
    profile = Plan.profile_of_numbers(numbers)
    assert precision_of(Plan.make(profile, "8xV100-16GB", {})) == "fp16"
    assert precision_of(Plan.make(profile, "8xA100-40GB", {})) == "bf16"
    single = Plan.make(profile, "8xA100-40GB", {"precision": "fp32"})
    assert precision_of(single) == "fp32" and "--set train.precision=fp32" in command(single, single.best, "")
