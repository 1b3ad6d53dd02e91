"""What must start fast starts without torch and numpy; the root help also without typer."""

from __future__ import annotations

import subprocess
import sys

import pytest

ALL = ("torch", "numpy", "typer", "rich", "matplotlib")
HEAVY = ("torch", "numpy", "matplotlib")
COMMAND = "from hemostat.cli.main import run\nassert run({!r}) == 0"


def loaded(code: str, modules: tuple[str, ...]) -> list[str]:
    """Which of `modules` are loaded after `code` has run in a fresh interpreter."""
    tail = f"\nimport sys\nprint(*sorted(set(sys.modules) & set({modules!r})), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr.splitlines()[-1].split()


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import hemostat", ALL),
        ("import hemostat.errors, hemostat.units, hemostat.config, hemostat.findings", ALL),
        ("import hemostat.recipe", ALL),
        ("import hemostat.track, hemostat.launch, hemostat.plan", HEAVY),
        (COMMAND.format(["--help"]), ALL),
        (COMMAND.format(["--version"]), ALL),
        (COMMAND.format(["runs", "--help"]), HEAVY),
        (COMMAND.format(["recipe", "--help"]), HEAVY),
        (COMMAND.format(["train", "--help"]), HEAVY),
        (COMMAND.format(["evaluate", "--help"]), HEAVY),
        (COMMAND.format(["export", "--help"]), HEAVY),
    ],
)
def test_nothing_heavy_is_loaded(code, modules):
    assert loaded(code, modules) == []


def test_the_check_can_fail():
    assert loaded("import numpy", HEAVY) == ["numpy"]
