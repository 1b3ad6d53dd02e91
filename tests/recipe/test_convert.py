"""The whole conversion: the two stories, and what must hold for every input."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError
from hemostat.findings import Severity
from hemostat.recipe import Base, BatchRun, Devices, convert
from hemostat.report import recipe_lines

TUNED = Base(optimizer="sgd", lr=0.1, tuned_batch=128)
MOVES = {
    "lr",
    "total_steps",
    "warmup_steps",
    "eval_every_steps",
    "patience_evals",
    "plateau_patience",
    "tier",
}


def test_the_story_batch_128_cut_to_16_on_each_of_8_devices():
    recipe = convert(TUNED, Devices(num_ranks=8, micro_batch=16))
    assert (recipe.global_batch, recipe.batch_ratio, recipe.lr, recipe.tier) == (128, 1.0, 0.1, "high")
    said = "\n".join(recipe_lines(recipe))
    assert "the learning rate must not move" in said
    assert "lr stays 0.1" in said


def test_the_story_128_on_each_of_8_devices():
    """T009."""
    recipe = convert(TUNED, Devices(num_ranks=8, micro_batch=128))
    assert (recipe.global_batch, recipe.batch_ratio) == (1024, 8.0)
    assert recipe.lr == pytest.approx(0.8)
    assert 500 <= recipe.warmup_steps <= 2000
    assert recipe.schedule.start_lr == 0.1  # Goyal's ramp starts at the rate that worked
    assert recipe.tier == "medium"


def test_ranks_alone_hold_the_batch():
    assert convert(TUNED, Devices(num_ranks=8)).global_batch == 128


@given(
    optimizer=st.sampled_from(["sgd", "adamw", "lars", "lamb"]),
    schedule=st.sampled_from(["cosine", "linear", "wsd", "constant"]),
    ranks=st.integers(1, 32),
    epochs=st.floats(0.5, 20),
    n=st.integers(1000, 10**6),
    patience=st.one_of(st.none(), st.integers(1, 20)),
    eval_samples=st.one_of(st.none(), st.integers(1, 10**5)),
    warmup=st.one_of(st.none(), st.integers(0, 3)),
)
def test_the_number_of_ranks_alone_changes_nothing(
    optimizer, schedule, ranks, epochs, n, patience, eval_samples, warmup
):
    """T010."""
    base = Base(
        optimizer=optimizer,
        lr=0.05,
        tuned_batch=64,
        schedule=schedule,
        epochs=epochs,
        num_train_samples=n,
        patience=patience,
        eval_every_samples=eval_samples,
        warmup_steps=warmup,
        weight_decay=0.1,
    )
    alone, many = convert(base), convert(base, Devices(num_ranks=ranks))
    assert {name: getattr(alone, name) for name in MOVES} == {name: getattr(many, name) for name in MOVES}
    assert alone.schedule == many.schedule
    assert many.lr == 0.05
    assert many.patience_evals == patience
    assert many.warmup_steps == (warmup or 0)


@given(st.integers(1, 64), st.sampled_from(["sgd", "adamw", "lars", "lamb", "adagrad"]))
def test_scale_then_unscale(k, optimizer):
    base = Base(optimizer=optimizer, lr=0.05, tuned_batch=64)
    there = convert(base, Devices(global_batch=64 * k))
    back = convert(
        Base(optimizer=optimizer, lr=there.lr, tuned_batch=there.global_batch), Devices(global_batch=64)
    )
    assert back.lr == pytest.approx(0.05, rel=1e-9)


def test_a_larger_batch_means_a_higher_rate_and_fewer_steps():
    base = Base(lr=1e-3, tuned_batch=32, epochs=10, num_train_samples=100_000)
    recipes = [convert(base, Devices(global_batch=32 * k)) for k in (1, 2, 4, 8)]
    for small, large in itertools.pairwise(recipes):
        assert small.lr < large.lr
        assert small.total_steps > large.total_steps
        assert small.total_samples == large.total_samples


def test_low_tier_gives_a_sweep_and_says_so():
    recipe = convert(TUNED, Devices(num_ranks=16, micro_batch=128))
    assert recipe.tier == "low"
    assert len(recipe.sweep) == 5
    assert "HR009" in {finding.code for finding in recipe.findings}
    row = next(row for row in recipe.values if row.field == "lr")
    assert row.value == list(recipe.sweep)


def test_a_low_tier_has_no_one_rate():
    recipe = convert(TUNED, Devices(num_ranks=16, micro_batch=128))
    assert recipe.is_sweep
    assert recipe.rates == recipe.sweep
    assert recipe.lr == recipe.sweep[2]  # what one would try first
    near = convert(TUNED, Devices(num_ranks=8, micro_batch=128))
    assert not near.is_sweep
    assert near.rates == (near.lr,)


def test_a_forced_rule_is_one_rate_with_a_warning_where_it_is_far():
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=128, lr_rule="linear")
    far = convert(base, Devices(num_ranks=16, micro_batch=128))
    assert (far.is_sweep, far.tier) == (False, "given")
    assert far.rates == (pytest.approx(1.6),)
    (finding,) = [found for found in far.findings if found.code == "HR009"]
    assert "you forced the linear rule" in finding.message
    row = next(row for row in far.values if row.field == "lr")
    assert (row.value, row.confidence) == (pytest.approx(1.6), "given")
    near = convert(base, Devices(num_ranks=2, micro_batch=128))
    assert "HR009" not in {found.code for found in near.findings}


def test_runs_give_the_critical_batch_and_an_accepted_bill_lengthens_the_run():
    runs = [BatchRun(batch=b, samples=1e6 * (1 + b / 1000)) for b in (128, 256, 512)]
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=128, total_samples=10**6)
    wide = Devices(num_ranks=8, micro_batch=128)
    with pytest.raises(FieldError, match=r"^global_batch=1024: lies beyond the critical batch"):
        convert(base, wide, runs)
    paid = convert(
        Base(optimizer="sgd", lr=0.1, tuned_batch=128, total_samples=10**6, accept_bill=True), wide, runs
    )
    assert paid.critical_batch == pytest.approx(1000, rel=0.02)
    assert paid.samples_stretch == pytest.approx(2.024 / 1.128, rel=0.01)
    assert paid.total_samples == pytest.approx(1e6 * paid.samples_stretch, rel=1e-6)
    assert 0.1 < paid.lr < 0.8


def test_a_given_critical_batch_wins_over_runs():
    runs = [BatchRun(batch=b, samples=1e6 * (1 + b / 1000)) for b in (128, 256, 512)]
    base = Base(optimizer="sgd", tuned_batch=128, critical_batch=5000)
    assert convert(base, runs=runs).critical_batch == 5000


@pytest.mark.parametrize("objective", ["contrastive", "gan", "rl"])
def test_an_objective_that_contains_the_batch_is_refused_where_the_batch_moves(objective):
    base = Base(objective=objective, tuned_batch=64)
    assert convert(base, Devices(num_ranks=4)).lr == base.lr
    with pytest.raises(FieldError, match=rf"^objective='{objective}': the batch is part of this objective"):
        convert(base, Devices(num_ranks=4, micro_batch=64))


def test_what_is_set_for_the_new_devices_wins():
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=128, total_samples=10**6)
    recipe = convert(base, Devices(num_ranks=8, micro_batch=128, new_warmup_steps=42))
    assert recipe.warmup_steps == recipe.schedule.warmup_steps == 42
    assert convert(base, Devices(device="T4")).precision == "fp16"
    assert convert(Base(precision="bf16"), Devices(device="T4")).precision == "bf16"


def test_every_value_has_a_reason_and_every_derived_one_a_source():
    base = Base(
        optimizer="sgd",
        lr=0.1,
        tuned_batch=128,
        epochs=90,
        num_train_samples=50_000,
        patience=10,
        eval_every_samples=50_000,
        schedule="step",
        milestones=(30, 60),
        eta_min=1e-4,
        metric_std=0.01,
    )
    recipe = convert(base, Devices(num_ranks=8, micro_batch=128, device="A100"))
    for row in recipe.values:
        assert row.why
        assert row.confidence in ("high", "medium", "low", "given")
        if row.confidence != "given" and row.field != "critical_batch":
            assert row.source, row.field


def test_all_findings_are_plain_and_carry_a_repair():
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=128, epochs=2, num_train_samples=5000, patience=3)
    recipe = convert(base, Devices(num_ranks=8, micro_batch=100))
    codes = {finding.code for finding in recipe.findings}
    assert codes >= {"HR003", "HR004", "HR005", "HR006", "HR011"}
    assert all(finding.fix and finding.severity < Severity.ERROR for finding in recipe.findings)
