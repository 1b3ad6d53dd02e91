"""Every public bug report that the project knows of has a test that names it, or a line in docs/limits.md."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

REPORTS = Path(__file__).parents[3] / "shared" / "data" / "bug_reports.csv"


def test_every_report_is_answered(tracked):
    if not REPORTS.is_file():
        pytest.skip("the collection of reports is not here")
    with REPORTS.open(encoding="utf-8", newline="") as file:
        wanted = {row["id"] for row in csv.DictReader(file)}
    answering = [
        file.text for file in tracked if file.path.parts[0] == "tests" or str(file.path) == "docs/limits.md"
    ]
    named = set(re.findall(r"T[0-9]{3}", "\n".join(answering)))
    assert len(wanted) > 50
    assert not sorted(wanted - named)
