"""Learning-rate rules: figures printed in papers, and what must hold for every optimizer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError, UnknownNameError
from hemostat.recipe import scale_lr
from hemostat.recipe.optimizers import FAMILIES
from hemostat.recipe.scaling import saturating_ratio

OPTIMIZERS = st.sampled_from(sorted(FAMILIES))
BATCHES = st.integers(1, 10**6)
CRITICAL = st.one_of(st.none(), st.floats(1.0, 1e6))


@pytest.mark.parametrize("batch", [128, 256, 512, 1024, 2048, 4096, 8192])
def test_goyal_table_of_linear_rates(batch):
    # Goyal et al. 2017 (arXiv 1706.02677), figures 1 and 3: lr = 0.1 * B / 256
    found = scale_lr(0.1, tuned_batch=256, global_batch=batch, optimizer="sgd")
    assert found.lr == pytest.approx(0.1 * batch / 256, rel=1e-12)


@pytest.mark.parametrize(("batch", "lr"), [(48, 0.06), (64, 0.08), (96, 0.12), (128, 0.16)])
def test_the_linear_regime_of_mask_rcnn_within_one_percent(batch, lr):
    # MLPerf training 2.1 reference convergence points, Mask R-CNN with SGD, from batch 8 at 0.01
    assert scale_lr(0.01, tuned_batch=8, global_batch=batch, optimizer="sgd").lr == pytest.approx(
        lr, rel=0.01
    )


@pytest.mark.parametrize(("batch", "lr"), [(1024, 0.0008839), (4096, 0.001768), (32768, 0.005)])
def test_the_untuned_table_of_lamb(batch, lr):
    # You et al. 2019 (arXiv 1904.00962): lr = 5 / (2^(3 - i/2) * 1000), from 512 at 0.000625
    found = scale_lr(0.000625, tuned_batch=512, global_batch=batch, optimizer="lamb")
    assert found.lr == pytest.approx(lr, rel=1e-3)


def test_adam_takes_the_square_root():
    """T007."""
    assert scale_lr(1e-3, tuned_batch=256, global_batch=1024, optimizer="adam").lr == pytest.approx(2e-3)


def test_a_saturating_rate_by_hand():
    found = scale_lr(0.1, tuned_batch=100, global_batch=400, optimizer="sgd", critical_batch=200)
    assert found.lr == pytest.approx(0.1 * 4 * (1 + 0.5) / (1 + 2))
    assert found.rule == "sat-linear"


def test_lamb_is_flat_above_the_critical_batch():
    """T007."""
    rates = [
        scale_lr(1.0, tuned_batch=100, global_batch=batch, optimizer="lamb", critical_batch=400).lr
        for batch in (400, 800, 1600)
    ]
    assert rates == [2.0, 2.0, 2.0]


@given(OPTIMIZERS, BATCHES, CRITICAL, st.booleans())
def test_the_same_batch_moves_nothing(optimizer, batch, critical, finetune):
    found = scale_lr(
        0.1,
        tuned_batch=batch,
        global_batch=batch,
        optimizer=optimizer,
        critical_batch=critical,
        finetune=finetune,
    )
    assert (found.lr, found.tier) == (0.1, "high")


@given(OPTIMIZERS, BATCHES, BATCHES, CRITICAL)
def test_scaling_there_and_back_gives_the_rate_again(optimizer, before, after, critical):
    there = scale_lr(
        0.1, tuned_batch=before, global_batch=after, optimizer=optimizer, critical_batch=critical
    ).lr
    back = scale_lr(
        there, tuned_batch=after, global_batch=before, optimizer=optimizer, critical_batch=critical
    ).lr
    assert back == pytest.approx(0.1, rel=1e-9)


@given(OPTIMIZERS, BATCHES, BATCHES, BATCHES, CRITICAL)
def test_a_larger_batch_never_gets_a_lower_rate(optimizer, before, one, other, critical):
    low, high = sorted((one, other))
    rates = [
        scale_lr(0.1, tuned_batch=before, global_batch=batch, optimizer=optimizer, critical_batch=critical).lr
        for batch in (low, high)
    ]
    assert rates[0] <= rates[1] * (1 + 1e-9)


@given(OPTIMIZERS, BATCHES, st.integers(2, 1000), CRITICAL, st.booleans())
def test_no_rule_goes_above_linear(optimizer, before, k, critical, finetune):
    found = scale_lr(
        1.0,
        tuned_batch=before,
        global_batch=before * k,
        optimizer=optimizer,
        critical_batch=critical,
        finetune=finetune,
    )
    assert 1.0 - 1e-9 <= found.lr <= k * (1 + 1e-9)


@pytest.mark.parametrize(
    ("optimizer", "k", "tier"),
    [
        ("sgd", 2, "high"),
        ("sgd", 8, "medium"),
        ("sgd", 9, "low"),
        ("adamw", 2, "high"),
        ("adamw", 8, "medium"),
        ("adamw", 16, "low"),
        ("lars", 2, "medium"),
        ("adagrad", 4, "low"),
        ("muon", 2, "low"),
    ],
)
def test_confidence_falls_with_the_distance(optimizer, k, tier):
    found = scale_lr(0.1, tuned_batch=64, global_batch=64 * k, optimizer=optimizer)
    assert found.tier == tier
    assert len(found.sweep) == (5 if tier == "low" else 3)
    assert found.sweep[len(found.sweep) // 2] == pytest.approx(found.lr)
    assert scale_lr(0.1, tuned_batch=64 * k, global_batch=64, optimizer=optimizer).tier == tier


def test_sgd_below_a_known_critical_batch_is_high():
    assert scale_lr(0.1, tuned_batch=64, global_batch=256, optimizer="sgd", critical_batch=300).tier == "high"
    assert (
        scale_lr(0.1, tuned_batch=64, global_batch=256, optimizer="sgd", critical_batch=200).tier == "medium"
    )


def test_a_forced_rule():
    assert scale_lr(0.1, tuned_batch=1, global_batch=4, optimizer="sgd", rule="sqrt").lr == pytest.approx(0.2)
    with pytest.raises(UnknownNameError, match=r"^lr_rule='cubic': is not known"):
        scale_lr(0.1, tuned_batch=1, global_batch=4, rule="cubic")


@pytest.mark.parametrize("rule", ["constant", "linear", "sqrt"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "lars", "adagrad", "muon"])
@pytest.mark.parametrize("k", [2, 16, 512])
def test_a_forced_rule_is_one_number_however_far(rule, optimizer, k):
    found = scale_lr(0.1, tuned_batch=8, global_batch=8 * k, optimizer=optimizer, rule=rule)
    assert (found.tier, found.rule) == ("given", rule)
    assert found.lr == pytest.approx(0.1 * {"constant": 1, "linear": k, "sqrt": k**0.5}[rule])


def test_fine_tuning_moves_less_than_the_square_root():
    tuned = scale_lr(1e-4, tuned_batch=8, global_batch=64, finetune=True)
    assert tuned.lr == pytest.approx(2e-4)


def test_impossible_input():
    with pytest.raises(FieldError, match=r"^lr=-0.1: "):
        scale_lr(-0.1, tuned_batch=1, global_batch=4)
    with pytest.raises(FieldError, match=r"^global_batch=0: "):
        scale_lr(0.1, tuned_batch=1, global_batch=0)


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(1, 1e6))
def test_the_saturating_ratio_stays_below_its_limit(before, after, critical):
    limit = (critical + before) / before
    assert 0 < saturating_ratio(before, after, critical) <= limit * (1 + 1e-9)
