"""bench/results/NAME.json: the figures of a benchmark with their date, commit and machine; one form for all."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def commit() -> str:
    """Short commit of the tree, with "-dirty" where what is measured, or what measures, was changed since."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "bench", "examples")
    changed = "\n".join(line for line in changed.splitlines() if "bench/results" not in line)
    return _git("rev-parse", "--short=10", "HEAD") + ("-dirty" if changed else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def machine(*more: str) -> str:
    """Kind of machine, without its name.

    Args:
        more: what else the figures depend on.
    """
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    parts = (
        models[0] if models else platform.machine(),
        f"{os.cpu_count()} cores",
        platform.system(),
        f"Python {platform.python_version()}",
        f"torch {version('torch')}",
    )
    return ", ".join([*parts, *more])


def write_result(name: str, rows: list[dict[str, Any]], *more: str) -> None:
    """Write the file.

    Args:
        name: of the benchmark.
        rows: its figures.
        more: for `machine`.
    """
    record = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": machine(*more),
        "figures": rows,
    }
    target = ROOT / "bench" / "results" / f"{name}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
