import json
import subprocess

import pytest
import torch

from hemostat.errors import FieldError, TaskError
from hemostat.task import load_task
from hemostat.track import collect_provenance, create_run, load_run, update_run
from hemostat.train.recorded_task import (
    is_own_loop,
    load_recorded_task,
    plain_or_text,
    task_changes,
    task_file,
    task_values,
    value_changes,
)

TASK = """
import torch, hemostat

class Line(hemostat.Task):
    width: int = 3
    def model(self): return torch.nn.Linear(self.width, 1)
    def train_data(self): return [torch.zeros(self.width)]
    def loss(self, output, target): return output.sum(), 1
"""


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "line.py").write_text(TASK)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)
    loaded = load_task("code/line.py:Line", {"width": 5})
    path = create_run(tmp_path / "runs", "one", {})
    update_run(
        path,
        task={"spec": loaded.spec, "values": {"width": 5}},
        task_file=task_file(loaded.path),
        provenance=collect_provenance(folder),
    )
    return load_run(tmp_path / "runs", "one")


def test_the_task_comes_back_with_its_values_from_another_folder(record, tmp_path, monkeypatch):
    assert record.header["task"]["spec"] == "code/line.py:Line"
    monkeypatch.chdir(tmp_path.parent)
    loaded = load_recorded_task(record)
    assert loaded.task.width == 5
    assert task_changes(record, loaded) == []


def test_a_run_recorded_without_the_path_of_the_file(record):
    del record.header["task_file"]
    assert load_recorded_task(record).task.width == 5


def test_changes_are_said(record, tmp_path):
    path = tmp_path / "code" / "line.py"
    path.write_text(TASK + "\n# more\n")
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "two"],
        cwd=path.parent,
        check=True,
    )
    notes = task_changes(record, load_recorded_task(record))
    assert notes[0] == "code/line.py has changed since the run"
    assert notes[1].startswith("the code is at commit ") and len(notes) == 2


def test_a_value_that_json_cannot_hold_is_kept_as_text():
    assert plain_or_text(torch.float16) == "torch.float16"
    assert plain_or_text((1, 2)) == (1, 2)


MANY = """
import dataclasses
class Many(Line):
    lr: float = 0.1
    shape: tuple[int, ...] = (1, 2)
    most: float = float("inf")
"""


def test_fields_with_other_values_are_said(tmp_path):
    (tmp_path / "many.py").write_text(TASK + MANY)
    spec = f"{tmp_path / 'many.py'}:Many"
    loaded = load_task(spec)
    path = create_run(tmp_path / "runs", "one", {})
    update_run(path, task={"spec": spec, "values": task_values(loaded)})
    record = load_run(tmp_path / "runs", "one")
    assert value_changes(record, loaded) == []
    other = load_task(spec, {"width": 4, "shape": (3,), "lr": 0.2})
    assert value_changes(record, other) == ["width: 3 -> 4", "shape: [1, 2] -> (3,)"]  # lr is the recipe's


def test_a_file_that_is_gone(record, tmp_path):
    path = tmp_path / "code" / "line.py"
    moved = path.rename(tmp_path / "other.py")
    commit = json.loads((record.path / "run.json").read_text())["provenance"]["git"]["commit"]
    with pytest.raises(
        TaskError, match=rf"line.py, is not there any more.*git checkout {commit[:12]}.*--task"
    ):
        load_recorded_task(record)
    assert load_recorded_task(record, f"{moved}:Line").task.width == 5


def test_a_run_of_something_else(record):
    record.header["task"] = "my own loop"
    with pytest.raises(TaskError, match=r"a loop of your own, so no task is recorded.*--task"):
        load_recorded_task(record)
    assert is_own_loop(record)
    loaded = load_recorded_task(record, "code/line.py:Line")
    assert loaded.task.width == 3  # the default
    assert task_changes(record, loaded) == []
    record.header["kind"] = "train"
    assert not is_own_loop(record)
    record.header["task"] = {"spec": "code/line.py:Line", "values": {"width": "wide"}}
    with pytest.raises(FieldError, match="width='wide'"):
        load_recorded_task(record)


def test_a_value_that_json_cannot_hold_comes_back_as_the_default(record, tmp_path):
    path = tmp_path / "code" / "line.py"
    path.write_text(TASK.replace("width: int = 3", "width: int = 3\n    dtype: torch.dtype = torch.float16"))
    record.header["task"]["values"] = {"width": 5, "dtype": "torch.float16"}
    task = load_recorded_task(record).task
    assert (task.width, task.dtype) == (5, torch.float16)
