import math

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.data import EvalLoader
from hemostat.errors import TaskError
from hemostat.plan import Layout
from hemostat.train.evaluate import evaluate
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.process import World


def judge(measure, micro_batch=3, model=None):
    data = TensorDataset(torch.arange(7.0))
    return evaluate(
        model or torch.nn.Identity(),
        EvalLoader(data, micro_batch=micro_batch),
        measure,
        Mesh(Layout(), World()),
    ).means


def test_a_ragged_last_batch_weighs_by_its_rows():
    """T058: 0..6 in batches of 3, 3, 1."""
    assert judge(lambda model, batch: {"mean": (batch[0].sum(), len(batch[0]))}) == {"mean": 3.0}


def test_the_mode_of_the_model_is_restored_and_no_gradient_is_kept():
    model = torch.nn.Linear(1, 1)
    seen = []

    def measure(model, batch):
        output = model(batch[0][:, None])
        seen.append((model.training, output.requires_grad))
        return {"sum": (output.sum(), 1)}

    judge(measure, model=model)
    assert set(seen) == {(False, False)}
    assert model.training


def test_nothing_counted_is_nan_not_zero():
    assert math.isnan(judge(lambda model, batch: {"empty": (0.0, 0)})["empty"])


def test_names_that_change_are_refused():
    names = iter("aab")
    with pytest.raises(TaskError, match="Return the same names"):
        judge(lambda model, batch: {next(names): (1.0, 1)})


def test_a_model_that_raises_leaves_training_mode_on():
    model = torch.nn.Linear(1, 1)
    with pytest.raises(ZeroDivisionError):
        judge(lambda model, batch: 1 / 0, model=model)
    assert model.training


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (torch.ones(()), "returned a Tensor. Return {name:"),
        ((1.0, 1), "returned a tuple"),
        ({"mse": torch.ones(())}, "gave a Tensor for 'mse'"),
        ({"mse": (1.0, 1, 2)}, "gave a tuple for 'mse'"),
    ],
)
def test_an_answer_without_pairs_is_refused(answer, text):
    with pytest.raises(TaskError, match=text):
        judge(lambda model, batch: answer)


def test_the_standard_error_is_that_of_the_batches():
    """0..6 one by one: the deviation of seven numbers over the root of seven."""
    data = TensorDataset(torch.arange(7.0))
    measure = lambda model, batch: {"mean": (batch[0].sum(), len(batch[0]))}  # noqa: E731
    found = evaluate(torch.nn.Identity(), EvalLoader(data, micro_batch=1), measure, Mesh(Layout(), World()))
    assert found.errors["mean"] == pytest.approx(float(torch.arange(7.0).std()) / math.sqrt(7))
    few = evaluate(torch.nn.Identity(), EvalLoader(data, micro_batch=2), measure, Mesh(Layout(), World()))
    assert few.errors == {}  # four batches say too little
