"""Fit of samples-to-target against batch, and the bill."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError
from hemostat.recipe import BatchRun, fit_critical_batch
from hemostat.recipe.critical import check_bill, samples_stretch

# MLPerf training 5.1 reference convergence points, Llama-3.1 8B with AdamW: batch, samples to target
LLAMA_8B = ((16, 159744), (32, 184320), (64, 233472), (96, 272448), (128, 344064))


def law(critical, batches, least=1e6):
    return [BatchRun(batch=batch, samples=least * (1 + batch / critical)) for batch in batches]


@given(st.floats(50, 5000), st.floats(1e3, 1e9))
def test_an_exact_law_is_found_again(critical, least):
    fit = fit_critical_batch(law(critical, (32, 128, 512, 2048), least))
    assert fit.critical_batch == pytest.approx(critical, rel=0.02)
    assert fit.min_samples == pytest.approx(least, rel=0.02)
    assert fit.low <= fit.critical_batch <= fit.high


def test_epochs_are_not_rounded():
    runs = BatchRun.parse("128:12.4 256:13.1 512:14.9")
    assert [run.samples for run in runs] == [12.4, 13.1, 14.9]
    in_samples = [BatchRun(batch=run.batch, samples=run.samples * 50_000) for run in runs]
    assert fit_critical_batch(runs).critical_batch == fit_critical_batch(in_samples).critical_batch
    assert BatchRun.parse("1k:1.25M")[0] == BatchRun(batch=1000, samples=1_250_000)
    for wrong in ("128:nan", "128:inf", "128:-3", "128:0"):
        with pytest.raises(FieldError, match=r"^runs"):
            BatchRun.parse(wrong)


def test_published_runs_of_an_8b_model():
    runs = [BatchRun(batch=batch, samples=samples) for batch, samples in LLAMA_8B]
    fit = fit_critical_batch(runs)
    assert fit.critical_batch == pytest.approx(86, rel=0.02)
    assert fit.rms_log_error == pytest.approx(0.023, abs=0.002)
    extrapolated = fit_critical_batch(runs[:3]).samples(128)
    assert extrapolated == pytest.approx(344064, rel=0.05)


def test_at_the_critical_batch_steps_and_samples_are_twice_the_least():
    fit = fit_critical_batch(law(500, (100, 500, 2500)))
    assert fit.samples(fit.critical_batch) == pytest.approx(2 * fit.min_samples)
    least_steps = fit.samples(1e12) / 1e12
    assert fit.steps(fit.critical_batch) == pytest.approx(2 * least_steps, rel=1e-6)


def test_the_fastest_run_of_a_batch_counts():
    runs = law(500, (100, 500, 2500))
    slow = BatchRun(batch=500, samples=9e9)
    assert fit_critical_batch([*runs, slow]) == fit_critical_batch(runs)


def test_runs_that_show_no_rise_bound_nothing():
    fit = fit_critical_batch([BatchRun(batch=batch, samples=1000) for batch in (10, 20, 40)])
    assert math.isinf(fit.critical_batch)
    assert math.isinf(fit.high)
    assert fit.samples(40) == pytest.approx(1000, rel=1e-3)


def test_two_batches_are_not_enough():
    with pytest.raises(FieldError, match=r"^runs='8:10 16:12': a critical batch needs runs at three"):
        fit_critical_batch([BatchRun(batch=8, samples=10), BatchRun(batch=16, samples=12)])


def test_text_is_read_and_refused_in_one_line():
    assert BatchRun.parse("128:1.2M, 256:1300000") == (
        BatchRun(batch=128, samples=1_200_000),
        BatchRun(batch=256, samples=1_300_000),
    )
    for text, message in (("128", r"^runs='128': is not batch:samples"), ("0:5", r"^runs.batch=0: ")):
        with pytest.raises(FieldError, match=message):
            BatchRun.parse(text)
    with pytest.raises(FieldError, match=r"^runs.samples=0: "):
        BatchRun.parse("128:0")


def test_the_bill():
    assert samples_stretch(16, 128, 86) == pytest.approx(2.0980, abs=5e-5)
    assert samples_stretch(16, 128, None) == samples_stretch(16, 128, math.inf) == 1.0


def test_a_batch_beyond_the_critical_one_needs_a_yes_and_beyond_four_times_it_is_refused():
    check_bill(32, 100, 100, accepted=False)
    with pytest.raises(FieldError, match=r"^global_batch=200: lies beyond .* Set accept_bill=true"):
        check_bill(32, 200, 100, accepted=False)
    check_bill(32, 400, 100, accepted=True)
    with pytest.raises(FieldError, match=r"^global_batch=401: is more than 4 times the critical batch 100"):
        check_bill(32, 401, 100, accepted=True)


def test_a_batch_that_was_tuned_there_is_never_refused():
    check_bill(1000, 1000, 100, accepted=False)
    check_bill(1000, 500, 100, accepted=False)
