"""A working folder with the task file of the test module, as a user has one."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def here(request, tmp_path, monkeypatch) -> Path:
    """The working folder; the module's TASK stands in line.py, and a process takes one thread."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "line.py").write_text(request.module.TASK)
    return tmp_path
