"""A recipe is written as TOML and read back without moving."""

import tomllib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.config import decode, to_plain
from hemostat.errors import UsageError
from hemostat.recipe import Base, Devices, Recipe, convert

SAME = (
    "lr",
    "global_batch",
    "micro_batch",
    "accumulation",
    "num_ranks",
    "total_samples",
    "total_steps",
    "schedule",
    "eval_every_steps",
    "checkpoint_every_steps",
    "patience_evals",
    "plateau_patience",
    "min_delta",
    "weight_decay",
    "beta2",
    "precision",
)


ADVICE = {"sgd": ("weight_decay",)} | dict.fromkeys(("adamw", "lamb"), ("beta2", "weight_decay"))


def read_back(text):
    values = tomllib.loads(text)
    devices = {name: values.pop(name) for name in list(values) if name in Devices.__struct_fields__}
    return convert(decode(Base, values), decode(Devices, devices))


@given(
    optimizer=st.sampled_from(["sgd", "adamw", "lamb"]),
    schedule=st.sampled_from(["cosine", "linear", "wsd", "constant", "step"]),
    ranks=st.integers(1, 8),
    micro=st.integers(1, 64),
    patience=st.one_of(st.none(), st.integers(1, 20)),
    eval_samples=st.one_of(st.none(), st.integers(100, 10**4)),
    advice=st.booleans(),
)
def test_reading_it_back_gives_the_same_run(
    optimizer, schedule, ranks, micro, patience, eval_samples, advice
):
    base = Base(
        optimizer=optimizer,
        lr=0.01,
        tuned_batch=64,
        epochs=40,
        num_train_samples=5000,
        schedule=schedule,
        milestones=(20, 30) if schedule == "step" else (),
        eta_min=1e-4,
        patience=patience,
        eval_every_samples=eval_samples,
        checkpoint_every_samples=eval_samples,
        weight_decay=0.05,
        apply_advice=ADVICE[optimizer] if advice else (),
    )
    recipe = convert(base, Devices(num_ranks=ranks, micro_batch=micro))
    if recipe.tier == "low":
        return
    again = read_back(recipe.to_toml())
    assert {name: getattr(again, name) for name in SAME} == {name: getattr(recipe, name) for name in SAME}


def test_an_accepted_bill_is_not_paid_twice():
    base = Base(optimizer="sgd", tuned_batch=128, total_samples=10**6, critical_batch=1000, accept_bill=True)
    recipe = convert(base, Devices(num_ranks=8, micro_batch=128))
    assert recipe.total_samples > 10**6
    assert read_back(recipe.to_toml()).total_samples == recipe.total_samples


def test_a_longer_run_keeps_its_milestones_and_its_rhythm():
    base = Base(
        optimizer="sgd",
        tuned_batch=128,
        epochs=30,
        num_train_samples=50_000,
        schedule="step",
        milestones=(10, 20),
        critical_batch=1000,
        accept_bill=True,
        patience=8,
        eval_every_samples=50_000,
    )
    recipe = convert(base, Devices(num_ranks=8, micro_batch=128, new_eval_every_samples=20_000))
    again = read_back(recipe.to_toml())
    assert {name: getattr(again, name) for name in SAME} == {name: getattr(recipe, name) for name in SAME}
    assert again.eval_every_samples == 20_000


def test_a_file_pins_the_precision_only_where_a_device_was_named():
    base = Base(optimizer="sgd", tuned_batch=128)
    assert "precision =" not in convert(base).to_toml()
    assert 'precision = "fp16"' in convert(base, Devices(device="T4")).to_toml()


def test_the_reasons_stand_in_the_file():
    text = convert(Base(optimizer="sgd", tuned_batch=128), Devices(num_ranks=8, micro_batch=128)).to_toml()
    assert "# lr: SGD: linear in the batch, x8 [medium]" in text


def test_a_sweep_is_not_written_as_one_number():
    recipe = convert(Base(lr=0.001, tuned_batch=32), Devices(global_batch=1024))
    with pytest.raises(UsageError, match=r"sweep \(0.001414, .*\), not one number"):
        recipe.to_toml()


def test_a_forced_rule_is_written_and_read_back():
    base = Base(lr=0.001, tuned_batch=32, lr_rule="sqrt")
    recipe = convert(base, Devices(global_batch=1024))
    again = read_back(recipe.to_toml())
    assert again.lr == recipe.lr == pytest.approx(0.001 * 32**0.5)
    assert not again.is_sweep


def test_a_recipe_survives_json():
    recipe = convert(
        Base(optimizer="sgd", tuned_batch=128, patience=3), Devices(num_ranks=8, micro_batch=128)
    )
    again = msgspec.json.decode(msgspec.json.encode(to_plain(recipe)), type=Recipe)
    assert again.schedule == recipe.schedule
    assert again.lr == recipe.lr
