"""A summed loss and a framework that scales already are found."""

import pytest

from hemostat.findings import Severity
from hemostat.recipe import Base, Devices, convert
from hemostat.recipe.double_scaling import FRAMEWORKS, find_double_scaling


def codes(base, k=8.0):
    return [finding.code for finding in find_double_scaling(base, k, k)]


def test_a_mean_loss_without_a_framework_is_clean():
    assert codes(Base(optimizer="sgd", tuned_batch=32)) == []


def test_a_summed_loss_with_sgd_scales_by_itself():
    base = Base(optimizer="sgd", lr=0.001, tuned_batch=128, reduction="sum")
    (finding,) = find_double_scaling(base, 8.0, 8.0)
    assert (finding.code, finding.severity) == ("HR001", Severity.ERROR)
    # the sum keeps its rate, the mean takes it times the old batch, then the rule
    assert finding.evidence["lr_for_sum"] == pytest.approx(0.001)
    assert finding.evidence["lr_for_mean"] == pytest.approx(0.001 * 128 * 8)


def test_a_summed_loss_hardly_moves_adam():
    (finding,) = find_double_scaling(Base(optimizer="adamw", reduction="sum"), 2.8, 8.0)
    assert finding.severity == Severity.WARNING


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "mmdetection", "Ultralytics"])
def test_every_known_framework_is_named_with_a_repair(framework):
    (finding,) = find_double_scaling(Base(optimizer="sgd", framework=framework), 8.0, 8.0)
    assert finding.code == "HR002"
    assert framework in finding.message
    assert finding.fix


def test_the_rate_that_the_framework_would_set_is_said():
    (finding,) = find_double_scaling(Base(optimizer="adamw", lr=0.001, framework="mmengine"), 2.0, 4.0)
    assert "lr=0.004" in finding.message


def test_a_framework_that_scales_nothing_is_clean():
    assert codes(Base(framework="Lightning")) == []


def test_a_framework_that_nobody_knows_is_said():
    assert codes(Base(framework="my own loop")) == ["HR014"]


def test_the_same_batch_is_no_error():
    recipe = convert(Base(optimizer="sgd", framework="detectron2"), Devices(num_ranks=4))
    assert all(finding.severity < Severity.ERROR for finding in recipe.findings)
