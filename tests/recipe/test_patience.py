"""The stopper: counting, plateau halving, NaN, resume; and patience as a window in samples."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError
from hemostat.recipe import Stopper
from hemostat.recipe.patience import accuracy_noise, convert_patience, shorter_patience


def feed(stopper, values, first_step=0):
    return [stopper.update(value, first_step + index) for index, value in enumerate(values)]


def test_it_stops_at_bad_evaluation_number_patience():
    verdicts = feed(Stopper(patience_evals=3), [1.0, 0.9, 0.91, 0.92, 0.93])
    assert [verdict.stop for verdict in verdicts] == [False, False, False, False, True]
    assert (verdicts[-1].best, verdicts[-1].best_step) == (0.9, 1)
    assert "best 0.9 at step 1" in verdicts[-1].why


def test_an_improvement_starts_the_count_again():
    assert not any(verdict.stop for verdict in feed(Stopper(patience_evals=2), [1.0, 1.1, 0.9, 1.0, 0.8]))


def test_mode_max_and_min_delta():
    verdicts = feed(Stopper(patience_evals=2, mode="max", min_delta=0.1), [0.5, 0.55, 0.59])
    assert [verdict.improved for verdict in verdicts] == [True, False, False]
    assert verdicts[-1].stop


def test_nan_and_inf_are_bad_evaluations():
    verdicts = feed(Stopper(patience_evals=2), [math.nan, math.inf])
    assert verdicts[-1].stop
    assert not any(verdict.improved for verdict in verdicts)
    assert "no finite value yet" in verdicts[-1].why
    recovered = feed(Stopper(patience_evals=9), [math.nan, 1.0, math.nan])
    assert [verdict.improved for verdict in recovered] == [False, True, False]


def test_the_rate_is_halved_on_a_plateau_before_the_run_stops():
    verdicts = feed(Stopper(patience_evals=6, plateau_patience=1), [1.0] * 7)
    assert [verdict.lr_factor for verdict in verdicts] == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25]
    assert [verdict.stop for verdict in verdicts] == [False] * 6 + [True]


def test_nothing_is_counted_before_the_given_step():
    stopper = Stopper(patience_evals=2, plateau_patience=0, not_before_step=100)
    assert not any(v.stop or v.lr_factor < 1 for v in feed(stopper, [1.0, 2.0, 3.0, 4.0, 5.0]))
    assert stopper.update(5.0, 100).lr_factor == 0.5
    assert stopper.update(5.0, 101).stop


@given(st.lists(st.floats(allow_nan=True), max_size=30), st.integers(0, 30))
def test_a_restored_stopper_goes_on_as_if_nothing_happened(values, cut):
    whole, first = Stopper(4, 1), Stopper(4, 1)
    expected = feed(whole, values)
    feed(first, values[:cut])
    second = Stopper(4, 1)
    second.restore(first.state())
    rest = feed(second, values[cut:], first_step=min(cut, len(values)))
    assert repr(rest) == repr(expected[cut:])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"patience_evals": 0}, r"^patience_evals=0: "),
        ({"plateau_factor": 1.0}, r"^plateau_factor=1.0: "),
        ({"mode": "up"}, r"^mode='up': must be min or max"),
        ({"min_delta": -0.1}, r"^min_delta=-0.1: "),
    ],
)
def test_impossible_settings_are_refused(values, message):
    with pytest.raises(FieldError, match=message):
        Stopper(**values)


def test_evaluating_every_1000_steps_at_8_times_the_batch_needs_a_shorter_count():
    assert convert_patience(10, samples_before=128_000, samples_after=1_024_000) == 3
    assert convert_patience(40, samples_before=128_000, samples_after=1_024_000) == 5


@given(st.integers(1, 100), st.integers(1, 10**6), st.integers(1, 10**6))
def test_the_window_in_samples_never_shrinks(patience, before, after):
    converted = convert_patience(patience, samples_before=before, samples_after=after, minimum=1)
    assert converted * after >= patience * before * (1 - 1e-9)
    assert (converted - 1) * after < patience * before


@given(st.integers(1, 1000))
def test_the_rule_of_thumb_is_a_third_to_a_half_shorter(patience):
    shorter = shorter_patience(patience)
    assert shorter <= patience
    if patience >= 6:
        assert patience / 2 <= shorter <= patience * 2 / 3


def test_noise():
    assert accuracy_noise(0.5, 100) == 0.05
