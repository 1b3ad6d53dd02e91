"""The text: at most 12 lines, reasons on demand."""

import pytest

from hemostat.recipe import Base, BatchRun, Devices, convert
from hemostat.report import recipe_lines

FULL = Base(
    optimizer="sgd",
    lr=0.1,
    tuned_batch=128,
    epochs=3,
    num_train_samples=5000,
    patience=10,
    eval_every_samples=1000,
    checkpoint_every_samples=2000,
    plateau_patience=6,
    momentum=0.9,
    beta2=0.9,
    start_lr=1e-3,
    min_delta=1e-3,
    schedule="step",
    milestones=(1, 2),
    eta_min=1e-4,
    weight_decay=1e-4,
    ema=0.999,
    clip_norm=1.0,
    metric_std=0.1,
    framework="mmengine",
    reduction="sum",
    accept_bill=True,
    apply_advice=("ema", "weight_decay"),
)


@pytest.mark.parametrize(
    "devices",
    [
        Devices(),
        Devices(num_ranks=8),
        Devices(num_ranks=8, micro_batch=128, device="A100"),
        Devices(global_batch=2000),
    ],
)
@pytest.mark.parametrize("base", [FULL, Base(), Base(optimizer="sgd", lr=0.1, tuned_batch=128)])
def test_at_most_twelve_lines(base, devices):
    lines = recipe_lines(convert(base, devices))
    assert 4 <= len(lines) <= 12
    assert any("learning rate" in line for line in lines)


def test_the_option_to_hold_comes_first():
    recipe = convert(Base(optimizer="sgd", lr=0.1, tuned_batch=128), Devices(num_ranks=8, micro_batch=128))
    lines = recipe_lines(recipe)
    assert lines[1] == "A hold  batch 128 = 16 x 1 x 8 ranks: lr stays 0.1, nothing moves (high confidence)"
    assert lines[2] == "B scale batch 1024 = 128 x 1 x 8 ranks: lr 0.8 (medium confidence)  <- this recipe"
    assert "learning rate     0.1 -> 0.8" in lines
    assert "warm-up steps       0 -> 500" in lines


def test_low_confidence_prints_a_sweep_instead_of_one_number():
    lines = recipe_lines(convert(Base(lr=0.001, tuned_batch=32), Devices(global_batch=512)))
    assert any("sweep 0.001 0.002 0.004 0.008 0.016" in line for line in lines)
    assert lines[-1].startswith("Run the sweep.")


def test_a_forced_rule_prints_one_number_and_who_chose_it():
    base = Base(lr=0.001, tuned_batch=32, lr_rule="linear")
    lines = recipe_lines(convert(base, Devices(global_batch=512)))
    assert "lr 0.016 (the rule you gave)" in lines[2]
    assert any(line.startswith("note HR009: k = 16: you forced the linear rule") for line in lines)
    assert lines[-1].startswith("Not retuned")


def test_the_short_table_shows_only_what_changed():
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=128, momentum=0.9, weight_decay=1e-4, beta2=0.9)
    short = "\n".join(recipe_lines(convert(base, Devices(num_ranks=8, micro_batch=128))))
    assert "0.9" not in short.replace("0.99", "")
    assert "weight decay" not in short
    long = "\n".join(recipe_lines(convert(base, Devices(num_ranks=8, micro_batch=128)), why=True))
    assert "  momentum: 0.9 (as on one device, you set it)" in long
    assert "  weight decay: 0.0001 (as on one device, you set it)" in long
    assert "  clip norm: - (not used: gradients are not clipped)" in long


def test_why_shows_reason_source_and_confidence():
    text = "\n".join(recipe_lines(convert(FULL, Devices(num_ranks=8, micro_batch=100)), why=True))
    assert "Source: Goyal et al. 2017" in " ".join(text.split())
    for word in (
        "Confidence: medium.",
        "Advice, not applied",
        "Findings:",
        "HR001",
        "HR002",
        "short runs at",
    ):
        assert word in text
    assert max(map(len, text.splitlines())) <= 130


def test_runs_print_the_critical_batch_its_error_and_the_bill():
    runs = BatchRun.parse("128:1.2M 256:1.3M 512:1.6M")
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=128, accept_bill=True)
    text = "\n".join(recipe_lines(convert(base, Devices(num_ranks=8, micro_batch=128), runs)))
    assert "critical batch 1004" in text
    assert "rms error 1.2 %" in text
    assert "batch 1024 pays 1.79x the samples of 128" in text
