import io
import textwrap

import numpy as np
import pytest
import torch
from matplotlib import image

import hemostat
from hemostat.errors import TaskError
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.track import load_run
from hemostat.train import TrainSettings, train
from hemostat.train.samples import MAX_SAMPLES, Samples, contents, png


def names(shown):
    return [name for name, _ in contents(shown, "T.show")]


def test_what_show_may_return():
    assert names(None) == []
    assert list(contents("text", "T.show")) == [("0", "text")]
    assert names(["a", torch.zeros(3, 4, 5)]) == ["0", "1"]
    assert names({"input": torch.zeros(2, 4, 5, 3), "guess": "a"}) == ["input-0", "input-1", "guess"]
    assert names(torch.zeros(40, 1, 4, 4)) == [str(number) for number in range(MAX_SAMPLES)]
    assert names(np.zeros((7, 5, 6))) == [str(number) for number in range(7)]  # a stack of grey ones


@pytest.mark.parametrize("wrong", [3, torch.zeros(4), {"x": object()}, torch.zeros(0, 4)])
def test_something_else_is_named(wrong):
    with pytest.raises(TaskError, match=r"show"):
        list(contents(wrong, "T.show"))


@pytest.mark.parametrize("shape", [(5, 7), (1, 5, 7), (3, 5, 7), (5, 7, 3), (4, 5, 7)])
def test_another_reader_sees_the_same_pixels(shape):
    picture = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    seen = image.imread(io.BytesIO(png(picture)))
    expected = picture.permute(1, 2, 0) if len(shape) == 3 and shape[0] in (1, 3, 4) else picture
    assert np.abs(seen - expected.squeeze(-1).numpy()).max() < 0.002


def test_bytes_are_kept_and_other_ranges_are_stretched():
    bytes_ = torch.tensor([[0, 7], [128, 255]], dtype=torch.uint8)
    assert (image.imread(io.BytesIO(png(bytes_))) * 255).round().tolist() == bytes_.tolist()
    seen = image.imread(io.BytesIO(png(torch.tensor([[-3.0, 5.0], [float("nan"), 1.0]]))))
    assert seen.tolist() == pytest.approx(np.array([[0, 1], [0.375, 0.5]]), abs=0.003)


TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    optimizer: str = "sgd"
    tuned_batch: int = 8
    epochs: float = 2
    eval_every_samples: int = 40
    fault: bool = False

    def model(self):
        return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))

    def train_data(self):
        x = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
        return TensorDataset(x, x.sum(1, keepdim=True))

    val_data = train_data

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)

    def show(self, output, batch):
        if self.fault:
            raise KeyError("image")
        torch.rand(5)
        return {"first": f"{batch[0][0, 0]:.4f} -> {output[0, 0]:.4f}", "all": torch.rand(4, 4)}
"""


@pytest.fixture
def line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(textwrap.dedent(TASK))
    return tmp_path


def test_each_evaluation_leaves_its_samples(line):
    train(load_task("line.py:Line"), Devices(), TrainSettings())
    found = load_run(line / ".hemostat" / "runs").samples()
    assert [(sample.step, sample.name) for sample in found] == [
        (5, "all"),
        (5, "first"),
        (10, "all"),
        (10, "first"),
    ]
    first = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))[0, 0]
    assert found[1].text.startswith(f"{first:.4f} -> ") and found[1].text != found[3].text


def test_showing_does_not_change_the_run(line):
    with_samples = train(load_task("line.py:Line"), Devices(), TrainSettings()).outcome.final
    path = line / "line.py"
    path.write_text(path.read_text().partition("    def show")[0])
    assert train(load_task("line.py:Line"), Devices(), TrainSettings()).outcome.final == with_samples


def test_a_mistake_in_show_is_said_once_and_the_run_goes_on(line, capsys):
    outcome = train(load_task("line.py:Line", {"fault": True}), Devices(), TrainSettings()).outcome
    assert outcome.steps == 10
    err = capsys.readouterr().err
    assert err.count("Line.show raised KeyError: 'image' at line.py:26") == 1
    assert load_run(line / ".hemostat" / "runs").samples() == []


def test_a_task_without_show_is_not_asked(tmp_path):
    class Plain(hemostat.Task):
        pass

    samples = Samples(Plain(), tmp_path)
    samples.begin(1)
    samples.offer(None, None)
    assert not samples.trouble and not list(tmp_path.iterdir())
