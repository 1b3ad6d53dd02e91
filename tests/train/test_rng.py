"""Random generators go on where they stood."""

import json
import random

import numpy as np
import torch

from hemostat.train.rng import rng_state, set_rng_state

CPU = torch.device("cpu")


def draws() -> list[float]:
    return [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.randn(3).tolist()]


def test_the_state_survives_json_and_gives_the_same_numbers():
    random.gauss(0, 1)  # leaves half a pair behind
    np.random.randn()
    state = json.loads(json.dumps(rng_state(CPU)))
    first = draws()
    assert draws() != first
    set_rng_state(state, CPU)
    assert draws() == first
