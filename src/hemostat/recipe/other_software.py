"""What other software would do with the rate and the batch: for comparison and for double scaling."""

from __future__ import annotations

import math


def framework_factor(framework: str, batch_ratio: float, optimizer: str) -> float | None:
    """Factor that a framework's own scaling puts on the rate; None where it scales something else.

    Args:
        framework: "detectron2", "mmengine", "timm", "horovod", "ludwig" or "deepspeed".
        batch_ratio: global batch over the one its configuration names.
        optimizer: name of the optimizer; timm looks for "ada" and "lamb" in it.

    Source: source code: detectron2 `auto_scale_workers`, mmengine `Runner.scale_lr`, timm `train.py`
        (`--lr-base-scale`), Horovod's documentation, Ludwig, DeepSpeed's variable batch size.

    Examples:
        >>> [framework_factor(name, 4.0, "adamw") for name in ("detectron2", "mmengine", "timm")]
        [4.0, 4.0, 2.0]
        >>> framework_factor("timm", 4.0, "lars")
        4.0
    """
    if framework in ("detectron2", "mmengine", "horovod", "ludwig", "deepspeed"):
        return batch_ratio
    if framework == "timm":
        root = any(part in optimizer.lower() for part in ("ada", "lamb"))
        return math.sqrt(batch_ratio) if root else batch_ratio
    return None
