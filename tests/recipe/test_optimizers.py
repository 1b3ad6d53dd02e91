"""Families of optimizers."""

import inspect

import pytest
import torch

from hemostat.errors import UnknownNameError
from hemostat.recipe.optimizers import DECOUPLED, DEFAULTS, FAMILIES, optimizer_family, optimizer_name


def test_spelling_does_not_matter():
    assert optimizer_name("torch.optim.AdamW") == optimizer_name("Adam_W") == "adamw"


def test_every_decoupled_optimizer_has_a_family():
    assert set(FAMILIES) >= DECOUPLED


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"optimizer='adamv': is not known. Did you mean 'adam'"):
        optimizer_family("adamv")


TORCH = ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adafactor", "Adagrad", "Muon")


@pytest.mark.parametrize("name", TORCH)
def test_the_defaults_are_those_of_torch(name):
    usual = {
        key: parameter.default
        for key, parameter in inspect.signature(getattr(torch.optim, name)).parameters.items()
    }
    if "betas" in usual:
        usual["beta1"], usual["beta2"] = usual["betas"]
    said = DEFAULTS[name.lower()]
    assert said == {key: usual[key] for key in said}
    missing = {"momentum", "beta1", "beta2", "weight_decay"} & set(usual) - set(said)
    assert not missing


def test_every_optimizer_says_what_it_takes():
    assert set(DEFAULTS) == set(FAMILIES)
