"""Recorded benchmark results have the agreed form, and the tables in the docs are made from them."""

from __future__ import annotations

import datetime
import json
import math
import re
import runpy
from collections.abc import Iterator

import pytest

KEYS = {"date", "commit", "machine", "figures"}
FIGURE_KEYS = {"name", "value", "unit", "bar", "meets", "note"}
COMMIT = re.compile(r"[0-9a-f]{7,40}(-dirty|\+dirty)?")
GOOD_FIGURE = {"name": "help_ms", "value": 28.6, "unit": "ms", "bar": 150, "meets": True, "note": ""}
GOOD = {"date": "2026-11-30", "commit": "4d43d34", "machine": "2 cores", "figures": [GOOD_FIGURE]}


def faults_in_record(record) -> Iterator[str]:
    if not isinstance(record, dict) or set(record) != KEYS:
        yield f"keys are not {sorted(KEYS)}"
        return
    try:
        datetime.date.fromisoformat(record["date"])
    except (TypeError, ValueError):
        yield f"date {record['date']!r} is not like 2026-11-30"
    if not COMMIT.fullmatch(str(record["commit"])):
        yield f"commit {record['commit']!r} is no commit"
    if not isinstance(record["machine"], str) or not record["machine"].strip():
        yield "machine is empty"
    if not isinstance(record["figures"], list) or not record["figures"]:
        yield "no figures"
        return
    for figure in record["figures"]:
        yield from faults_in_figure(figure)
    names = [figure.get("name") for figure in record["figures"] if isinstance(figure, dict)]
    if len(names) != len(set(names)):
        yield "two figures have one name"


def faults_in_figure(figure) -> Iterator[str]:
    if not isinstance(figure, dict) or set(figure) != FIGURE_KEYS:
        yield f"figure {figure!r}: keys are not {sorted(FIGURE_KEYS)}"
        return
    name = figure["name"]
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        yield f"figure {name!r}: a name is lower case, digits and underscores"
    if not is_number(figure["value"]) and figure["value"] is not None:
        yield f"{name}: value {figure['value']!r} is not a number"
    if not isinstance(figure["unit"], str) or not isinstance(figure["note"], str):
        yield f"{name}: unit and note are text"
    if figure["value"] is None and not figure["note"]:
        yield f"{name}: a value that is missing needs a note that says why"
    if (figure["bar"] is None) != (figure["meets"] is None):
        yield f"{name}: bar and meets go together"
    if figure["meets"] not in (True, False, None):
        yield f"{name}: meets is true, false or null"


def is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@pytest.fixture(scope="module")
def generate(root):
    return runpy.run_path(str(root / "docs" / "generate.py"))


def test_every_result_has_the_agreed_form(root):
    faults = [
        f"{path.name}: {fault}"
        for path in sorted((root / "bench" / "results").glob("*.json"))
        for fault in faults_in_record(json.loads(path.read_text(encoding="utf-8")))
    ]
    assert not faults, "\n".join(faults)


def orphans(results: list[str], scripts: set[str], makefile: str) -> Iterator[str]:
    """Results that nobody can measure again with one command."""
    for name in results:
        if name not in scripts:
            yield f"bench/results/{name}.json: there is no bench/{name}.py"
        if not re.search(rf"^bench-{name}:", makefile, re.MULTILINE):
            yield f"bench/results/{name}.json: there is no `make bench-{name}`"


def test_every_result_can_be_measured_again_with_one_command(root):
    results = [path.stem for path in sorted((root / "bench" / "results").glob("*.json"))]
    scripts = {path.stem for path in (root / "bench").glob("*.py")}
    faults = list(orphans(results, scripts, (root / "Makefile").read_text(encoding="utf-8")))
    assert not faults, "\n".join(faults)


def test_an_orphan_is_seen():
    assert not list(orphans(["start"], {"start"}, "bench-start: setup\n"))
    assert len(list(orphans(["start"], {"step"}, "bench-step: setup\n# bench-start:\n"))) == 2


def test_no_table_in_the_docs_is_stale(root, generate, capsys):
    assert generate["main"](root, check=True) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        {"date": "30.11.2026"},
        {"commit": "HEAD"},
        {"machine": ""},
        {"figures": []},
        {"extra": 1},
        {"figures": [GOOD_FIGURE, GOOD_FIGURE]},
        {"figures": [GOOD_FIGURE | {"value": "fast"}]},
        {"figures": [GOOD_FIGURE | {"value": float("nan")}]},
        {"figures": [GOOD_FIGURE | {"value": None}]},
        {"figures": [GOOD_FIGURE | {"meets": None}]},
        {"figures": [GOOD_FIGURE | {"meets": "yes"}]},
        {"figures": [GOOD_FIGURE | {"name": "Help ms"}]},
        {"figures": [{"name": "help_ms", "value": 3}]},
    ],
)
def test_the_form_check_can_fail(change):
    assert not list(faults_in_record(GOOD))
    assert list(faults_in_record(GOOD | change))


def write_site(folder, page: str) -> None:
    (folder / "docs").mkdir()
    (folder / "bench" / "results").mkdir(parents=True)
    (folder / "bench" / "results" / "start.json").write_text(json.dumps(GOOD))
    (folder / "docs" / "x.md").write_text(page)
    (folder / "README.zh-CN.md").write_text(page)


def test_a_table_is_written_once_and_then_fresh(tmp_path, generate, capsys):
    write_site(tmp_path, "Before.\n<!-- bench:start -->\nold\n<!-- /bench -->\nAfter.\n")
    assert generate["main"](tmp_path, check=True) == 1
    assert "docs/x.md: stale; run `make docs`" in capsys.readouterr().out
    assert generate["main"](tmp_path, check=False) == 0
    assert generate["main"](tmp_path, check=True) == 0
    page = (tmp_path / "docs" / "x.md").read_text()
    assert page.startswith("Before.\n<!-- bench:start -->\n| figure |")
    assert "| `help_ms` | 28.6 ms | 150 | yes |  |" in page
    assert page.endswith("Measured 2026-11-30 at 4d43d34 on 2 cores.\n<!-- /bench -->\nAfter.\n")
    assert "| 指标 |" in (tmp_path / "README.zh-CN.md").read_text()


@pytest.mark.parametrize("marker", ["bench:nosuch", "bench:start nosuch"])
def test_a_marker_that_names_nothing_is_an_error(marker, tmp_path, generate, capsys):
    write_site(tmp_path, f"<!-- {marker} -->\n<!-- /bench -->\n")
    assert generate["main"](tmp_path, check=False) == 1
    assert "nosuch" in capsys.readouterr().out


def test_numbers_are_short(generate):
    assert [generate["number"](value) for value in (2.71828182, 12345678, None, "at most 2")] == [
        "2.7183",
        "12345678",
        "",
        "at most 2",
    ]


def test_a_marker_may_choose_figures(generate):
    record = GOOD | {"figures": [GOOD_FIGURE, GOOD_FIGURE | {"name": "other"}]}
    page = generate["render"]("<!-- bench:start other -->\n<!-- /bench -->", {"start": record})
    assert "`other`" in page
    assert "`help_ms`" not in page
