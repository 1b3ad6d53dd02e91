import pytest

from hemostat.errors import RecordError
from hemostat.track import RunRecord
from hemostat.track.evaluations import evaluation_dir, read_evaluations, write_evaluation


def test_evaluations_come_back_in_the_order_they_were_made(tmp_path):
    assert read_evaluations(tmp_path) == []
    for number in range(3):
        write_evaluation(tmp_path, f"z{9 - number}", {"split": "test", "figures": {"loss": float("nan")}})
    found = RunRecord(tmp_path, {}).evaluations()
    assert [fields["id"] for fields in found] == ["z9", "z8", "z7"]
    assert found[0]["figures"] == {"loss": "nan"}


def test_one_that_did_not_end_or_is_garbled_does_not_count(tmp_path):
    RunRecord(tmp_path, {}).add_evaluation("good", {"split": "val"})
    evaluation_dir(tmp_path, "unfinished").mkdir()
    evaluation_dir(tmp_path, "garbled").mkdir()
    (evaluation_dir(tmp_path, "garbled") / "result.json").write_text("{")
    assert [fields["id"] for fields in read_evaluations(tmp_path)] == ["good"]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "evaluations").write_text("a file")
    with pytest.raises(RecordError, match="evaluations"):
        write_evaluation(tmp_path, "x", {"split": "val"})
