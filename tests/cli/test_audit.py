"""A forecast beside the fact, and the record of audits that later plans show."""

from __future__ import annotations

import json

import pytest

from hemostat.cli.audit import FILE, calibration_sentence, read_audits
from hemostat.cli.main import run as command
from hemostat.errors import RecordError
from hemostat.track import create_run, update_run

FORECAST = {"cluster": "8xA100-40GB", "layout": "dp=8", "step_s": 2.0, "error": 0.16, "usd": 40.0}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".hemostat" / "runs"


def planned(root, name: str, step_s: float, forecast=FORECAST, steps: int = 5) -> None:
    path = create_run(root, name, {"kind": "train", **({"forecast": forecast} if forecast else {})})
    update_run(path, summary={"usd": 50.0})
    lines = [
        {
            "step": step,
            "samples": 8 * step,
            "values": {"loss": 1.0},
            "time": 1000 + step_s * step + 9 * (step > 0),
        }
        for step in range(steps)  # the first step makes buffers
    ]
    (path / "metrics.0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def said(capsys, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = command(["runs", "audit", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_forecast_and_fact_stand_side_by_side(root, capsys):
    planned(root, "one", 2.2)
    status, out, _ = said(capsys, "one")
    assert status == 0
    assert "step     forecast 2.0 s (1.7 s to 2.3 s), fact 2.2 s: +10%, inside the error bar" in out
    assert "cost     forecast $40.00 ($33.60 to $46.40), fact $50.00: +25%, outside the error bar" in out
    assert "record   1 audited run here took 1.10 times as long as forecast (1.10 to 1.10)" in out


def test_a_second_audit_of_a_run_takes_the_place_of_the_first(root, capsys):
    planned(root, "one", 2.2)
    planned(root, "two", 3.0)
    for name in ("one", "two", "one"):
        assert said(capsys, name)[0] == 0
    file = root.parent / FILE
    assert sorted(each.run for each in read_audits(file)) == ["one", "two"]
    assert calibration_sentence(file) == (
        "2 audited runs here took 1.30 times as long as forecast (1.10 to 1.50)"
    )


def test_later_plans_show_the_record(root, capsys):
    planned(root, "one", 2.2)
    said(capsys, "one")
    capsys.readouterr()
    assert command(["plan", "--params", "320M", "--cluster", "8xA100-40GB"]) == 0
    assert "checked  1 audited run here took 1.10 times as long as forecast" in capsys.readouterr().out


def test_a_run_without_a_forecast_or_a_step(root, capsys):
    planned(root, "one", 2.2, forecast=None)
    assert said(capsys, "one")[0] == 2 and "has no forecast" in said(capsys, "one")[2]
    planned(root, "two", 0.0, steps=2)
    assert "fewer than three steps" in said(capsys, "two")[2]


def test_a_record_that_is_none(root, capsys):
    planned(root, "one", 2.2)
    (root.parent / FILE).write_text(json.dumps({"run": 3}) + "\n")
    with pytest.raises(RecordError, match="cannot be read"):
        read_audits(root.parent / FILE)
    assert said(capsys, "one")[0] == 3
