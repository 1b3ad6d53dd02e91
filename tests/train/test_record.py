import json
import threading

import pytest

from hemostat.errors import RecordError
from hemostat.track import RunRecord
from hemostat.train.data_watch import DataWatch
from hemostat.train.process import World
from hemostat.train.record import Record


def test_the_launcher_names_the_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HEMOSTAT_RUN_DIR", str(tmp_path / "given"))
    record = Record(World())
    record.header(lambda: {"seed": 3})
    record.log(1, 32, {"loss": 2.0})
    record.flush()
    record.close()
    assert json.loads((tmp_path / "given" / "run.json").read_text())["seed"] == 3
    assert RunRecord(tmp_path / "given").metrics("loss") == [(1, 32, 2.0)]


def test_without_a_launcher_an_id_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = Record(World())
    record.close()
    assert (tmp_path / ".hemostat" / "runs" / record.path.name).is_dir()


def test_a_run_that_another_process_runs_is_refused(tmp_path, monkeypatch):
    """A loop of one's own and `hemostat train` refuse each other too: both take the same lock."""
    monkeypatch.chdir(tmp_path)
    first = Record(World())
    first.claim(World())
    second = Record(World(), resume="last")
    with pytest.raises(RecordError, match="another process is running this run"):
        second.claim(World())
    first.abandon()
    second.claim(World())
    second.close()
    with RunRecord(first.path).claim(), pytest.raises(RecordError, match="another process is running"):
        first.claim(World())
    monkeypatch.setenv("HEMOSTAT_RUN_DIR", str(first.path))
    with RunRecord(first.path).claim():  # by the launcher of this rank
        first.claim(World())


def test_nothing_is_written_when_told_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = Record(World(), enabled=False)
    record.header(lambda: pytest.fail("computed for nobody"))
    record.log(1, 1, {"loss": 1.0})
    record.close()
    assert record.path is None and list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_one_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEMOSTAT_RUN_DIR", str(tmp_path / "file" / "run"))
    with pytest.raises(RecordError):
        Record(World())


def test_data_are_hashed_while_the_record_is_open(tmp_path, monkeypatch):
    monkeypatch.setenv("HEMOSTAT_RUN_DIR", str(tmp_path / "run"))
    record = Record(World())
    record.header(lambda: {"data": DataWatch([b"abc"], {"tier": "declared"}), "seed": 3})
    assert json.loads((tmp_path / "run" / "run.json").read_text())["data"]["tier"] in (
        "declared",
        "stat",
        "full",
    )
    record.close()
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert header["data"]["tier"] == "full" and header["seed"] == 3
    assert not [thread for thread in threading.enumerate() if thread.name == "hemostat-data"]
