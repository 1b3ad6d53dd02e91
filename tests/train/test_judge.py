import math
import textwrap

import pytest
import torch

from hemostat.errors import FieldError, TaskError
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.track import load_run
from hemostat.train import TrainSettings, train
from hemostat.train.judge import judge_run
from hemostat.train.process import World
from hemostat.train.weights import read_weights

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    optimizer: str = "sgd"
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 4
    num_test: int = 45

    def model(self):
        return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))

    def rows(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(size, 3, generator=generator)
        return TensorDataset(x, x.sum(1, keepdim=True) + torch.randn(size, 1, generator=generator))

    def train_data(self):
        return self.rows(40, 1)

    def val_data(self):
        return self.rows(30, 2)

    def test_data(self):
        return self.rows(self.num_test, 3) if self.num_test else None

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)

    def metrics(self, output, target):
        return {"close": (((output - target).abs() < 0.5).sum(), len(target))}
"""


def make_run(folder, **values):
    (folder / "line.py").write_text(textwrap.dedent(TASK))
    train(load_task("line.py:Line", values), Devices(), TrainSettings())
    return load_run(folder / ".hemostat" / "runs")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def test_the_figures_are_those_of_the_best_weights(run):
    fields = judge_run(run, "test", World())
    task = load_task("line.py:Line").task
    model = task.model().eval()
    model.load_state_dict(read_weights(run, "best").state)
    inputs, targets = task.test_data().tensors
    losses = ((model(inputs) - targets) ** 2).detach().double().flatten()
    figure = fields["figures"]["test_loss"]
    assert figure["value"] == pytest.approx(losses.mean().item(), rel=1e-6)
    assert figure["standard_error"] == pytest.approx(losses.std().item() / math.sqrt(45), rel=1e-5)
    assert figure["unit"] == fields["figures"]["test_close"]["unit"] == "sample"
    assert (fields["checkpoint"], fields["num_samples"], fields["notes"]) == ("best", 45, [])
    assert fields["step"] == run.summary["best_step"]
    assert fields["data"]["tier"] == "full"


def test_validation_gives_what_training_recorded(run):
    fields = judge_run(run, "val", World())
    assert fields["figures"]["val_loss"]["value"] == pytest.approx(run.summary["best"], rel=1e-6)
    assert fields["notes"] == []
    run.headline["summary"] = run.summary | {"best": 17.0}
    assert "training recorded val_loss 17" in judge_run(run, "val", World())["notes"][0]


def judged_in_rank(path, num_ranks):
    torch.set_num_threads(1)
    world = World.from_environment("cpu")
    record = load_run(path.parent, path.name)
    return judge_run(record, "test", world)["figures"]


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
def test_any_number_of_ranks_gives_the_same_bits(run, ranks, num_ranks):
    alone = judge_run(run, "test", World())["figures"]
    for figures in ranks(num_ranks, judged_in_rank, run.path, num_ranks):
        assert figures == alone


def test_one_sample_and_fewer_samples_than_ranks(tmp_path, monkeypatch, ranks):
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path, num_test=1)
    figure = judge_run(run, "test", World())["figures"]["test_loss"]
    assert math.isfinite(figure["value"]) and figure["standard_error"] is None
    with pytest.raises(FieldError, match="nproc=2: test_data has 1 samples"):
        judge_run(run, "test", World(num_ranks=2))


def test_a_task_without_test_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path, num_test=0)
    with pytest.raises(TaskError, match=r"Line of run .* has no test_data. Write def test_data"):
        judge_run(run, "test", World())


def test_a_step_task_has_errors_over_batches(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = TASK.replace("def loss(self, output, target):", "def step(self, model, batch):")
    text = text.replace(
        "return ((output - target) ** 2).sum(), len(target)",
        "return ((model(batch[0]) - batch[1]) ** 2).mean()",
    )
    (tmp_path / "line.py").write_text(textwrap.dedent(text.partition("    def metrics")[0]))
    train(load_task("line.py:Line"), Devices(), TrainSettings())
    figure = judge_run(load_run(tmp_path / ".hemostat" / "runs"), "test", World())["figures"]["test_loss"]
    assert figure["unit"] == "batch" and figure["standard_error"] > 0


SLOW = """
import threading, time

class Slow(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        time.sleep(0.02)
        with open("readers.txt", "a") as file:
            file.write(f"{threading.get_native_id()} ")
        return self.rows[index]

class Line("""


def test_slow_data_are_read_as_in_training_and_the_wait_is_told(run, tmp_path):
    slow = TASK.replace("class Line(", SLOW)
    slow = slow.replace("return self.rows(self.num_test, 3)", "return Slow(self.rows(60, 3))")
    (tmp_path / "line.py").write_text(slow)
    fields = judge_run(run, "test", World())
    assert fields["num_samples"] == 60 and fields["wait_s"] > 0.1
    assert len(set((tmp_path / "readers.txt").read_text().split())) > 1
