"""Evaluation period, patience and plateau at the new rhythm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.recipe import Base, Devices, Stopper, convert
from hemostat.recipe.length import samples_per_period, steps_from_samples


def recipe(devices, **values):
    given = {
        "optimizer": "sgd",
        "lr": 0.1,
        "tuned_batch": 128,
        "schedule": "constant",
        "total_samples": 10**7,
    }
    return convert(Base(**(given | values)), devices)


EIGHT = Devices(num_ranks=8, micro_batch=128)


def test_a_known_rhythm_keeps_the_window_in_samples():
    """T047."""
    found = recipe(EIGHT, patience=10, eval_every_samples=128_000)
    assert (found.eval_every_steps, found.patience_evals) == (125, 10)


def test_keeping_the_steps_between_evaluations_shortens_the_count():
    every_1000_steps = Devices(num_ranks=8, micro_batch=128, new_eval_every_samples=1_024_000)
    found = recipe(every_1000_steps, patience=10, eval_every_samples=128_000)
    assert (found.eval_every_steps, found.patience_evals) == (1000, 3)


def test_an_unknown_rhythm_takes_the_rule_of_thumb():
    found = recipe(EIGHT, patience=10)
    assert 5 <= found.patience_evals <= 6
    row = next(row for row in found.values if row.field == "patience_evals")
    assert row.confidence == "low"


def test_the_window_is_stretched_beyond_the_critical_batch():
    found = recipe(EIGHT, patience=10, eval_every_samples=50_000, critical_batch=900, accept_bill=True)
    assert found.patience_evals == 19  # the vector of patience_vectors.csv: stretch 1.8716


def test_no_rhythm_given_means_at_least_twenty_evaluations():
    found = recipe(EIGHT, num_train_samples=50_000)
    assert found.eval_every_steps == 49
    found = recipe(EIGHT)
    assert found.total_steps // found.eval_every_steps >= 19


def test_the_period_of_whole_epochs_does_not_drift():
    found = recipe(Devices(), num_train_samples=1000, eval_every_samples=10_000, total_samples=100_000)
    assert found.eval_every_steps == 10 * 8  # 8 windows an epoch, the last one ragged


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd"])
def test_patience_waits_for_the_end_of_an_annealed_decay(schedule):
    found = recipe(EIGHT, schedule=schedule, patience=10)
    assert found.not_before_step == found.total_steps
    assert found.plateau_patience is None


def test_patience_waits_for_the_end_of_warm_up():
    found = recipe(EIGHT, patience=10)
    assert found.not_before_step == found.warmup_steps == 500


def row_of(found, field):
    return next(row for row in found.values if row.field == field)


@pytest.mark.parametrize("patience", [3, 4, 5, 6, 10, 25])
def test_the_rate_is_halved_in_the_middle_not_at_the_first_bad_evaluation(patience):
    found = recipe(Devices(), patience=patience)
    stopper = Stopper(found.patience_evals, found.plateau_patience)
    verdicts = [stopper.update(1.0, step) for step in range(patience + 1)]
    halved = [bad for bad, verdict in enumerate(verdicts) if verdict.lr_factor == 0.5]
    assert verdicts[-1].stop
    assert 2 <= halved[0] < patience
    assert abs(halved[0] - patience / 2) <= 0.5


@pytest.mark.parametrize("patience", [1, 2])
def test_a_patience_too_short_to_halve_says_so(patience):
    found = recipe(Devices(), patience=patience)
    assert found.plateau_patience is None
    assert f"patience {patience} leaves no room" in row_of(found, "plateau_patience").why


def test_patience_counts_the_evaluations_that_really_come():
    found = recipe(EIGHT, patience=10, eval_every_samples=128)
    assert (found.eval_every_steps, found.patience_evals) == (1, 3)  # not 10 x 1024 samples
    assert "whole updates make 1024" in row_of(found, "eval_every_steps").why
    why = row_of(found, "patience_evals").why
    assert (
        why
        == "the same window: 10 x 128 samples / 1024 would be 2, but fewer than 3 evaluations stop on noise"
    )


def test_the_real_period_knows_the_ragged_end_of_an_epoch():
    # 1025 samples in windows of 1024 and 1: an evaluation after each comes every 512.5 samples
    found = recipe(EIGHT, patience=10, eval_every_samples=128, num_train_samples=1025, total_samples=10**6)
    assert found.eval_every_steps == 1
    assert "10 x 114 samples / 512" in row_of(found, "patience_evals").why


@given(
    st.integers(1, 40), st.integers(1, 10**5), st.integers(1, 64), st.one_of(st.none(), st.integers(1, 10**5))
)
def test_the_window_in_real_samples_is_kept(patience, period, k, n):
    found = recipe(
        Devices(global_batch=128 * k), patience=patience, eval_every_samples=period, num_train_samples=n
    )
    before = samples_per_period(steps_from_samples(period, 128, n), 128, n)
    after = samples_per_period(found.eval_every_steps, 128 * k, n)
    assert found.patience_evals * after >= patience * before * 0.99
    if k > 1 and found.patience_evals > 3:
        assert (found.patience_evals - 1) * after < patience * before * 1.01


def test_plateau_patience_counts_the_same_evaluations():
    found = recipe(EIGHT, patience=80, plateau_patience=40, eval_every_samples=128)
    assert (found.patience_evals, found.plateau_patience) == (10, 5)
    unknown = recipe(EIGHT, plateau_patience=10)
    assert unknown.plateau_patience == 6  # no rhythm: the rule of thumb, not the least


def test_checkpoints_keep_their_samples():
    found = recipe(EIGHT, checkpoint_every_samples=256_000)
    assert (found.checkpoint_every_samples, found.checkpoint_every_steps) == (256_000, 250)
    row = row_of(found, "checkpoint_every_steps")
    assert (row.before, row.value) == (2000, 250)
    asked = Devices(num_ranks=8, micro_batch=128, new_checkpoint_every_samples=1_024_000)
    assert recipe(asked, checkpoint_every_samples=256_000).checkpoint_every_steps == 1000
    assert recipe(EIGHT).checkpoint_every_steps is None


def test_a_plateau_patience_that_comes_too_late_is_lowered():
    found = recipe(Devices(), patience=5, plateau_patience=10)
    assert found.plateau_patience + 1 < 5
    row = next(row for row in found.values if row.field == "plateau_patience")
    assert "before the rate is halved" in row.why


def test_a_gain_below_the_noise_is_no_improvement():
    assert recipe(EIGHT, metric_std=0.02).min_delta == 0.02
    assert recipe(EIGHT, metric_std=0.02, min_delta=0.5).min_delta == 0.5
