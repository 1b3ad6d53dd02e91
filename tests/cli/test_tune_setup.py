"""What a study runs, from its words, its settings and its task."""

from __future__ import annotations

import pytest

from hemostat.cli.tune_setup import (
    Asked,
    TuneSettings,
    direction_of,
    price_of,
    read_words,
    seconds_per_unit,
    setup,
)
from hemostat.errors import FieldError, UnknownNameError
from hemostat.track import create_run, update_run, write_exit
from hemostat.tune.workers import Order

TASK = """
import torch, hemostat

class Line(hemostat.Task):
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 2

    def model(self): return torch.nn.Linear(3, 1)
    def train_data(self): return torch.utils.data.TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
    def val_data(self): return self.train_data()
    def loss(self, output, target): return ((output - target) ** 2).sum(), len(target)
"""


def asked(task: str = "", *command: str, metric: str | None = None, **change) -> Asked:
    settings = change.pop("tune", {})
    return Asked(task=task, command=command, metric=metric, values=change, tune=TuneSettings(**settings))


def test_one_python_file_is_a_task_and_more_words_are_a_command():
    assert read_words(["a.py"]) == ("a.py", ())
    assert read_words(["./run.sh"]) == ("", ("./run.sh",))
    assert read_words(["python", "a.py"]) == ("", ("python", "a.py"))
    assert read_words([]) == ("", ())


@pytest.mark.parametrize(
    ("metric", "direction"), [("val_loss", "min"), ("wer", "min"), ("val_accuracy", "max")]
)
def test_a_name_tells_what_is_better(metric, direction):
    assert direction_of(metric) == direction


def test_a_name_that_tells_nothing_is_asked_about():
    with pytest.raises(FieldError, match="Write --metric min:speed or max:speed"):
        direction_of("speed")
    with pytest.raises(FieldError, match="best:speed"):
        direction_of("speed", "best")


def test_the_price_is_that_of_train():
    assert price_of({}) is None
    assert price_of({"train": {"usd_per_hour": 3}}) == 3.0
    assert price_of({"train": {"instance": "p4d.24xlarge"}}) > 1


def test_a_script_without_a_length_counts_at_its_end():
    made = setup(asked("", "train", "{lr}", metric="max:x"), ("lr",), 1)
    assert (made.only_end, made.length, made.direction, made.metric) == (True, 1, "max", "x")
    made = setup(asked("", "train", "{lr}", tune={"length": 30, "every": 2, "can_pause": True}), ("lr",), 1)
    assert (made.only_end, made.length, made.step, made.jobs.can_pause) == (False, 30, 2, True)
    with pytest.raises(UnknownNameError, match="rate"):
        setup(asked("", "train", "{rate}"), ("lr",), 1)


def test_a_task_is_measured_by_its_own_recipe_and_shares_the_price(here):
    study = asked("line.py:Line", train={"usd_per_hour": 8.0, "max_hours": 1, "self_check": False}, epochs=4)
    made = setup(study, ("lr", "global_batch"), 4)
    assert (made.metric, made.direction, made.length, made.step) == ("val_loss", "min", 256, 16)
    values = made.settings_of({"lr": 0.5, "train.max_skips": 3})
    assert values["lr"] == 0.5
    assert values["epochs"] == 4
    assert values["train"] == {"keep": 1, "self_check": False, "usd_per_hour": 2.0, "max_skips": 3}
    order = Order(trial=0, config={"global_batch": 32}, start=0, until=32, seed=0)
    assert made.jobs.pause_at(order) == 1
    assert made.jobs.pause_at(Order(trial=0, config={}, start=0, until=32, seed=0)) == 25


def test_a_metric_of_ones_own_is_followed_by_the_trials_too(here):
    made = setup(asked("line.py:Line", metric="max:val_accuracy"), ("lr",), 1)
    assert made.settings_of({})["monitor"] == "val_accuracy"
    assert made.settings_of({})["metric_mode"] == "max"


def test_a_run_before_tells_what_a_sample_takes(here):
    study = asked("line.py:Line")
    runs = here / ".hemostat/runs"
    assert seconds_per_unit(study, runs) is None
    run = create_run(here / ".hemostat/runs", "r", {"task": "line.py:Line"})
    update_run(run, summary={"samples": 100, "spent_s": 5.0})
    assert seconds_per_unit(study, runs) is None, "it has not ended"
    write_exit(run, 0, 0, "")
    assert seconds_per_unit(study, runs) == 0.05
