"""What is typed beside the flags, and what a task says of its batch and length."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hemostat.cli.planning import (
    lengths,
    measured,
    of_task,
    profile_of_model,
    read_words,
    sizes_of,
    task_values,
)
from hemostat.errors import FieldError, UsageError
from hemostat.track import create_run

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    optimizer: str = "sgd"
    lr: float = 0.1
    tuned_batch: int = 8
    epochs: float = 2
    def model(self): return torch.nn.Linear(3, 1)
    def train_data(self): return TensorDataset(torch.zeros(64, 3), torch.zeros(64, 1))
    def loss(self, output, target): return (output - target).square().sum(), len(target)
"""


def test_words():
    assert read_words(["a.py:B"]) == ("a.py:B", {})
    assert read_words(["--params=320M", "--seq", "2k"]) == (
        "",
        {"num_params": 320_000_000, "num_tokens": 2000},
    )
    with pytest.raises(UsageError, match=r"No such option: --layer\. There are --params, --layers"):
        read_words(["--layer", "3"])
    with pytest.raises(FieldError, match="layers=''"):
        read_words(["--layers"])


def test_sizes_come_from_one_place(tmp_path):
    assert sizes_of("a.py:B", {}, {}) is None
    assert sizes_of("", {"hidden": 64}, {"sample_tokens": 128}) == {"hidden": 64, "num_tokens": 128}
    (tmp_path / "c.json").write_text(json.dumps({"model_type": "llama"}))
    assert sizes_of(str(tmp_path / "c.json"), {}, {}) == {"model_type": "llama"}
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(FieldError, match="is no table of names"):
        sizes_of(str(tmp_path / "list.json"), {}, {})
    (tmp_path / "torn.json").write_text("{")
    with pytest.raises(FieldError, match="is not JSON"):
        sizes_of(str(tmp_path / "torn.json"), {}, {})


def test_a_task_says_its_batch_its_length_and_its_optimizer(here):
    assert of_task("line.py:Line", {}) == {"global_batch": 8, "optimizer": "sgd", "num_samples": 128}
    assert of_task("line.py:Line", {"global_batch": 16, "epochs": 1})["num_samples"] == 64
    assert of_task("model.json", {}) == of_task("", {}) == {}
    assert task_values({"lr": 1.0, "plan": {}, "train": {}, "global_batch": 3}) == {"lr": 1.0}
    assert profile_of_model("line.py:Line", None, {}).num_params == 4


def test_the_newest_run_of_a_task_says_its_critical_batch(here):
    for name, spec, critical in (
        ("a", "line.py:Line", 64.0),
        ("b", "line.py:Line", 32.0),
        ("c", "line.py:Line", None),
        ("d", "other.py:Line", 7.0),
    ):
        header = {
            "task": {"spec": spec},
            "created": float(ord(name)),
            "summary": {"critical_batch": critical},
        }
        create_run(Path(".hemostat/runs"), name, header)
    assert of_task("line.py:Line", {})["critical_batch"] == of_task("line.py", {})["critical_batch"] == 32.0
    assert of_task("line.py:Line", {"critical_batch": 16.0})["critical_batch"] == 16.0


def test_a_batch_in_tokens_is_one_in_samples(here):
    profile = profile_of_model("", {"num_layers": 2, "hidden": 64, "num_tokens": 512}, {})
    assert lengths(profile, "1024tok", "") == {"global_batch": 2}
    assert lengths(profile, "16", "1M") == {"global_batch": 16, "num_tokens": 1e6}


def recorded(name: str, hardware: dict, steps: int = 12) -> None:
    header = {
        "hardware": hardware,
        "batch": {"micro_batch": 4, "accumulation": 2},
        "precision": "bf16",
        "task": {"spec": "line.py:Line"},
    }
    path = create_run(Path(".hemostat/runs"), name, header)
    lines = [
        {"step": n, "samples": 8 * n, "values": {"loss": 1.0}, "time": 10.0 + 0.5 * n} for n in range(steps)
    ]
    (path / "metrics.0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_run_on_one_device_calibrates(here):
    one = {"num_ranks": 1, "name": "NVIDIA A100-SXM4-40GB"}
    recorded("good", one)
    (step,) = measured("good")["measured"]
    assert (step["step_s"], step["micro_batch"], step["accumulation"]) == (0.5, 4, 2)
    assert (step["device"], step["precision"], step["run"]) == (one["name"], "bf16", "good")
    assert measured("good, good")["measured"] == [step, step]
    assert measured("") == {}
    section = {"plan": measured("good")}
    assert profile_of_model("line.py:Line", None, section) == profile_of_model("line.py", None, section)
    for model, sizes in (("line.py:Other", None), ("other.py:Line", None), ("", {"hidden": 64})):
        with pytest.raises(UsageError, match=r"run good trained line\.py:Line, and"):
            profile_of_model(model, sizes, section)
    recorded("many", {**one, "num_ranks": 2})
    recorded("slow", {"num_ranks": 1, "name": "cpu"})
    recorded("short", one, steps=2)
    for name, said in (("many", "used 2 x NVIDIA"), ("slow", "used 1 x cpu"), ("short", "fewer than three")):
        with pytest.raises(UsageError, match=said):
            measured(name)
