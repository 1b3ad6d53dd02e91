"""load_task: settings reach the task and the recipe, and every wrong file gets one line."""

import sys

import pytest

from hemostat.errors import FieldError, HemostatError, TaskError, UnknownNameError
from hemostat.task import load_task

GOOD = """
from __future__ import annotations
import torch
import hemostat

class Digits(hemostat.Task):
    lr: float = 0.1
    width: int = 8
    dropout: float = 0.0
    tag: str = "a"
    name: str | None = None
    betas: tuple[float, float] = (0.9, 0.99)
    dtype: torch.dtype = torch.float32

    def model(self):
        return torch.nn.Linear(self.width, 1)

    def train_data(self):
        return [1]

    def loss(self, output, target):
        return output.sum(), 1
"""


@pytest.fixture(autouse=True)
def clean_imports(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", "") and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="digits.py"):
        (tmp_path / name).write_text(text)
        return name

    return write_file


def test_the_usual_case(write, tmp_path):
    loaded = load_task(f"{write(GOOD)}:Digits")
    assert repr(loaded.task).startswith("Digits(lr=0.1, width=8")
    assert loaded.spec == "digits.py:Digits"
    assert loaded.path == tmp_path / "digits.py"
    assert (loaded.base.lr, loaded.base.tuned_batch) == (0.1, 32)


def test_the_class_may_be_left_out_where_there_is_one(write):
    assert load_task(write(GOOD)).spec == "digits.py:Digits"


def test_an_absolute_path_and_a_colon_inside(write, tmp_path):
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "t.py").write_text(GOOD)
    assert load_task(f"{folder}/t.py:Digits").path == folder / "t.py"
    assert load_task(f"{folder}/t.py").path == folder / "t.py"


def test_settings_win_over_the_task_and_the_task_over_the_recipe(write):
    spec = write(GOOD)
    loaded = load_task(spec, {"lr": 1, "width": 16, "epochs": 3, "schedule": "linear"})
    assert (loaded.task.lr, loaded.task.width) == (1.0, 16)
    assert type(loaded.task.lr) is float
    assert (loaded.base.lr, loaded.base.epochs, loaded.base.schedule) == (1.0, 3.0, "linear")


def test_lists_from_toml_become_tuples(write):
    assert load_task(write(GOOD), {"betas": [0.5, 0.6]}).task.betas == (0.5, 0.6)


def test_a_field_that_is_none_leaves_the_recipe_its_default(write):
    text = GOOD.replace("lr: float = 0.1", "lr: float | None = None\n    epochs: int | None = None")
    loaded = load_task(write(text))
    assert (loaded.base.lr, loaded.base.epochs) == (1e-3, None)


def test_tasks_are_inherited_within_a_file(write):
    spec = write(GOOD + "\n\nclass Wide(Digits):\n    width: int = 64\n")
    assert load_task(f"{spec}:Wide").task.width == 64
    with pytest.raises(TaskError, match=r"digits\.py has 2 tasks: Digits, Wide\. Write digits\.py:Wide"):
        load_task(spec)


def test_a_neighbour_can_be_imported_and_its_task_is_not_taken_for_ours(write):
    write(GOOD, "parent_task.py")
    spec = write("from parent_task import Digits\n\nclass Mine(Digits):\n    width: int = 9\n", "mine.py")
    assert load_task(spec).spec == "mine.py:Mine"
    assert load_task(f"{spec}:Digits").task.width == 8


def test_two_files_of_one_name_do_not_mix(write, tmp_path):
    load_task(write(GOOD))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "digits.py").write_text(GOOD.replace("width: int = 8", "width: int = 9"))
    assert load_task("other/digits.py").task.width == 9
    assert load_task("digits.py").task.width == 8


def test_a_file_is_read_again_after_a_change(write):
    load_task(write(GOOD))
    assert load_task(write(GOOD.replace("width: int = 8", "width: int = 99"))).task.width == 99


def test_a_file_named_like_a_module_of_python_does_not_replace_it(write):
    import json

    assert load_task(write(GOOD, "json.py")).task.width == 8
    assert sys.modules["json"] is json


