"""What is proposed for a recipe: order, start, ranges, reasons."""

from __future__ import annotations

import random

import pytest

from hemostat.errors import FieldError
from hemostat.recipe import Base, Devices, convert
from hemostat.tune.default_space import propose_space, settings_of
from hemostat.tune.space import Choice, Integer, Real

BASE = Base(lr=3e-4, tuned_batch=64, total_samples=640_000, warmup_steps=300, weight_decay=0.1)
RECIPE = convert(BASE, Devices(num_ranks=4, micro_batch=64))


def test_the_order_and_its_reasons():
    proposal = propose_space(
        RECIPE, {"dropout": 0.1, "num_layers": 4, "tie": True, "act": "gelu", "ema_keep": 0.99}
    )
    assert proposal.space.names == (
        "lr",
        "batch",
        "warmup_share",
        "weight_decay",
        "dropout",
        "num_layers",
        "tie",
        "ema_keep",
    )
    assert tuple(reason.field for reason in proposal.reasons) == proposal.space.names
    assert "64 samples" in proposal.reasons[0].why
    kinds = [type(parameter) for parameter in proposal.space.parameters]
    assert kinds == [Real, Choice, Real, Real, Real, Integer, Choice, Real]


def test_the_recipe_is_the_start():
    space = propose_space(RECIPE, {"dropout": 0.1}).space
    assert space.start["lr"] == 3e-4
    assert space.start["batch"] == RECIPE.global_batch == 256
    assert space.start["warmup_share"] == pytest.approx(RECIPE.warmup_steps / RECIPE.total_steps)
    assert space.start["weight_decay"] == 0.1
    assert space.allows(space.start)


@pytest.mark.parametrize(("depth", "names"), [(1, ["lr"]), (2, ["lr", "batch", "warmup_share"])])
def test_depth(depth, names):
    assert list(propose_space(RECIPE, {"dropout": 0.1}, depth).space.names) == names


def test_every_batch_can_be_cut_over_the_ranks():
    batch = propose_space(convert(BASE, Devices(num_ranks=3, micro_batch=22))).space.parameters[1]
    assert all(value % 3 == 0 for value in batch.values)


def test_the_recipe_takes_what_is_chosen():
    space = propose_space(RECIPE).space
    config = space.sample(random.Random(1))
    settings = settings_of(RECIPE, config)
    values = {name: settings[name] for name in ("lr", "weight_decay")}
    base = Base(**{**{name: getattr(BASE, name) for name in ("tuned_batch", "total_samples")}, **values})
    devices = Devices(**{name: settings[name] for name in ("global_batch", "new_warmup_steps")}, num_ranks=4)
    recipe = convert(base, devices)
    assert recipe.global_batch == config["batch"]
    assert recipe.warmup_steps == pytest.approx(config["warmup_share"] * recipe.total_steps, abs=2)


def test_without_a_length_there_is_no_warm_up_share():
    assert "warmup_share" not in propose_space(convert(Base(lr=0.1))).space.names


def test_an_unknown_depth():
    with pytest.raises(FieldError, match="must be 1, 2 or 3"):
        propose_space(RECIPE, depth=4)
