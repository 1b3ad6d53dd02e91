"""What a run was given comes back, from a file that `--config` takes too."""

import stat
import tomllib

import pytest

from hemostat.errors import RecordError
from hemostat.track import RunRecord


def test_it_comes_back_and_is_for_the_owner_only(tmp_path):
    record = RunRecord(tmp_path)
    name, text = record.given_file(
        "digits.py:Digits", 2, {"lr": 0.1, "train": {"seed": 3}, "betas": [0.9, 0.99]}
    )
    record.keep(name, text)
    path = tmp_path / name
    given = record.given()
    assert (given.task, given.num_ranks) == ("digits.py:Digits", 2)
    assert given.values == {"lr": 0.1, "train": {"seed": 3}, "betas": [0.9, 0.99]}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tomllib.loads(path.read_text())["launch"] == {"task": "digits.py:Digits", "num_ranks": 2}


def test_a_run_of_a_loop_of_ones_own_names_the_way(tmp_path):
    with pytest.raises(RecordError, match="TrainSettings\\(resume="):
        RunRecord(tmp_path).given()


@pytest.mark.parametrize("text", ["lr = ", "lr = 1", "[launch]\ntask = 3"])
def test_a_garbled_file_is_one_message(tmp_path, text):
    (tmp_path / "given.toml").write_text(text)
    with pytest.raises(RecordError, match="cannot be read"):
        RunRecord(tmp_path).given()
