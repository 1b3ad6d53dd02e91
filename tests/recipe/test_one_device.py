"""Every field of the one-device values is checked."""

import math

import pytest

from hemostat.errors import FieldError
from hemostat.recipe import Base

BAD = [
    ({"lr": -1}, r"^lr=-1: must be a number above 0\. "),
    ({"lr": math.nan}, r"^lr=nan: "),
    ({"lr": math.inf}, r"^lr=inf: "),
    ({"lr": "0.1"}, r"^lr='0.1': "),
    ({"lr": True}, r"^lr=True: "),
    ({"tuned_batch": 0}, r"^tuned_batch=0: must be a whole number, 1 or more\. "),
    ({"tuned_batch": 12.5}, r"^tuned_batch=12.5: "),
    ({"total_samples": 0}, r"^total_samples=0: "),
    ({"num_train_samples": 0}, r"^num_train_samples=0: "),
    ({"epochs": 0}, r"^epochs=0: "),
    ({"epochs": 2, "total_samples": 10}, r"^total_samples=10: cannot stand beside epochs=2\. "),
    ({"schedule": "cosin"}, r"^schedule='cosin': is not known\. Did you mean 'cosine'\?"),
    ({"lr_rule": "cubic"}, r"^lr_rule='cubic': is not known\."),
    ({"optimizer": "sgdd"}, r"^optimizer='sgdd': is not known\. Did you mean 'sgd'\?"),
    ({"lr": 0.1, "eta_min": 0.2}, r"^eta_min=0.2: the floor lies above the peak rate lr=0.1\. "),
    ({"schedule": "step", "milestones": (60, 30)}, r"^milestones=\[60, 30\]: must rise"),
    ({"schedule": "step", "milestones": (0.0,)}, r"^milestones=\[0.0\]: must rise"),
    ({"milestones": (30,)}, r"^milestones=\[30\]: mean nothing to schedule='cosine'\. "),
    ({"warmup_steps": -1}, r"^warmup_steps=-1: "),
    ({"patience": 0}, r"^patience=0: "),
    ({"beta2": 1.0}, r"^beta2=1.0: must be a number, 0 or more, below 1\. "),
    ({"gamma": 1.0}, r"^gamma=1.0: "),
    ({"plateau_factor": 0.0}, r"^plateau_factor=0.0: "),
    ({"critical_batch": 0}, r"^critical_batch=0: "),
    ({"reduction": "max"}, r"^reduction='max': is not known\."),
    ({"objective": "vae"}, r"^objective='vae': is not known\."),
    ({"apply_advice": ("momentum",)}, r"^apply_advice='momentum': is not known\."),
    (
        {"optimizer": "sgd", "apply_advice": ("beta2",)},
        r"^apply_advice=\['beta2'\]: .* not hold for sgd\. Leave",
    ),
    ({"optimizer": "lion", "beta2": 0.99, "apply_advice": ("beta2",)}, r"does not hold for lion\."),
    (
        {"optimizer": "sgd", "eps": 1e-6, "apply_advice": ("eps",)},
        r"the rule for eps does not hold for sgd\.",
    ),
    ({"apply_advice": ("ema",)}, r"ema is not set, so nothing could move\. Give ema, or leave it out\."),
    ({"schedule": "step"}, r"^schedule='step': has no milestones.*milestones=\[30, 60\]"),
    ({"metric_mode": "up"}, r"^metric_mode='up': is not known\."),
    ({"precision": "fp8"}, r"^precision='fp8': is not known\."),
]


@pytest.mark.parametrize(("values", "message"), BAD)
def test_bad_values_are_refused_in_one_line(values, message):
    with pytest.raises(FieldError, match=message) as caught:
        Base(**values)
    assert "\n" not in str(caught.value)


def test_counts_and_lengths_may_be_text():
    base = Base.from_text({"total_samples": "1.5M", "num_train_samples": "50k", "tuned_batch": 256})
    assert (base.total_samples, base.num_train_samples) == (1_500_000, 50_000)
    assert Base.from_text({"total_samples": "1000steps", "tuned_batch": 256}).total_samples == 256_000
    assert Base.from_text({"total_samples": "1Mtok", "sample_tokens": 300}).total_samples == 3334


def test_advice_that_can_move_something_is_taken():
    assert Base(apply_advice=("beta2",)).apply_advice == ("beta2",)
    assert Base(optimizer="sgd", weight_decay=1e-4, apply_advice=("weight_decay",)).weight_decay == 1e-4


def test_a_single_milestone_needs_no_brackets():
    assert Base.from_text({"schedule": "step", "milestones": 30}).milestones == (30.0,)


def test_text_of_the_wrong_kind_names_the_field():
    with pytest.raises(FieldError, match=r"^num_train_samples='many': "):
        Base.from_text({"num_train_samples": "many"})
    with pytest.raises(FieldError, match=r"^sample_tokens=0: "):
        Base.from_text({"total_samples": "1Mtok", "sample_tokens": 0})
