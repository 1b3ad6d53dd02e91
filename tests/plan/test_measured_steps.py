"""Steps of another device, precision or model calibrate nothing."""

from __future__ import annotations

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan import Plan
from hemostat.plan.hardware import Cluster
from hemostat.plan.measured_steps import terms_of


def test_without_a_step_the_terms_are_those_of_the_published_measurements(story_profile):
    assert terms_of((), story_profile, Cluster.read("8xA100-40GB"), ("adamw", "bf16")) is None


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            {"device": "NVIDIA A100-SXM4-80GB", "run": "old"},
            "80GB'?: run old is no measurement of the A100-40GB",
        ),
        ({"device": "NVIDIA GeForce 8800"}, "plan.measured.device="),
        ({"precision": "fp32"}, "precision='fp32': is no measurement of bf16"),
        ({"step_s": 100.0}, "measured='1m40s': is off by a factor of"),
        ({"step_s": 0.0}, "is no time"),
        ({"micro_batch": 8, "sept_s": 1.0}, "sept_s"),
    ],
)
def test_a_step_of_something_else_calibrates_nothing(story_profile, step, said):
    good = {"step_s": 0.3, "micro_batch": 8, "device": "NVIDIA A100-SXM4-40GB", "precision": "bf16"}
    assert Plan.make(story_profile, "8xA100-40GB", {"measured": [good]}).goal.terms is not None
    with pytest.raises((FieldError, UnknownNameError), match=said):
        Plan.make(story_profile, "8xA100-40GB", {"measured": [{**good, **step}]})
