"""Warm-up: constant in samples, between its bounds, at most half of the run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError
from hemostat.recipe.warmup import convert_warmup, untuned_warmup_steps


@pytest.mark.parametrize(("batch_m_tokens", "steps"), [(2.1, 4000), (4.2, 2000), (8.4, 1000)])
def test_olmo2_keeps_8_billion_tokens_of_warm_up(batch_m_tokens, steps):
    assert convert_warmup(4000, batch_ratio=batch_m_tokens / 2.1).steps == steps


def test_mlperf_405b_divides_8000_steps_by_8():
    assert convert_warmup(8000, batch_ratio=8.0, adam_beta2=0.95).steps == 1000


def test_sgd_without_warm_up_gets_five_epochs():
    # Goyal et al. 2017: ImageNet at 8192 has 157 updates an epoch
    assert convert_warmup(0, batch_ratio=32.0, epoch_steps=157).steps == 785


def test_the_same_batch_keeps_what_it_had():
    assert convert_warmup(None, batch_ratio=1.0, total_steps=100).steps == 0
    assert convert_warmup(37, batch_ratio=1.0, total_steps=100, adam_beta2=0.999).steps == 37


def test_a_smaller_batch_takes_more_steps_for_the_same_samples():
    assert convert_warmup(100, batch_ratio=0.25).steps == 400


def test_more_samples_beyond_the_critical_batch():
    assert convert_warmup(8000, batch_ratio=8.0, stretch=2.0).steps == 2000


def test_half_of_the_run_cuts_a_derived_warm_up_and_refuses_a_given_one():
    assert convert_warmup(0, batch_ratio=8.0, total_steps=360).steps == 180
    with pytest.raises(FieldError, match=r"^warmup_steps=51: is more than half of the run"):
        convert_warmup(51, batch_ratio=1.0, total_steps=100)


@given(
    had=st.integers(0, 50_000),
    ratio=st.floats(1.001, 1000),
    total=st.integers(0, 10**6),
    beta2=st.one_of(st.none(), st.floats(0.5, 0.9999)),
    epoch=st.one_of(st.none(), st.integers(1, 10**5)),
)
def test_the_bounds_hold_for_every_larger_batch(had, ratio, total, beta2, epoch):
    steps = convert_warmup(
        had, batch_ratio=ratio, total_steps=total, adam_beta2=beta2, epoch_steps=epoch
    ).steps
    assert steps <= max(2000, had / ratio + 1)
    if total:
        assert steps <= total // 2
    if not total or total >= 1000:
        assert steps >= 500


@pytest.mark.parametrize(("beta2", "steps"), [(0.999, 2000), (0.98, 100), (0.95, 40)])
def test_ma_and_yarats(beta2, steps):
    assert untuned_warmup_steps(beta2) == steps
