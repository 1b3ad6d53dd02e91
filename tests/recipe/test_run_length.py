"""Length, schedule and critical batch at the new batch."""

import pytest

from hemostat.errors import FieldError
from hemostat.recipe import Base, BatchRun, Devices, convert
from hemostat.recipe.run_length import run_samples

EIGHT = Devices(num_ranks=8, micro_batch=128)


def test_epochs_stay_and_steps_shrink():
    found = convert(Base(tuned_batch=128, epochs=90, num_train_samples=50_000), EIGHT)
    assert found.total_samples == 4_500_000
    assert found.total_steps == 90 * 49


def test_milestones_move_with_the_samples():
    base = Base(
        optimizer="sgd",
        lr=0.1,
        tuned_batch=128,
        epochs=90,
        num_train_samples=50_000,
        schedule="step",
        milestones=(30, 60, 80),
    )
    assert convert(base).schedule.milestones_steps == (30 * 391, 60 * 391, 80 * 391)
    assert convert(base, EIGHT).schedule.milestones_steps == (30 * 49, 60 * 49, 80 * 49)


def test_a_derived_warm_up_ends_before_the_first_milestone():
    base = Base(
        optimizer="sgd", tuned_batch=128, epochs=9, num_train_samples=50_000, schedule="step", milestones=(3,)
    )
    schedule = convert(base, EIGHT).schedule
    assert 0 < schedule.warmup_steps < schedule.milestones_steps[0]


def test_the_floor_keeps_its_share_of_the_peak():
    found = convert(Base(optimizer="sgd", lr=0.1, eta_min=0.01, tuned_batch=128), EIGHT)
    assert found.schedule.eta_min / found.lr == pytest.approx(0.1)


def test_a_floor_as_high_as_the_peak_survives_rounding():
    for k in range(1, 50):
        found = convert(Base(lr=0.3, eta_min=0.3, tuned_batch=7), Devices(global_batch=7 * k))
        assert found.schedule.eta_min <= found.schedule.peak_lr


def test_wsd_decays_over_its_share():
    found = convert(Base(schedule="wsd", decay_share=0.2, tuned_batch=100, total_samples=100_000))
    assert found.schedule.decay_steps == 200


def test_warm_up_longer_than_half_of_the_run_is_refused_where_it_was_given():
    with pytest.raises(FieldError, match=r"^warmup_steps=600: is more than half of the run"):
        convert(Base(tuned_batch=32, total_samples=32_000, warmup_steps=600))


def test_adam_warms_up_from_zero_and_sgd_from_the_rate_that_worked():
    assert convert(Base(tuned_batch=128), EIGHT).schedule.start_lr == 0.0
    assert convert(Base(optimizer="sgd", lr=0.1, tuned_batch=128), EIGHT).schedule.start_lr == 0.1
    assert convert(Base(tuned_batch=128, start_lr=1e-4), EIGHT).schedule.start_lr == 1e-4


def test_flat_runs_leave_the_critical_batch_unknown():
    found = convert(Base(), runs=[BatchRun(batch=b, samples=1000) for b in (16, 32, 64)])
    row = next(row for row in found.values if row.field == "critical_batch")
    assert found.critical_batch is None
    assert "no rise" in row.why


def test_an_unknown_critical_batch_says_who_measures_it():
    row = next(row for row in convert(Base()).values if row.field == "critical_batch")
    assert (row.value, row.confidence) == ("not known", "low")
    assert "hemostat train" in row.why


def test_the_length_of_a_run():
    assert run_samples(Base(total_samples=7)) == 7
    assert run_samples(Base(epochs=1.5, num_train_samples=100)) == 150
    assert run_samples(Base(num_train_samples=100)) == 100
    assert run_samples(Base(epochs=90)) == 0


def warmed(**values):
    """Warm-up steps at 8 times the batch."""
    return convert(Base(tuned_batch=128, **values), EIGHT).warmup_steps


def test_warm_up_follows_the_beta2_of_this_run():
    assert warmed(beta2=0.999) == 2000
    # 0.999 ** 8 = 0.99203: 2 / (1 - beta2) is 251 steps, below the floor of 500
    assert warmed(beta2=0.999, apply_advice=("beta2",)) == 500
    assert warmed(beta2=0.9998, apply_advice=("beta2",)) == 1251


def test_a_beta2_of_zero_is_not_the_default():
    assert warmed(beta2=0.0) == 500


@pytest.mark.parametrize("optimizer", ["rmsprop", "lion", "adafactor"])
def test_an_optimizer_without_adams_second_moment_has_no_such_warm_up(optimizer):
    assert warmed(optimizer=optimizer) == 500
    assert warmed(optimizer=optimizer, beta2=0.999) == 500
    assert warmed(optimizer=optimizer, epochs=90, num_train_samples=10**6) == 500  # nor the 5 epochs of SGD


def test_a_length_in_steps_knows_the_ragged_end_of_an_epoch():
    text = {"total_samples": "20 steps", "tuned_batch": 128, "num_train_samples": "1k"}
    base = Base.from_text(text)
    assert base.total_samples == 2512
    assert convert(base).total_steps == 20
