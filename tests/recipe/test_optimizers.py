"""Families of optimizers."""

import pytest

from hemostat.errors import UnknownNameError
from hemostat.recipe.optimizers import DECOUPLED, FAMILIES, optimizer_family, optimizer_name


def test_spelling_does_not_matter():
    assert optimizer_name("torch.optim.AdamW") == optimizer_name("Adam_W") == "adamw"


def test_every_decoupled_optimizer_has_a_family():
    assert set(FAMILIES) >= DECOUPLED


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"optimizer='adamv': is not known. Did you mean 'adam'"):
        optimizer_family("adamv")
