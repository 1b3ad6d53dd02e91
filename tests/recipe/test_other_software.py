"""What other software would do."""

import pytest

from hemostat.recipe.other_software import framework_factor


@pytest.mark.parametrize(
    ("optimizer", "factor"), [("adamw", 2.0), ("adagrad", 2.0), ("lamb", 2.0), ("lars", 4.0), ("sgd", 4.0)]
)
def test_timm_looks_for_ada_and_lamb_in_the_name(optimizer, factor):
    assert framework_factor("timm", 4.0, optimizer) == factor


def test_mmengine_is_linear_for_everything():
    assert framework_factor("mmengine", 4.0, "adamw") == 4.0


def test_yolo_scales_the_loss_and_not_the_rate():
    assert framework_factor("yolov5", 4.0, "sgd") is None
