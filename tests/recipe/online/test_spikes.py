"""Spikes: named at their step, joined with the gradient norm, and next to never on a clean curve."""

import csv
import json
import math

import pytest

from hemostat.recipe.online import Spikes


def fed(spikes, num=32, norm=1.0):
    for step in range(num):
        assert spikes.update(2.0 + 0.1 * (step % 5 - 2), norm + 0.1 * (step % 5 - 2)) is None
    return spikes


def test_by_hand():
    # losses 1.8 1.9 2.0 2.1 2.2: the median of |x - 2| is 0.1, so a deviation is 0.14826
    spike = fed(Spikes(window=30)).update(5.0, 3.0)
    assert (spike.loss, spike.usual_loss) == (5.0, pytest.approx(2.0))
    assert spike.deviations == pytest.approx(3.0 / 0.14826)
    assert spike.grad_deviations == pytest.approx(2.0 / 0.14826)


def test_a_higher_loss_with_a_usual_gradient_is_none_unless_it_is_far_out():
    assert fed(Spikes()).update(2.0 + 12 * 0.14826, 1.0) is None
    assert fed(Spikes()).update(2.0 + 12 * 0.14826, 2.0) is not None
    assert fed(Spikes()).update(2.0 + 30 * 0.14826, 1.0) is not None


def test_the_steps_after_a_spike_belong_to_it():
    spikes = fed(Spikes(window=32))
    assert spikes.update(6.0, 9.0)
    assert [spikes.update(6.0 + step, 9.0 + step) for step in range(32)] == [None] * 32


def test_what_is_not_finite_and_the_first_steps_are_passed_over():
    spikes = Spikes()
    assert [spikes.update(loss, 1.0) for loss in (1.0, 50.0, math.nan, math.inf)] == [None] * 4
    assert len(spikes.state()["losses"]) == 2


def test_a_curve_without_noise_has_no_spike_of_a_few_percent():
    spikes = Spikes()
    for _ in range(40):
        spikes.update(1.0)
    assert spikes.update(1.1) is None
    assert spikes.update(1.3) is not None


def test_it_goes_on_after_a_resume():
    first, second = fed(Spikes()), Spikes()
    second.restore(json.loads(json.dumps(first.state())))
    assert first.update(6.0, 9.0) == second.update(6.0, 9.0) is not None
    assert first.state() == second.state()


@pytest.mark.parametrize("relative_noise", [0.01, 0.05, 0.2])
def test_false_alarms_on_clean_curves(clean_run, relative_noise):
    """Measured on 200 runs of 2,000 steps at each noise: none."""
    alarms = 0
    for seed in range(70):
        spikes = Spikes()
        alarms += any(spikes.update(*step) for step in clean_run(seed, 1000, relative_noise))
    assert alarms == 0


def recorded_spikes(path):
    spikes, found = Spikes(), []
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            norm = float(row["grad_norm"]) if row["grad_norm"] else None
            if row["loss"] and spikes.update(float(row["loss"]), norm):
                found.append(int(row["global_step"]))
    return found


def test_recorded_runs(recorded):
    """A translation model that spikes near 28,800 and 44,600, and three healthy runs."""
    assert recorded_spikes(recorded / "logs/117_csv/measurements.csv")[:2] == [28_700, 44_600]
    for healthy in ("103_csv", "105_csv", "123_csv"):
        assert recorded_spikes(recorded / "logs" / healthy / "measurements.csv") == []
