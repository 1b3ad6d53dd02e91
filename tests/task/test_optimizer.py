import pytest
import torch

from hemostat.errors import TaskError
from hemostat.task import Task, own_optimizer, recipe_optimizer


def weights():
    return [torch.nn.Parameter(torch.zeros(2))]


class Named(Task):
    optimizer: str = "sgd"


class Own(Task):
    def optimizer(self, params):
        return torch.optim.RMSprop(params, lr=0.1)


class Wrong(Task):
    def optimizer(self, params):
        return "sgd"


class Faster(torch.optim.AdamW):
    pass


class Unheard(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})


def test_a_name_or_nothing_leaves_it_to_hemostat():
    assert own_optimizer(Named(), weights()) is None
    assert own_optimizer(Task(), weights()) is None


def test_an_own_one_is_taken_and_another_thing_refused():
    assert isinstance(own_optimizer(Own(), weights()), torch.optim.RMSprop)
    with pytest.raises(TaskError, match=r"Wrong\.optimizer returned a str"):
        own_optimizer(Wrong(), weights())


def test_the_class_or_its_parent_names_the_rule():
    assert recipe_optimizer(torch.optim.RMSprop(weights())) == "rmsprop"
    assert recipe_optimizer(Faster(weights())) == "adamw"
    assert recipe_optimizer(Unheard(weights())) is None
