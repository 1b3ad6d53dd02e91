import pytest
import torch

from hemostat.errors import UnknownNameError
from hemostat.train.precision import Precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_the_forward_runs_in_the_asked_precision(name, dtype):
    with Precision(name, CPU).autocast():
        assert torch.nn.Linear(4, 4)(torch.randn(2, 4)).dtype == dtype


def test_only_fp16_scales_the_loss():
    assert Precision("bf16", CPU).scaler is None
    weight = torch.nn.Parameter(torch.ones(1))
    Precision("fp16", CPU).backward((weight * 2).sum())
    assert weight.grad.item() == 2 * 65536


def test_an_unknown_precision_lists_the_known():
    with pytest.raises(UnknownNameError, match="Known: bf16, fp16, fp32"):
        Precision("fp8", CPU)
