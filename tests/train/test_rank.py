import json
import warnings

import pytest

from hemostat.errors import FieldError, HemostatWarning, UnknownNameError
from hemostat.train.rank import as_rank, run_rank, split_values

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    tuned_batch: int = 4
    broken: bool = False

    def model(self):
        return Model(self.broken)

    def train_data(self):
        return TensorDataset(torch.randn(8, 2), torch.randn(8, 1))

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)

class Model(torch.nn.Linear):
    def __init__(self, broken):
        super().__init__(2, 1)
        self.broken = broken

    def to(self, device):
        if self.broken:
            raise ValueError("the user's model cannot move")
        return super().to(device)
"""


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(TASK)
    monkeypatch.setenv("HEMOSTAT_RUN_DIR", str(tmp_path / "run"))
    return tmp_path / "run"


def test_a_clean_end(run_dir):
    assert run_rank("line.py:Line", {}) == 0
    assert json.loads((run_dir / "exit.0.json").read_text())["status"] == 0


def test_a_usage_error_is_one_line_in_the_exit_file(run_dir):
    assert run_rank("line.py:Line", {"learning_rate": 0.1}) == 2
    record = json.loads((run_dir / "exit.0.json").read_text())
    assert record["status"] == 2 and "learning_rate" in record["why"] and "\n" not in record["why"]


def test_the_users_own_exception_names_file_and_line_and_keeps_its_traceback(run_dir):
    assert run_rank("line.py:Line", {"broken": True}) == 3
    why = json.loads((run_dir / "exit.0.json").read_text())["why"]
    assert why == "line.py:25: ValueError: the user's model cannot move"
    assert "Traceback" in (run_dir / "traceback.0.txt").read_text()


def test_without_a_launcher_the_message_is_printed(run_dir, monkeypatch, capsys):
    monkeypatch.delenv("HEMOSTAT_RUN_DIR")
    assert run_rank("missing.py:Line", {}) == 2
    assert capsys.readouterr().err.startswith("error: rank 0: missing.py: no such file")


def test_warnings_are_notes_of_rank_zero(run_dir, monkeypatch, capsys):
    for rank, said in (("0", "note: heed\n"), ("1", "")):
        monkeypatch.setenv("RANK", rank)
        assert as_rank(lambda: warnings.warn("heed", HemostatWarning, stacklevel=1)) == 0
        assert capsys.readouterr().err == said


def test_a_good_end_is_told_with_its_directory(run_dir):
    told = []
    assert run_rank("line.py:Line", {}, ended=told.append) == 0
    assert told == [run_dir]


def test_values_are_sorted_by_whom_they_are_for():
    task, devices, settings = split_values({"width": 8, "micro_batch": 4, "train": {"seed": 9}})
    assert (task, devices.micro_batch, settings.seed) == ({"width": 8}, 4, 9)
    with pytest.raises(FieldError, match="global_batch"):
        split_values({"global_batch": "many"})
    with pytest.raises(UnknownNameError, match="seed"):
        split_values({"train": {"sed": 9}})


def test_micro_batch_auto_is_a_search_and_takes_no_accumulation():
    rest, devices, settings = split_values({"micro_batch": "auto", "global_batch": 64})
    assert (rest, devices.micro_batch, devices.global_batch, settings.find_micro_batch) == (
        {},
        None,
        64,
        True,
    )
    with pytest.raises(FieldError, match="accumulation=2: is found with micro_batch=auto"):
        split_values({"micro_batch": "auto", "accumulation": 2})
