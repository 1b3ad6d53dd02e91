"""Who reads: the rule of the page, its reasons, and the settings that overrule it."""

import os
import sqlite3
import sys

import pytest
import torch

from hemostat.config import decode, parse_overrides
from hemostat.data import Workers
from hemostat.data.choose import (
    Measured,
    choose,
    fork_fault,
    may_fork,
    num_cores,
    open_handle,
    readers_allowed,
)
from hemostat.errors import FieldError, UnknownNameError
from hemostat.train import TrainSettings


@pytest.mark.parametrize(
    ("seen", "mode", "num", "why"),
    [
        (Measured(40e-6, 0.0), "none", 0, "less than handing it over"),
        (Measured(1e-3, 0.1), "none", 0, "under 3 % of a step"),
        (Measured(35e-3, 0.0, 1.9), "threads", 8, "1.9 times as fast"),
        (Measured(35e-3, 20e-3, 1.9), "threads", 3, "1.9 times as fast"),
        (Measured(35e-3, 80e-3, 1.9), "threads", 1, "one thread keeps up"),
        (Measured(35e-3, 0.0, 0.85), "processes", 8, "holds the GIL"),
        (Measured(35e-3, 1e-3, 0.85, 1.0), "threads", 1, "processes read only 1 times as fast"),
        (Measured(35e-3, 0.0, 0.85, 1.0), "none", 0, "no core is free"),
        (Measured(1e-3, 1e-3, 0.85), "threads", 1, "too cheap for processes"),
        (Measured(1e-3, 1e-5, 0.85), "none", 0, "steps of 10.0 us hide nothing"),
        (Measured(35e-3, 0.0, 1.9, repeats=False), "processes", 8, "gave other values"),
        (Measured(35e-3, 0.0, 0.85, no_fork="cuda is"), "threads", 1, "no worker processes: cuda is"),
        (Measured(35e-3, 0.0, 1.9, no_fork="cuda is"), "threads", 8, "1.9 times as fast"),
        (Measured(35e-3, 0.0, None, handle="a.b is open"), "threads", 1, "one reader only: a.b is open"),
    ],
)
def test_the_rule(seen, mode, num, why):
    choice = choose(seen, most=8)
    assert (choice.mode, choice.num) == (mode, num)
    assert why in choice.why


def test_open_files_are_found_in_wrapped_data_sets_too(tmp_path):
    class Rows:
        pass

    rows, outer = Rows(), Rows()
    outer.dataset = rows
    assert open_handle(outer) == ""
    rows.file = (tmp_path / "x").open("wb")
    assert open_handle(outer) == "Rows.file is an open file"
    rows.file.close()
    rows.file = sqlite3.connect(":memory:")
    assert open_handle(rows) == "Rows.file is an open file"
    rows.file.close()


def test_ranks_share_the_cores(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone = readers_allowed()
    assert alone >= 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert readers_allowed() == 1


def test_settings_that_cannot_be_meant(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(UnknownNameError, match=r"train\.workers\.mode='thread'.*Did you mean 'threads'"):
        Workers(mode="thread")
    for name in ("num", "depth", "stall_s"):
        with pytest.raises(FieldError, match=rf"train\.workers\.{name}=0"):
            Workers(**{name: 0})
    with pytest.raises(FieldError, match=r"train\.workers\.num=2\.5: must be a whole number"):
        Workers(num=2.5)
    most = 8 * num_cores()
    with pytest.raises(
        FieldError, match=rf"num={most + 1}: is more than the {most} that .* one of 2 ranks here"
    ):
        Workers(num=most + 1)
    Workers(num=most)
    Workers(mode="processes", num=2, stall_s=1.5).check_fork()


@pytest.mark.parametrize(
    ("mode", "name"), [("none", "num"), ("none", "depth"), ("none", "stall_s"), ("processes", "depth")]
)
def test_a_setting_that_the_mode_would_ignore_is_refused(mode, name):
    with pytest.raises(FieldError, match=rf"train\.workers\.{name}=4: means nothing with mode={mode}"):
        Workers(mode=mode, **{name: 4})
    Workers(**{name: 4})


def test_the_mode_on_the_command_line_lists_the_known_ones():
    with pytest.raises(
        UnknownNameError, match=r"train\.workers\.mode='foo'.*Known: none, processes, threads"
    ):
        decode(TrainSettings, parse_overrides(["workers.mode=foo"]), "train.")


def test_nothing_is_forked_where_a_fork_is_not_safe(monkeypatch):
    assert fork_fault() == ""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        assert "macOS" in fork_fault()
    with monkeypatch.context() as patch:
        patch.delattr(os, "fork")
        assert fork_fault() == "this system has none"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert "cuda is in use in this process" in fork_fault()
    assert not may_fork(Measured(35e-3, 0.0, 0.85, no_fork=fork_fault()))
    with pytest.raises(
        FieldError, match=r"workers\.mode='processes': needs fork: cuda is in use.*Use threads"
    ):
        Workers(mode="processes").check_fork()