def test_a_name_with_a_dash(write):
    assert load_task(write(GOOD, "my-task.py")).spec == "my-task.py:Digits"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "absent.py:Digits",
            r"absent\.py: no such file\. Write it like digits\.py:Digits\. Python files there: digits\.py",
        ),
        ("digits.py:Wrong", r"digits\.py has no class Wrong\. Tasks there: Digits\."),
        ("digits.py:torch", r"digits\.py:torch is a module, not a class"),
        (".", r"\. is a folder"),
        ("", r"is a folder|no such file"),
        ("digits", r"digits: no such file"),
        ("notes.txt:Digits", r"notes\.txt is not a Python file"),
        ("plain.py:Plain", r"plain\.py:Plain is not a task\. Write class Plain\(hemostat\.Task\)"),
        ("plain.py", r"plain\.py has no task\. Write class Plain\(hemostat\.Task\)"),
        ("syntax.py", r"syntax\.py:2: "),
        ("neighbour.py", r"syntax\.py:2: "),
        ("raises.py", r"raises\.py:3: importing the task file raised KeyError: 'DATA'"),
        ("leaves.py", r"leaves\.py:2: importing the file ends the program.*__main__"),
        ("module.py", r"module\.py:1: no module named 'not_installed_anywhere'\. Install it"),
        ("untyped.py", r"untyped\.py:2: Bad\.lr=0\.1 has no type"),
        ("nomodel.py", r"nomodel\.py:NoModel has no model\(\)\. Write def model\(self\)"),
        ("nodata.py", r"nodata\.py:NoData has no train_data\(\)"),
        ("noloss.py", r"NoLoss has no loss: write loss\(self, output, target\)"),
        ("novalue.py", r"NoValue\.width has no value\. Give it a default in the class, or --set width=VALUE"),
        ("postinit.py", r"Digits\(\) raised ZeroDivisionError: .* at postinit\.py:\d+"),
    ],
)
def test_wrong_files_get_one_line(spec, message, write):
    write(GOOD)
    write("hello", "notes.txt")
    write("class Plain:\n    pass\n", "plain.py")
    write("x = 1\nclass Digits(:\n", "syntax.py")
    write("import syntax\n", "neighbour.py")
    write("import os\n\nDATA = {}['DATA']\n", "raises.py")
    write("import sys\nsys.exit(0)\n", "leaves.py")
    write("import not_installed_anywhere\n", "module.py")
    write("from hemostat import Task\nclass Bad(Task):\n    lr = 0.1\n", "untyped.py")
    write("from hemostat import Task\nclass NoModel(Task):\n    pass\n", "nomodel.py")
    model = "    def model(self): ...\n"
    write(f"from hemostat import Task\nclass NoData(Task):\n{model}", "nodata.py")
    both = f"{model}    def train_data(self): ...\n"
    write(f"from hemostat import Task\nclass NoLoss(Task):\n{both}", "noloss.py")
    loss = f"{both}    def loss(self, output, target): ...\n"
    write(f"from hemostat import Task\nclass NoValue(Task):\n    width: int\n{loss}", "novalue.py")
    write(GOOD + "\n    def __post_init__(self):\n        1 / 0\n", "postinit.py")
    with pytest.raises(TaskError, match=message) as caught:
        load_task(spec)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"width": "wide"}, FieldError, r"width='wide': must be int, not str\. Give a value of that kind"),
        ({"width": 1.5}, FieldError, r"width=1\.5: must be int, not float"),
        ({"width": True}, FieldError, r"width=True: must be int, not bool"),
        ({"name": 3}, FieldError, r"name=3: must be "),
        ({"tag": 3}, FieldError, r"""tag=3: must be str, not int\. Quote it: --set tag='"3"'\."""),
        ({"betas": [1, 2, 3]}, FieldError, r"betas=\[1, 2, 3\]"),
        ({"epochs": "three"}, FieldError, r"epochs='three': must be "),
        ({"lr": -1}, FieldError, r"lr=-1"),
        (
            {"widht": 9},
            UnknownNameError,
            r"'widht': is not known\. Did you mean 'width'\? Known: width, weight_decay",
        ),
        ({"train": {"seed": 3}}, UnknownNameError, r"'train': is not known"),
    ],
)
def test_wrong_settings(values, error, message, write):
    with pytest.raises(error, match=message):
        load_task(write(GOOD), values)


def test_a_field_of_the_task_that_the_recipe_cannot_mean(write):
    with pytest.raises(HemostatError, match=r"schedule="):
        load_task(write(GOOD.replace("width: int = 8", 'width: int = 8\n    schedule: str = "mine"')))


def test_types_that_exist_for_type_checkers_only_are_read_from_the_defaults(write):
    spec = write(GOOD.replace("width: int = 8", "width: int = 8\n    kind: NotImported = None"))
    assert load_task(spec, {"width": 3, "kind": "any"}).task.width == 3
    with pytest.raises(FieldError, match="width='wide': must be int"):
        load_task(spec, {"width": "wide"})
