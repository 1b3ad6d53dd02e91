"""Epochs, samples, tokens and steps into each other."""

from hypothesis import given
from hypothesis import strategies as st

from hemostat.recipe import Base
from hemostat.recipe.length import run_samples, samples_from_epochs, samples_from_tokens, steps_from_samples


def windows(total, batch, n):
    """Count updates the slow way: a window ends at its size, at the end of an epoch, or at the end."""
    steps = done = 0
    while done < total:
        done += min(batch, n - done % n, total - done)
        steps += 1
    return steps


@given(st.integers(1, 2000), st.integers(1, 300), st.integers(1, 700))
def test_windows_never_cross_an_epoch(total, batch, n):
    assert steps_from_samples(total, batch, n) == windows(total, batch, n)


@given(st.integers(1, 10**6), st.integers(1, 2000))
def test_without_an_epoch_only_the_last_window_is_ragged(total, batch):
    steps = steps_from_samples(total, batch)
    assert (steps - 1) * batch < total <= steps * batch


def test_ragged_epochs_by_hand():
    assert steps_from_samples(2000, 128, 1000) == 16
    assert steps_from_samples(2000, 128) == 16
    assert steps_from_samples(3000, 128, 1000) == 24
    assert steps_from_samples(3000, 3000, 1000) == 3


def test_fractions_and_tokens():
    assert samples_from_epochs(0.1, 30) == 3
    assert samples_from_epochs(2.5, 1001) == 2503
    assert samples_from_tokens(1025, 512) == 3


def test_the_length_of_a_run():
    assert run_samples(Base(total_samples=7)) == 7
    assert run_samples(Base(epochs=1.5, num_train_samples=100)) == 150
    assert run_samples(Base(num_train_samples=100)) == 100
    assert run_samples(Base(epochs=90)) == 0
