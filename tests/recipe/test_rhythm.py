"""Evaluation period, patience and plateau at the new rhythm."""

import pytest

from hemostat.recipe import Base, Devices, convert


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


@pytest.mark.parametrize("patience", [3, 4, 6, 10, 25])
def test_the_rate_is_halved_before_the_run_stops(patience):
    found = recipe(Devices(), patience=patience)
    assert found.plateau_patience + 1 < found.patience_evals


def test_a_plateau_patience_that_comes_too_late_is_lowered():
    found = recipe(Devices(), patience=5, plateau_patience=10)
    assert found.plateau_patience + 1 < 5
    row = next(row for row in found.values if row.field == "plateau_patience")
    assert "before the rate is halved" in row.why


def test_a_gain_below_the_noise_is_no_improvement():
    assert recipe(EIGHT, metric_std=0.02).min_delta == 0.02
    assert recipe(EIGHT, metric_std=0.02, min_delta=0.5).min_delta == 0.5
