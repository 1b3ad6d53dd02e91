import pytest

from hemostat.errors import RecordError
from hemostat.track import RunRecord
from hemostat.track.samples import read_samples, write_sample


def test_samples_come_back_in_order_of_steps_and_numbers(tmp_path):
    for step, name, content in [
        (20, "10", "j"),
        (20, "9", "i"),
        (3, "0", b"\x89PNG"),
        (3, "best guess/x", "k"),
    ]:
        write_sample(tmp_path, step, name, content)
    (tmp_path / "samples" / "notes.md").write_text("mine")
    found = read_samples(tmp_path)
    assert [(sample.step, sample.name, sample.text) for sample in found] == [
        (3, "best_guess_x", "k"),
        (3, "0", None),
        (20, "9", "i"),
        (20, "10", "j"),
    ]
    assert found[1].path.endswith("step-00000003.0.png")


def test_a_run_without_samples_has_none(tmp_path):
    assert RunRecord(tmp_path, {}).samples() == []


def test_text_that_no_file_can_hold_is_replaced(tmp_path):
    RunRecord(tmp_path, {}).add_sample(1, "", "half \ud800")
    assert read_samples(tmp_path)[0].text == "half ?"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "samples").write_text("a file")
    with pytest.raises(RecordError, match="samples"):
        write_sample(tmp_path, 1, "0", "text")
