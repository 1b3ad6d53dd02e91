"""Every hyper-parameter of the run has one row that says how it came about."""

import pytest

from hemostat.recipe import Base, Devices, convert
from hemostat.recipe.optimizers import FAMILIES

FULL = {
    "epochs": 9,
    "num_train_samples": 50_000,
    "sample_tokens": 2,
    "patience": 5,
    "eval_every_samples": 5000,
    "checkpoint_every_samples": 9000,
    "momentum": 0.8,
    "beta1": 0.85,
    "beta2": 0.95,
    "eps": 1e-7,
    "weight_decay": 0.03,
    "clip_norm": 1.0,
    "ema": 0.99,
    "eta_min": 1e-5,
    "start_lr": 1e-6,
    "min_delta": 0.01,
    "metric_mode": "max",
    "monitor": "accuracy",
}
# what a recipe holds beside its hyper-parameters
ABOUT = {
    "batch_ratio",
    "eval_every_samples",
    "checkpoint_every_samples",
    "tier",
    "rule",
    "sweep",
    "samples_stretch",
    "values",
    "advice",
    "alternatives",
    "findings",
    "base",
}
SHAPE = {"start_lr", "eta_min"}  # within the schedule


@pytest.mark.parametrize("optimizer", sorted(FAMILIES))
@pytest.mark.parametrize("given", [{}, FULL, {"schedule": "step", "milestones": (1.0,), "patience": 2}])
@pytest.mark.parametrize("devices", [Devices(), Devices(num_ranks=2, micro_batch=32)])
def test_every_value_of_the_run_has_exactly_one_row(optimizer, given, devices):
    recipe = convert(Base(optimizer=optimizer, lr=0.01, tuned_batch=32, **given), devices)
    fields = [row.field for row in recipe.values]
    assert len(fields) == len(set(fields))
    wanted = (set(recipe.__struct_fields__) - ABOUT) | SHAPE | {"monitor"}
    assert set(fields) >= wanted
    assert all(row.why for row in recipe.values)
    assert all(row.source for row in recipe.values if row.confidence in ("high", "medium"))


def rows_of(**values):
    recipe = convert(Base(**values))
    return recipe, {row.field: row for row in recipe.values}


def test_the_rows_say_what_the_recipe_holds():
    recipe, rows = rows_of(optimizer="adamw", lr=0.01, **FULL)
    names = set(rows) & set(recipe.__struct_fields__) - {"lr", "schedule", "critical_batch", "momentum"}
    assert {name: rows[name].value for name in names} == {name: getattr(recipe, name) for name in names}
    assert rows["eta_min"].value == recipe.schedule.eta_min
    assert rows["weight_decay"].why == "as on one device, you set it"


def test_a_default_and_what_the_optimizer_does_not_have():
    _, rows = rows_of(optimizer="adamw", momentum=0.9)
    assert (rows["weight_decay"].value, rows["beta2"].value) == (0.01, 0.999)
    assert "the optimizer's default" in rows["beta2"].why
    assert (rows["momentum"].before, rows["momentum"].value) == (0.9, None)
    assert rows["momentum"].why == "not used: adamw has none, so yours has no effect"
    assert rows["clip_norm"].why == "not used: gradients are not clipped"
    assert rows_of(optimizer="lamb")[1]["beta2"].why == "left to the lamb that you build"


def test_advice_that_is_applied_takes_the_place_of_the_row():
    base = Base(beta2=0.99, tuned_batch=32, apply_advice=("beta2",))
    (row,) = [row for row in convert(base, Devices(global_batch=64)).values if row.field == "beta2"]
    assert (row.before, row.confidence) == (0.99, "medium")
