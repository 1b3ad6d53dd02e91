"""What a model is given, as flat tensors and back."""

import pytest
import torch
from torch import nn

from hemostat.errors import TaskError
from hemostat.train.parallel.input_form import InputForm

X, Y, Z = (torch.full((1,), float(number)) for number in range(3))


def test_tensors_of_a_nested_call_in_one_order():
    form = InputForm(((X, {"a": Y}), None), {"z": Z, "mask": None})
    assert form.num_tensors == 3
    assert form.tensors(((X, {"a": Y}), None), {"mask": None, "z": Z}) == (X, Y, Z)  # names in any order
    assert form.call((1, 2, 3)) == (((1, {"a": 2}), None), {"mask": None, "z": 3})


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((X,), {}),
        ((X, Y), {"mask": X}),
        ((X, None), {}),
        ((X, 1.0), {}),
        (((X, Y),), {}),
        ((), {"x": X, "y": Y}),
    ],
)
def test_a_call_of_another_form_is_refused(args, kwargs):
    with pytest.raises(TaskError, match=r"was cut into stages for other inputs\. Let split"):
        InputForm((X, Y), {}).tensors(args, kwargs)


def test_numbers_and_text_are_no_inputs_of_a_pipeline():
    with pytest.raises(TaskError, match=r"is given a float \(0\.5\), and only tensors enter a pipeline"):
        InputForm((X,), {"weight": 0.5})


def test_without_a_sample_each_needed_input_is_a_tensor():
    class Net(nn.Module):
        def forward(self, x, y, mask=None, *, causal=True, **more):
            return x

    assert InputForm.of_signature(Net()).num_tensors == 2
    assert InputForm.of_signature(Net()).tensors((X, Y), {}) == (X, Y)
