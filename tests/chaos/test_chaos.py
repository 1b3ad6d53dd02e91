"""Three trials of `make chaos`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHAOS = Path(__file__).with_name("chaos.py")


@pytest.mark.slow
def test_three_trials_end_like_the_undisturbed_run():
    command = [sys.executable, str(CHAOS), "--trials", "3", "--seed", "7", "--ranks", "2,3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("; equal, ") == 3 and "3 of 3 equal" in done.stdout


def test_a_difference_is_seen():
    sys.path.insert(0, str(CHAOS.parent))
    try:
        from chaos import differences
    finally:
        sys.path.remove(str(CHAOS.parent))
    whole = {"checkpoint": "step-3", "tensors": {"w": "ab"}, "records": {"loss": [(1, 8, 0.5)]}}
    assert differences(whole, whole) == []
    assert differences(whole | {"tensors": {"w": "cd"}}, whole) == ["tensors: w"]
    assert differences(whole | {"records": {"loss": [(1, 8, 0.5)] * 2}}, whole) == ["records: loss"]
    assert differences(whole | {"records": {}, "checkpoint": "step-2"}, whole) == ["step-2", "records: loss"]
