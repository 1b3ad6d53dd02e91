"""Twenty seconds of `make soak`, and what it would say of a leak."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).with_name("soak.py")


@pytest.mark.slow
def test_twenty_seconds_stay_flat():
    command = [sys.executable, str(SOAK), "--seconds", "20", "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "; flat; seed 3, 20 s" in done.stdout


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.syspath_prepend(str(SOAK.parent))
    from soak import Watched

    return Watched("rank 0")


def test_a_leak_is_seen(watched):
    for second in range(100):
        watched.seen.append((float(second), 2**28 + second * 2**18, 20 + second // 10, 9 + second // 40))
    assert watched.faults() == [
        "memory grows by 256.0 KiB/s",
        "file handles grow from 23 to 27",
        "threads grow from 9 to 10",
    ]


def test_peaks_are_no_leak(watched):
    for second in range(100):
        peak = 5 * (second % 7 == 0)
        watched.seen.append((float(second), 2**28 + peak * 2**20, 20 + peak, 9 + peak))
    assert watched.faults() == []
    assert watched.line().startswith("rank 0: 64 s, 256 MiB, +0.00 KiB/s, handles 20 to 25, threads 9 to 14")
