"""Advice formulas, and that nothing is applied unless asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.recipe import Base, Devices, convert
from hemostat.recipe.advice import per_step_average, scale_beta2, scale_clip_norm, scale_weight_decay

BASE = Base(
    optimizer="adamw",
    lr=1e-3,
    tuned_batch=256,
    weight_decay=0.1,
    beta2=0.999,
    ema=0.9999,
    clip_norm=1.0,
    eps=1e-6,
    noise_scale=3000,
)
FOUR_TIMES = Devices(num_ranks=4, micro_batch=256)


def test_nothing_is_applied_by_default():
    recipe = convert(BASE, FOUR_TIMES)
    assert (recipe.weight_decay, recipe.beta2, recipe.ema, recipe.clip_norm) == (0.1, 0.999, 0.9999, 1.0)
    assert {row.field for row in recipe.advice} >= {"weight_decay", "beta2", "eps", "ema", "clip_norm"}
    assert all(row.source and row.why for row in recipe.advice)


def test_what_is_asked_for_is_applied_and_moves_to_the_values():
    recipe = convert(
        Base(**{**as_dict(BASE), "apply_advice": ("weight_decay", "beta2", "ema", "eps", "clip_norm")}),
        FOUR_TIMES,
    )
    assert recipe.weight_decay == pytest.approx(0.2)
    assert recipe.beta2 == pytest.approx(0.999**4)
    assert recipe.ema == pytest.approx(0.9999**4)
    assert recipe.eps == pytest.approx(5e-7)
    assert recipe.clip_norm < 1.0
    assert {"weight_decay", "beta2"} <= {row.field for row in recipe.values}
    assert not {"weight_decay", "beta2"} & {row.field for row in recipe.advice}


def as_dict(base):
    return {name: getattr(base, name) for name in base.__struct_fields__}


def test_the_same_batch_gets_no_advice():
    assert convert(BASE, Devices(num_ranks=8)).advice == ()


@pytest.mark.parametrize("optimizer", ["rmsprop", "lion", "adafactor", "sgd"])
def test_beta2_is_no_advice_where_it_is_not_adams(optimizer):
    recipe = convert(Base(optimizer=optimizer, beta2=0.99, tuned_batch=256), FOUR_TIMES)
    assert "beta2" not in {row.field for row in recipe.advice}


def test_a_beta2_of_zero_stays_zero():
    (row,) = [
        row for row in convert(Base(beta2=0.0), Devices(global_batch=64)).advice if row.field == "beta2"
    ]
    assert (row.before, row.value) == (0.0, 0.0)


def test_batch_norm_needs_sync_when_a_device_sees_few_samples():
    base = Base(optimizer="sgd", tuned_batch=64, batch_norm=True)
    few = convert(base, Devices(num_ranks=8)).advice[0]
    many = convert(base, Devices(num_ranks=2)).advice[0]
    assert (few.value, many.value) == ("sync", "per device")


def test_an_accuracy_is_known_to_its_standard_error():
    base = Base(optimizer="sgd", patience=5, num_val_samples=2500, metric_mode="max")
    (row,) = convert(base).advice
    assert (row.field, row.value) == ("min_delta", 0.01)
    assert convert(Base(patience=5, num_val_samples=2500)).advice == ()


def test_sgd_far_out_is_told_of_lars():
    recipe = convert(Base(optimizer="sgd", tuned_batch=4096), Devices(num_ranks=4, micro_batch=4096))
    assert [row.value for row in recipe.advice if row.field == "optimizer"] == ["lars"]


@given(st.floats(0.5, 0.9999), st.floats(0.01, 100))
def test_beta2_stays_in_its_range(beta2, k):
    assert min(0.9, beta2) <= scale_beta2(beta2, k) <= max(0.9999, beta2)


@given(st.floats(0.5, 0.99999), st.integers(1, 50))
def test_k_steps_of_an_average_are_one_step_of_the_new_one(keep, k):
    after = 1.0
    for _ in range(k):
        after *= keep
    assert per_step_average(keep, k) == pytest.approx(after)


def test_weight_decay_is_capped_but_never_lowered_by_the_cap():
    assert scale_weight_decay(0.1, batch_ratio=16, lr_factor=1, decoupled=True) == 0.3
    assert scale_weight_decay(0.5, batch_ratio=4, lr_factor=1, decoupled=True) == 0.5
    assert scale_weight_decay(0.1, batch_ratio=16, lr_factor=1, decoupled=False) == 0.1


def test_clipping_follows_the_noise():
    assert scale_clip_norm(1.0, 100, 400, noise_scale=300) == pytest.approx((1.75 / 4) ** 0.5)
    assert scale_clip_norm(1.0, 100, 100, noise_scale=300) == 1.0
