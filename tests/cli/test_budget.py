import datetime
import json
import time
from pathlib import Path

import pytest

from hemostat.cli.budget import allowed, new_budget_lines, refuse_past_budget
from hemostat.cli.main import run
from hemostat.cli.project import Project
from hemostat.errors import BudgetStop, FieldError
from hemostat.recipe import budget
from hemostat.track import create_run, update_run

ROOT = Path(".hemostat/runs")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def spend(name, seconds, usd_per_hour=36.0):
    path = create_run(ROOT, name, {"kind": "train"})
    summary = {"spent_s": seconds, "ended": time.time()}
    update_run(path, hardware={"usd_per_hour": usd_per_hour}, summary=summary)


def project(**limits):
    return Project(budget=budget.ProjectBudget(**limits))


def test_the_page_says_how_much_is_left_and_how_long_it_lasts(capsys, tmp_path):
    (tmp_path / "hemostat.toml").write_text("[budget]\nusd = 10\nhours = 2\nuntil = 2100-01-01\n")
    spend("a-run", 500.0)
    spend("b-run", 100.0, usd_per_hour=None)
    assert run(["runs", "budget"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 12
    assert lines[0] == "budget   of hemostat.toml, until 2100-01-01; 2 runs in .hemostat/runs"
    assert "$5.00 of $10.00 (50%)" in lines[1] and "$5.00 a day of late; the rest lasts until 2" in lines[2]
    assert "10m00s of 2h00m (8%)" in lines[3]
    assert "1 of the runs have no price" in lines[5] and lines[6].endswith("$5.00")


def test_json_has_the_figures(capsys, tmp_path):
    (tmp_path / "hemostat.toml").write_text("[budget]\nusd = 10\n")
    spend("a-run", 500.0)
    assert run(["runs", "budget", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["limits"][0]["share"] == 0.5 and page["runs"][0]["usd"] == 5.0


def test_without_a_budget_the_page_says_what_to_write(capsys):
    assert run(["runs", "budget"]) == 0
    said = capsys.readouterr().out
    assert (
        "none is set; 0 runs" in said
        and "[budget] usd = 500" in said
        and "nothing in the last 7 days" in said
    )


def test_each_line_is_warned_of_once_and_a_new_limit_anew():
    spend("a-run", 500.0)
    limits = project(usd=10)
    assert [len(new_budget_lines(limits, ROOT)) for _ in range(3)] == [1, 0, 0]
    spend("b-run", 350.0)
    (said,) = new_budget_lines(limits, ROOT)
    assert said.startswith("85% of the project's budget is spent: $8.50 of $10.00")
    assert len(new_budget_lines(project(usd=16), ROOT)) == 1
    assert new_budget_lines(project(), ROOT) == []


def test_past_the_budget_nothing_starts_unless_told():
    spend("a-run", 1000.0)
    with pytest.raises(BudgetStop, match=r"budget\.usd=\$10\.00: \$10\.00 is spent.*over_budget=true"):
        refuse_past_budget(project(usd=10), ROOT, told=False)
    with pytest.raises(BudgetStop, match=r"budget\.hours=10m00s: 16m40s is spent"):
        refuse_past_budget(project(hours="10min"), ROOT, told=False)
    refuse_past_budget(project(usd=10), ROOT, told=True)
    refuse_past_budget(project(usd=10.01), ROOT, told=False)


def test_after_the_last_day_nothing_starts_unless_told():
    day = datetime.date(2020, 1, 1)
    with pytest.raises(BudgetStop, match=r"budget\.until=2020-01-01"):
        refuse_past_budget(project(until=day), ROOT, told=False)
    refuse_past_budget(project(until=day), ROOT, told=True)


def test_what_is_asked_for_is_checked_before_anything_starts():
    for engine, said in [
        ({"max_usd": 5}, "needs the price of an hour"),
        ({"max_usd": 5, "instance": "p9"}, "instance='p9'"),
        ({"max_hours": "soon"}, "train.max_hours='soon'"),
        ({"max_hours": [1]}, "train.max_hours="),
        (3, "is a section"),
    ]:
        with pytest.raises(FieldError) as refused:
            allowed({"train": engine}, ROOT)
        assert said in str(refused.value)
    assert allowed({"train": {"max_usd": "$5", "instance": "p4d.24xlarge", "seed": 3}}, ROOT) == Project()
