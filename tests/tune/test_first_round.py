"""One configuration for each worker, and no prior after it."""

from __future__ import annotations

from hemostat.tune.first_round import first_round
from hemostat.tune.scaling_law import Start
from hemostat.tune.space import Choice, Real, Space

PARAMETERS = (Real("lr", 1e-4, 1e-2), Choice("batch", (32, 64, 128)))
LAW = Start(lr=2e-3, batch=64, lr_factor=2.0, batch_factor=2.0, num_settings=4, why="")


def test_without_a_prior_the_sampler_begins():
    assert first_round(Space(PARAMETERS), 5) == ()


def test_the_start_first_then_its_neighbours_the_rate_before_the_batch():
    found = first_round(Space(PARAMETERS, start={"lr": 1e-3, "batch": 64}), 5)
    assert [given.origin for given in found] == ["recipe", *["neighbour"] * 4]
    assert [given.config["batch"] for given in found] == [64, 64, 64, 128, 32]
    assert found[1].config["lr"] > 1e-3 > found[2].config["lr"]


def test_the_law_goes_before_the_recipe():
    found = first_round(Space(PARAMETERS, start={"lr": 1e-3, "batch": 64}), 4, LAW)
    assert [given.origin for given in found] == ["scaling law", "recipe", "scaling law", "scaling law"]
    assert found[0].config == {"lr": 2e-3, "batch": 64}


def test_nothing_is_tried_twice():
    found = first_round(Space(PARAMETERS, start={"lr": 2e-3, "batch": 64}), 20, LAW)
    configs = [tuple(given.config.items()) for given in found]
    assert len(set(configs)) == len(configs)
    assert found[0].origin == "scaling law"
