"""Every trial gets devices of its own; more trials than devices are refused."""

from __future__ import annotations

import os

import pytest

from hemostat.cli.tune_places import accelerators, share_out
from hemostat.errors import FieldError


def test_devices_that_may_not_be_seen_are_none(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert accelerators() == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert accelerators() == ["3", "5"]


def test_without_a_number_every_device_is_used():
    slots = share_out(None, 1, ["0", "1", "2"])
    assert [slot["CUDA_VISIBLE_DEVICES"] for slot in slots] == ["0", "1", "2"]
    assert len(share_out(None, 2, ["0", "1", "2"])) == 1


def test_cpus_are_shared_where_there_is_nothing_else(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert share_out(2, 2, []) == ({"OMP_NUM_THREADS": "2"},) * 2
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert share_out(2, 2, []) == ({"OMP_NUM_THREADS": "1"},) * 2
    with pytest.raises(FieldError, match=r"parallel=9: needs 9 CPUs, and there are 8. Write --parallel 8"):
        share_out(9, 1, [])


def test_a_trial_larger_than_the_machine_is_refused():
    with pytest.raises(FieldError, match="nproc=4"):
        share_out(None, 4, ["0", "1"])
    with pytest.raises(FieldError, match="parallel=0: must be 1 or more"):
        share_out(0, 1, ["0"])
