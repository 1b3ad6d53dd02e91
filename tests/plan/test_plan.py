"""`Plan.make`: what is asked comes out as one value, and what cannot be is said with its repair."""

from __future__ import annotations

import datetime
import re

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan import Plan

LENGTH = {"num_tokens": 6.4e9, "global_batch": 1024}


def test_the_best_fits_and_twice_the_devices_are_faster(story_profile):
    plan = Plan.make(story_profile, "8xA100-40GB", LENGTH)
    assert plan.best.is_safe(plan.cluster.device.memory_bytes)
    assert plan.doubled.cost.days < plan.best.cost.days
    assert plan.goal.price.instance == "p4d.24xlarge"


def test_a_wanted_layout_takes_the_largest_micro_batch_that_fits(story_profile):
    plan = Plan.make(story_profile, "8xA100-40GB", {**LENGTH, "layout": {"dp": 8}})
    assert plan.wanted.workload.micro_batch == 16 and plan.changes == ()
    more = Plan.make(story_profile, "8xA100-40GB", {**LENGTH, "layout": {"dp": 8}, "micro_batch": 128})
    assert not more.wanted.memory.fits(plan.cluster.device.memory_bytes) and more.changes


@pytest.mark.parametrize("cluster", ["ml.p3.16xlarge", "8xV100-16GB", "2x p3.16xlarge"])
def test_an_old_machine_that_costs_more_is_said_at_once(story_profile, cluster):
    plan = Plan.make(story_profile, cluster, LENGTH)
    assert any("p3.16xlarge costs" in note and "times what" in note for note in plan.notes)
    own = Plan.make(story_profile, cluster, {**LENGTH, "usd_per_hour": 3.0})
    assert not any("times what" in note for note in own.notes)


def test_an_old_price_is_said(story_profile, monkeypatch):
    def noted(**more) -> bool:
        notes = Plan.make(story_profile, "8xA100-40GB", {**LENGTH, **more}).notes
        return any("p4d.24xlarge is" in note and "may have changed" in note for note in notes)

    class Later(datetime.date):
        @classmethod
        def today(cls):
            return cls(2026, 8, 1)

    monkeypatch.setattr("hemostat.plan.plan.datetime.date", Later)
    assert not noted()
    assert noted(spot=True)  # its list names no day
    Later.today = classmethod(lambda cls: cls(2027, 8, 1))
    assert noted() and not noted(usd_per_hour=3.0)


def test_the_usual_batch_is_said_to_be_assumed(story_profile):
    plan = Plan.make(story_profile, "8xA100-40GB", {})
    assert plan.goal.global_batch == 1024 and "assumed" in plan.notes[0]


def test_more_devices_than_the_critical_batch_needs(story_profile):
    plan = Plan.make(story_profile, "8xA100-40GB", {**LENGTH, "critical_batch": 500})
    assert any("beyond about 500 samples" in note and "1.5 times the samples" in note for note in plan.notes)
    assert plan.doubled.step.num_samples == 500 and plan.best.step.num_samples == 1024
    below = Plan.make(story_profile, "8xA100-40GB", {**LENGTH, "critical_batch": 5000})
    assert below.doubled.step.num_samples == 1024 and not any("beyond" in note for note in below.notes)
    tiny = Plan.make(story_profile, "8xA100-40GB", {**LENGTH, "critical_batch": 4})
    assert tiny.doubled.cost.days > plan.best.cost.days  # twice the devices save no time
    with pytest.raises(FieldError, match="critical_batch=0"):
        Plan.make(story_profile, "8xA100-40GB", {**LENGTH, "critical_batch": 0})


@pytest.mark.parametrize(
    ("cluster", "values", "said"),
    [
        ("8xA100", {}, "comes as A100-40GB"),
        ("8xZ100", {}, "Z100"),
        ("8xA100-40GB", {"global_batch": 0}, "global_batch=0: must be 1 or more"),
        ("8xA100-40GB", {"micro_batch": 0, "layout": {"dp": 8}}, "micro_batch=0"),
        ("8xA100-40GB", {"layout": {"dp": 3}}, "and there are 8"),
        ("8xA100-40GB", {**LENGTH, "max_usd": 1.0}, "nothing fits it: the least is"),
        ("8xA100-40GB", {**LENGTH, "max_days": 0.001}, "nothing fits it: the least is 0.1 days"),
        ("8xA100-40GB", {"max_usd": 1.0}, "needs the length of the run"),
        ("8xA100-40GB", {"num_tokens": -1.0}, "must be above 0"),
        ("8xA100-40GB", {"max_uds": 1.0}, "max_uds"),
    ],
)
def test_what_cannot_be_is_one_sentence(story_profile, cluster, values, said):
    with pytest.raises((FieldError, UnknownNameError), match=said):
        Plan.make(story_profile, cluster, values)


def test_a_model_for_which_nothing_fits_says_what_is_closest():
    plan = Plan.make(Plan.profile_of_numbers({"num_layers": 96, "hidden": 12288}), "8xV100-16GB", {})
    assert plan.best is None and plan.doubled is None and plan.found.rejected


def test_what_fits_is_asked_at_the_tokens_that_are_planned():
    sizes = {
        "num_hidden_layers": 16,
        "hidden_size": 2048,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    }
    config = {"model_type": "llama", **sizes, "vocab_size": 128256, "max_position_embeddings": 16384}
    for tokens in (4096, 16384):
        plan = Plan.make(Plan.profile_of_config(config, tokens), "8xA100-40GB", {"global_batch": 64})
        batch, sample, model = plan.with_largest(config).largest
        assert model.choice.step.num_tokens == 64 * tokens
        assert batch.choice.step.num_tokens == batch.value * tokens
        assert sample.choice.step.num_tokens <= 64 * tokens < 2 * sample.choice.step.num_tokens


def test_the_front_is_a_setting_and_a_note(story_profile):
    plain = Plan.make(story_profile, "8xA100-40GB", LENGTH)
    plan = Plan.make(story_profile, "8xA100-40GB", {**LENGTH, "front": True})
    assert plain.front == () and plan == plain.with_front() and len(plan.front) > 2
    assert plan.notes[-1].count("$") == len(plan.front) and str(plan.front[0].cluster) in plan.notes[-1]
    with pytest.raises(FieldError, match="needs a length and a price"):
        Plan.make(story_profile, "8xA100-40GB", {"front": True})


def test_a_config_of_an_unknown_family_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="llama"):
        Plan.profile_of_config({"model_type": "lama"})


def test_a_measured_step_moves_the_forecast_to_it(story_profile):
    values = {**LENGTH, "global_batch": 8, "layout": {"dp": 1}, "micro_batch": 8}
    plain = Plan.make(story_profile, "1xA100-40GB", values)
    twice_s = 2 * plain.wanted.step.step_s
    slower = Plan.make(
        story_profile, "1xA100-40GB", {**values, "measured": [{"step_s": twice_s, "micro_batch": 8}]}
    )
    assert slower.wanted.step.step_s == pytest.approx(twice_s, rel=0.02)
    assert slower.wanted.memory == plain.wanted.memory


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"precision": "banana"}, "plan.precision='banana': is not known"),
        ({"precision": "fp8"}, "plan.precision='fp8': is not known"),
        ({"micro_batch": 2}, "plan.micro_batch=2: belongs to a layout"),
        ({"max_days": float("nan")}, "plan.max_days=nan: must be above 0"),
        ({"critical_batch": -3.0}, "plan.critical_batch=-3.0: must be above 0"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(story_profile, values, told):
    with pytest.raises(FieldError, match=re.escape(told)):
        Plan.make(story_profile, "8xA100-40GB", values)
