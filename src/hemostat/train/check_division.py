"""Start-up check of a layout: the divided model must have the loss of the whole one."""

from __future__ import annotations

import math

import torch

from hemostat.errors import GuardStop, HemostatError, TaskError
from hemostat.train.parallel.arrange import Splittable
from hemostat.train.session import Session

TOLERANCE = 1e-3  # in float32 the order of sums leaves about 1e-6
ROUNDINGS = 8  # shards that are gathered in a short dtype leave a few of its roundings


def check_division(session: Session, given: Splittable) -> None:
    """Compare the loss of one sample under the divided model with that of the whole one, without dropout.

    Both are computed in float32. Only shards that are rounded before they are gathered cannot be; then a division
    that is wrong by less than `ROUNDINGS` of that dtype is not seen.

    Args:
        session: freshly opened.
        given: the model with its probe, as it was divided.

    Raises:
        GuardStop: the losses differ; on all ranks.
        TaskError: the divided model cannot compute.
    """
    expected, layout = session.parts.expected, session.mesh.layout
    if given.probe is None or expected is None:
        return
    rounded = session.precision.dtype if layout.fsdp > 1 else None
    try:
        with session.parts.context() if rounded is None else session.autocast():
            found = given.probe(session.parts.judged)
    except HemostatError:
        raise
    except Exception as error:
        raise TaskError(f"in layout {layout} the divided model raised {error}. {_fix(layout.tp)}") from error
    session.parts.end_evaluation()
    tolerance = TOLERANCE if rounded is None else ROUNDINGS * torch.finfo(rounded).eps
    apart = found is not None and abs(found - expected) > tolerance * max(abs(expected), 1.0)
    wrong, total, num = session.world.sum([float(apart), *session.mesh.counted(found or 0.0, 1.0)])
    if wrong and math.isfinite(expected):
        raise GuardStop(
            f"self-check: one sample has the loss {total / num:.6g} in layout {layout} and {expected:.6g} in the "
            f"whole model. {_fix(layout.tp)} Or skip this with --set train.self_check=false."
        )


def _fix(tp: int) -> str:
    if tp > 1:
        return (
            "A module that views its activations by a number of heads must have it as num_heads, or its matrices must "
            "be left out of tensor_plan()."
        )
    return "Let the forward depend on its inputs and parameters only, and use all of its parts on every rank."
