"""Double scaling: the loss or the framework scales with the batch already."""

from __future__ import annotations

from hemostat.findings import Finding, Severity
from hemostat.recipe.one_device import Base
from hemostat.recipe.optimizers import optimizer_family
from hemostat.recipe.other_software import framework_factor

# framework -> (what it does, what to write there)
FRAMEWORKS = {
    "mmengine": (
        "auto_scale_lr multiplies the rate linearly, for any optimizer, and ignores accumulation",
        "Set auto_scale_lr.enable=False and write this rate, or keep the one-device rate there.",
    ),
    "detectron2": (
        "REFERENCE_WORLD_SIZE scales batch, rate, warm-up, milestones and periods",
        "Set SOLVER.REFERENCE_WORLD_SIZE=0 and write these values, or keep the one-device config.",
    ),
    "timm": (
        "--lr-base is scaled by the global batch / 256 (square root for ada* and lamb, else linear)",
        "Pass --lr with this rate; it switches the scaling off.",
    ),
    "yolov5": (
        "the loss is multiplied by the batch and by WORLD_SIZE, so SGD is linear already; "
        "accumulation fills the batch to 64",
        "Keep lr0 for SGD; for Adam write this rate.",
    ),
    "horovod": (
        "the warm-up callback and the usual scripts multiply the rate by hvd.size()",
        "Drop that factor, or keep the one-device rate.",
    ),
    "ludwig": (
        "the rate is multiplied by the number of workers",
        "Set learning_rate_scaling=constant.",
    ),
    "accelerate": (
        "a prepared scheduler is stepped num_processes times per update",
        "Pass split_batches=True or leave the scheduler out of prepare(); patience counts faster too.",
    ),
    "deepspeed": (
        "variable batch sizes scale the rate linearly in every step",
        "Set lr_scaling_method to none.",
    ),
}
# These leave the rate alone, as their sources and documentation say.
NOT_SCALING = (
    "torch",
    "lightning",
    "transformers",
    "keras",
    "fairseq",
    "megatron",
    "nanotron",
    "torchvision",
)
_NAMES = {"mmdetection": "mmengine", "mmdet": "mmengine", "ultralytics": "yolov5", "yolo": "yolov5"}


def find_double_scaling(base: Base, lr_factor: float, batch_ratio: float) -> list[Finding]:
    """What scales already: a summed loss, a framework.

    Args:
        base: the one-device values.
        lr_factor: factor of the rate for a mean loss and a framework that scales nothing.
        batch_ratio: k.

    Returns:
        Findings HR001 (sum), HR002 (framework), HR014 (an unknown one); empty where nothing scales.

    Source: Goyal et al. 2017 (arXiv 1706.02677) section 3 (normalise by the global batch); source code of
        the frameworks named.

    Examples:
        >>> base = Base(optimizer="sgd", lr=0.1, tuned_batch=128, reduction="sum")
        >>> [finding.code for finding in find_double_scaling(base, 8.0, 8.0)]
        ['HR001']
    """
    findings = []
    if base.reduction == "sum":
        findings.append(_summed(base, lr_factor, batch_ratio))
    if base.framework is not None:
        name = base.framework.lower()
        name = _NAMES.get(name, name)
        if name not in FRAMEWORKS and name not in NOT_SCALING:
            findings.append(
                Finding(
                    code="HR014",
                    severity=Severity.WARNING,
                    message=f"It is not known whether {base.framework!r} scales the rate by itself.",
                    fix=f"Look it up there. Known: {', '.join([*FRAMEWORKS, *NOT_SCALING])}.",
                )
            )
        if name in FRAMEWORKS:
            does, fix = FRAMEWORKS[name]
            own = framework_factor(name, batch_ratio, base.optimizer)
            if own is not None and batch_ratio != 1.0:
                does += f"; it would set lr={base.lr * own:.4g} from the one-device value"
            findings.append(
                Finding(
                    code="HR002",
                    severity=Severity.WARNING if batch_ratio == 1.0 else Severity.ERROR,
                    message=f"{base.framework} may scale already: {does}.",
                    fix=fix,
                    evidence={"batch_ratio": batch_ratio, "lr_factor": lr_factor},
                )
            )
    return findings


def _summed(base: Base, lr_factor: float, batch_ratio: float) -> Finding:
    mean_lr = base.lr * base.tuned_batch * lr_factor
    if optimizer_family(base.optimizer) != "sgd":
        return Finding(
            code="HR001",
            severity=Severity.WARNING,
            message="The loss is a sum over the batch; this optimizer divides the size of the gradient out.",
            fix="Use the mean: the rate stays as printed, but clipping, eps and weight decay do change.",
        )
    return Finding(
        code="HR001",
        severity=Severity.WARNING if batch_ratio == 1.0 else Severity.ERROR,
        message=(
            f"The loss is a sum, so its gradient already grows with the batch (x{batch_ratio:.4g}): "
            "scaling the rate too would count twice."
        ),
        fix=(
            f"Use the mean with lr={mean_lr:.4g}, or keep the sum with "
            f"lr={base.lr * lr_factor / batch_ratio:.4g}."
        ),
        evidence={"lr_for_mean": mean_lr, "lr_for_sum": base.lr * lr_factor / batch_ratio},
    )
