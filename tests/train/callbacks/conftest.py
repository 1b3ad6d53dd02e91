"""An empty folder for each test, and scripts that run in two processes as torchrun starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def two_processes(tmp_path):
    """Run a script; each process ends by `print("TOLD", json)`. The answers come sorted."""

    def run(script: str) -> list:
        (tmp_path / "script.py").write_text(script, encoding="utf-8")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "torch.distributed.run"),
                *("--standalone", "--nproc-per-node", "2", "script.py"),
            ],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        lines = [line for line in done.stdout.splitlines() if "TOLD" in line]
        return sorted(json.loads(line.partition("TOLD ")[2]) for line in lines)

    return run
