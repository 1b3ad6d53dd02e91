from __future__ import annotations

import inspect

import pytest

from hemostat.tune.pruner import Pruner
from hemostat.tune.pruners import PRUNERS


@pytest.mark.parametrize("name", PRUNERS)
@pytest.mark.parametrize("method", ["rungs", "first_rung", "promote", "keep"])
def test_every_pruner_can_be_called_as_the_protocol_says(name, method):
    wanted = list(inspect.signature(getattr(Pruner, method)).parameters)
    assert list(inspect.signature(getattr(PRUNERS[name], method)).parameters) == wanted
