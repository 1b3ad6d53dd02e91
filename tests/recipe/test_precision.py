"""Precision by device."""

import pytest

from hemostat.recipe.precision import precision_for


@pytest.mark.parametrize(
    ("device", "precision"),
    [
        ("A100-80GB", "bf16"),
        ("NVIDIA A100-SXM4-80GB", "bf16"),
        ("NVIDIA H100 80GB HBM3", "bf16"),
        ("H200", "bf16"),
        ("NVIDIA L4", "bf16"),
        ("NVIDIA A10G", "bf16"),
        ("NVIDIA GeForce RTX 4090", "bf16"),
        ("AMD Instinct MI300X", "bf16"),
        ("V100", "fp16"),
        ("Tesla V100-SXM2-16GB", "fp16"),
        ("Tesla T4", "fp16"),
        ("NVIDIA GeForce RTX 2080 Ti", "fp16"),
        ("Tesla P100-PCIE-16GB", "fp32"),
        ("NVIDIA GeForce GTX 1080 Ti", "fp32"),
        ("cpu", "fp32"),
        ("Intel(R) Xeon(R) CPU", "fp32"),
        ("mps", "fp32"),
    ],
)
def test_each_generation(device, precision):
    row = precision_for(device)
    assert row.value == precision
    assert row.why
    assert row.source


def test_what_is_not_known_is_fp32_with_low_confidence():
    assert precision_for(None).value == precision_for("Cerebras").value == "fp32"
    assert precision_for("Cerebras").confidence == "low"
    assert "Cerebras" in precision_for("Cerebras").why
