"""A part of work that every rank does, after which all know whether all could: none is left waiting for another."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from hemostat.blame import said
from hemostat.errors import HemostatError, TaskError
from hemostat.train.process import World


class Failure(NamedTuple):
    """Some rank could not do its part; all ranks have one then.

    Attributes:
        text: what the first of them said.
        own: the exception of this rank, or None.
    """

    text: str
    own: Exception | None


def together(world: World, work: Callable[[], Any]) -> tuple[list[Any], Failure | None]:
    """Do a part on every rank, then tell each other how it went. The part must not use collectives.

    Args:
        world: the ranks; all call this together.
        work: what it raises is kept, whatever it is: raised at once, it would leave the others in a collective.

    Returns:
        What each rank's part returned, as plain values, and the failure if there was one.

    Examples:
        >>> together(World(), lambda: {"files": 2})
        ([{'files': 2}], None)
        >>> together(World(), lambda: 1 / 0)[1].text
        'ZeroDivisionError: division by zero'
    """
    own: Exception | None = None
    result: Any = None
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - kept for the caller, which raises it on all ranks
        own = error
    text = "" if own is None else str(own) if isinstance(own, HemostatError) else said(own)
    answers = [
        json.loads(answer)
        for answer in world.gather(json.dumps([own is not None, text, result], default=str))
    ]
    first = next((Failure(text, own) for failed, text, _ in answers if failed), None)
    return [result for _, _, result in answers], first


def check_equal(world: World, name: str, value: float) -> None:
    """Refuse a metric that a rank has computed by itself: ranks that judge by it would leave at unlike steps.

    Args:
        world: the ranks; all call this together.
        name: of the metric.
        value: this rank's.

    Raises:
        TaskError: the ranks have unlike values; on all of them, with the values.

    Examples:
        >>> check_equal(World(), "val_loss", 0.5)
    """
    told = world.gather(repr(float(value)))
    if len(set(told)) > 1:
        said = ", ".join(f"{text} on rank {rank}" for rank, text in enumerate(told[:4]))
        raise TaskError(
            f"{name} is {said}{', ...' if len(told) > 4 else ''}: it must be one number over all ranks. Judge what "
            "session.evaluate returns, or sum and count that the ranks have added."
        )
