"""When a cap is reached, as a file that another process reads."""

from hemostat.track import RunRecord


def test_what_was_said_last_counts_until_it_is_forgotten(tmp_path):
    record = RunRecord(tmp_path)
    assert record.deadline() is None
    record.set_deadline(12.5, "max_hours=1h00m")
    record.set_deadline(9.5, "max_usd=$4.00")
    assert (record.deadline().at_s, record.deadline().cap) == (9.5, "max_usd=$4.00")
    record.forget_deadline()
    record.forget_deadline()
    assert record.deadline() is None


def test_garbage_and_a_folder_that_is_gone_are_none(tmp_path):
    (tmp_path / "deadline.json").write_text("{")
    assert RunRecord(tmp_path).deadline() is None
    gone = RunRecord(tmp_path / "gone")
    gone.set_deadline(1.0, "max_hours=1h00m")
    assert gone.deadline() is None
