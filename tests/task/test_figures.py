"""Metrics: pairs pass, torchmetrics objects are fed and read, the rest is refused."""

import pytest
import torch
from torch import nn

from hemostat.errors import TaskError
from hemostat.task import LossDoor, Task


class Mean:
    """The three methods of a torchmetrics metric that count here."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.total = self.count = 0

    def update(self, output, target):
        self.total += (output == target).sum()
        self.count += target.numel()

    def compute(self):
        return self.total / self.count


def door(metrics):
    class Digits(Task):
        def loss(self, output, target):
            return output.sum(), 1

    Digits.metrics = lambda self, output, target: metrics(output, target)
    return LossDoor(Digits())


OUTPUT, TARGET = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 0])


def test_pairs():
    pairs = door(lambda o, y: {"hits": ((o == y).sum(), 3), "size": (3.0, 1)}).metrics(OUTPUT, TARGET)
    assert pairs["size"] == (3.0, 1)
    assert pairs["hits"][0].item() == 2


def test_no_metrics_are_fine():
    class Bare(Task):
        def loss(self, output, target):
            return output.sum(), 1

    assert LossDoor(Bare()).metrics(OUTPUT, TARGET) == {}


def test_objects_are_fed_over_batches_read_once_and_reset():
    made = door(lambda o, y: {"accuracy": Mean(), "size": (3, 1)})
    assert made.metrics(OUTPUT, TARGET) == {"size": (3, 1)}
    made.metrics(TARGET, TARGET)
    assert made.finish_metrics() == {"accuracy": pytest.approx(5 / 6)}
    made.metrics(TARGET, TARGET)
    assert made.finish_metrics() == {"accuracy": 1.0}


def test_the_real_torchmetrics():
    torchmetrics = pytest.importorskip("torchmetrics")
    made = door(lambda o, y: {"accuracy": torchmetrics.classification.MulticlassAccuracy(4, average="micro")})
    made.metrics(OUTPUT, TARGET)
    made.metrics(TARGET, TARGET)
    assert made.finish_metrics() == {"accuracy": pytest.approx(5 / 6)}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, r"Digits\.metrics returned a NoneType: return \{name: \(sum, count\)\}"),
        (0.5, r"Digits\.metrics returned 0\.5"),
        ({"accuracy": 0.5}, r"gave 0\.5 for 'accuracy': return \(sum, count\)"),
        ({"accuracy": torch.zeros(3)}, r"gave a tensor of shape \(3,\) for 'accuracy'"),
        ({"accuracy": (torch.zeros(3), 3)}, r"gave \(a tensor of shape \(3,\), 3\) for 'accuracy'"),
        ({"accuracy": (1, 2, 3)}, r"gave \(1, 2, 3\) for 'accuracy'"),
        ({"accuracy": ("1", 2)}, r"gave \('1', 2\) for 'accuracy'"),
    ],
)
def test_wrong_answers(answer, message):
    with pytest.raises(TaskError, match=message):
        door(lambda o, y: answer).metrics(OUTPUT, TARGET)


def test_an_exception_names_the_line():
    with pytest.raises(
        TaskError, match=r"Digits\.metrics raised ZeroDivisionError: .* at .*test_figures\.py:\d+"
    ):
        door(lambda o, y: 1 / 0).metrics(OUTPUT, TARGET)


def test_the_output_of_a_real_model_reaches_the_metrics():
    made = door(lambda o, y: {"rows": (len(o), 1)})
    loss = made.compute(nn.Linear(2, 1), (torch.zeros(5, 2), torch.zeros(5)))
    assert made.metrics(loss.output, loss.target) == {"rows": (5, 1)}
