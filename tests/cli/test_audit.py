"""A forecast beside the fact, and the record of audits that later plans show."""

from __future__ import annotations

import json

import pytest

from hemostat.cli.audit import FILE, calibration_sentence, read_audits
from hemostat.cli.main import run as command
from hemostat.errors import RecordError
from hemostat.track import create_run, update_run

GIB = 2**30
FORECAST = {
    "cluster": "8xA100-40GB",
    "device": "A100-40GB",
    "num_devices": 8,
    "num_params": 320_000_000,
    "layout": "dp=8",
    "step_s": 2.0,
    "error": 0.16,
    "run_s": 7200.0,
    "usd": 40.0,
    "reserved_bytes": [22 * GIB, 23 * GIB, 25 * GIB],
    "others": [{"layout": "fsdp=8", "step_s": 2.1}, {"layout": "pp=2,dp=4", "step_s": 2.4}],
}
HARDWARE = {"name": "NVIDIA A100-SXM4-40GB", "num_ranks": 8}
SUMMARY = {"usd": 50.0, "status": "ended", "train_s": 7560.0, "peak_reserved_bytes": 24 * GIB}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".hemostat" / "runs"


def planned(root, name: str, step_s: float, steps: int = 5, **changed) -> None:
    header = {"kind": "train", "forecast": FORECAST, "hardware": HARDWARE, **changed}
    path = create_run(root, name, {key: value for key, value in header.items() if value})
    update_run(path, summary=changed.get("summary", SUMMARY))
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


def test_step_memory_time_and_money_stand_side_by_side_with_what_else_was_possible(root, capsys):
    planned(root, "one", 2.2)
    status, out, _ = said(capsys, "one")
    assert status == 0 and len(out.splitlines()) <= 12
    assert "step     forecast 2.00 s ±0.32, fact 2.2 s: +10%, inside the error bar" in out
    assert "memory   forecast 23.0 GiB (22.0 GiB to 25.0 GiB) reserved, fact 24.0 GiB: +4%, inside" in out
    assert "time     forecast 2.00 h ±0.32, fact 2h06m: +5%, inside the error bar" in out
    assert "cost     forecast $40 ±6, fact $50.00: +25%, outside the error bar" in out
    assert "others   were forecast: fsdp=8 at 2.1 s, pp=2,dp=4 at 2.4 s a step" in out
    assert "took 1.10 (1.10 to 1.10) times as long as forecast; reserved 1.04 (1.04 to 1.04) times" in out


def test_a_layout_that_was_forecast_clearly_faster_than_the_fact_is_worth_a_try(root, capsys):
    planned(root, "slow", 3.0)
    assert "; fsdp=8 is worth a try" in said(capsys, "slow")[1]


@pytest.mark.parametrize(
    "hardware",
    [
        {"name": "cpu", "num_ranks": 8},
        {"name": "NVIDIA A100-SXM4-40GB", "num_ranks": 1},
        {"name": "NVIDIA A100-SXM4-80GB", "num_ranks": 8},
        {"name": "NVIDIA H100 80GB HBM3", "num_ranks": 8},
        {},
    ],
)
def test_a_run_on_something_else_is_shown_and_does_not_count(root, capsys, hardware):
    planned(root, "one", 200.0, hardware=hardware)
    status, out, _ = said(capsys, "one")
    assert status == 0 and "record   not counted: it ran on" in out
    assert not (root.parent / FILE).exists()
    assert command(["plan", "--params", "320M", "--cluster", "8xA100-40GB"]) == 0
    assert "checked" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA H200", "H200"),
    ],
)
def test_devices_as_drivers_name_them_are_known(root, capsys, name, device):
    forecast = {**FORECAST, "device": device, "cluster": f"8x{device}"}
    planned(root, "one", 2.2, hardware={"name": name, "num_ranks": 8}, forecast=forecast)
    assert "record   1 audited run here" in said(capsys, "one")[1]


def test_a_run_without_a_peak_says_so(root, capsys):
    planned(root, "one", 2.2, summary={"status": "stopped", "train_s": 10.0})
    out = said(capsys, "one")[1]
    assert "reserved; the run recorded no peak, which accelerators alone have" in out
    assert "time     forecast 2h00m; the run did not reach its end" in out
    assert "cost" not in out


def test_a_forecast_of_before_has_no_memory(root, capsys):
    old = {name: FORECAST[name] for name in ("cluster", "layout", "step_s", "error", "usd")}
    planned(root, "one", 2.2, forecast=old)
    out = said(capsys, "one")[1]
    assert "memory   the plan kept no forecast of it" in out and "record   1 audited run" in out


def test_a_second_audit_of_a_run_takes_the_place_of_the_first(root, capsys):
    planned(root, "one", 2.2)
    planned(root, "two", 3.0)
    for name in ("one", "two", "one"):
        assert said(capsys, name)[0] == 0
    file = root.parent / FILE
    assert sorted(each.run for each in read_audits(file).audits) == ["one", "two"]
    assert "2 audited runs here" in calibration_sentence(file, "A100-40GB", 320_000_000)
    assert "took 1.30 (1.10 to 1.50) times" in calibration_sentence(file, "A100-40GB", 320_000_000)


@pytest.mark.parametrize(
    ("device", "num_params", "counts"),
    [
        ("A100-40GB", 500_000_000, True),
        ("A100-40GB", 7_000_000_000, False),
        ("A100-40GB", 10_000_000, False),
        ("A100-80GB", 320_000_000, False),
        ("H100-80GB", 320_000_000, False),
    ],
)
def test_only_runs_of_the_same_device_and_like_size_count(root, capsys, device, num_params, counts):
    planned(root, "one", 2.2)
    said(capsys, "one")
    assert bool(calibration_sentence(root.parent / FILE, device, num_params)) == counts


@pytest.mark.parametrize(
    "page", [[], ["--why"], ["--explain"], ["--fit"], ["--ask", "--tokens", "1B"], ["--json"]]
)
def test_every_later_page_shows_the_record(root, capsys, page):
    planned(root, "one", 2.2)
    said(capsys, "one")
    assert command(["plan", "--params", "320M", "--cluster", "8xA100-40GB", *page]) == 0
    assert (
        "1 audited run here, on A100-40GB and of a model of like size, took 1.10" in capsys.readouterr().out
    )


def test_a_run_without_a_forecast_or_a_step(root, capsys):
    planned(root, "one", 2.2, forecast=None)
    assert said(capsys, "one")[0] == 2 and "has no forecast" in said(capsys, "one")[2]
    planned(root, "two", 0.0, steps=2)
    assert "fewer than three steps" in said(capsys, "two")[2]


@pytest.mark.parametrize("torn", ['{"run": 3}', '{"run": "one", "clu', "\x00\x00"])
def test_a_torn_line_is_skipped_with_a_note_and_stays_in_the_file(root, capsys, torn):
    planned(root, "one", 2.2)
    file = root.parent / FILE
    file.write_text(f"{torn}\n")
    assert command(["plan", "--params", "320M", "--cluster", "8xA100-40GB"]) == 0
    assert "1 line of .hemostat/calibration.jsonl cannot be read" in capsys.readouterr().out
    assert said(capsys, "one")[0] == 0
    assert [each.run for each in read_audits(file).audits] == ["one"] and torn in file.read_text()


def test_a_record_that_is_no_file(root):
    file = root.parent / FILE
    file.mkdir(parents=True)
    with pytest.raises(RecordError, match="cannot be read"):
        read_audits(file)
