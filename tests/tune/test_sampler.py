from __future__ import annotations

import inspect

import pytest

from hemostat.errors import MissingExtraError
from hemostat.tune.sampler import Sampler
from hemostat.tune.samplers import SAMPLERS, sampler


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_can_be_called_as_the_protocol_says(name):
    try:
        made = sampler(name)
    except MissingExtraError:
        pytest.skip("needs an extra")
    assert made.name == name
    wanted = list(inspect.signature(Sampler.propose).parameters)[1:]
    assert list(inspect.signature(made.propose).parameters) == wanted
