"""Every exception that hemostat raises on purpose, and the exit status each one stands for.

HemostatError                     3
├── UsageError                    2   what the user wrote cannot be meant
│   ├── FieldError                    one field: `field=value: rule. fix`
│   │   └── UnknownNameError          a name outside the known ones, which are listed
│   ├── TaskError                     the task file or what it returns
│   └── MissingExtraError             an optional dependency, with its pip line
├── EnvironmentFailure            3   the machine: disk, port, processes
│   ├── RecordError                   the run directory cannot be written or read
│   └── RankFailureError              a rank died or did not answer; its name
├── GuardStop                     4   a guard ended the run
├── BudgetStop                    5   a cap of hours or dollars was reached
└── Interrupted                  75   saved after a signal

HemostatWarning                       something was decided that the user may not want
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import ClassVar


class HemostatError(Exception):
    """Base of the tree; `exit_status` is what the command line returns for it."""

    exit_status: ClassVar[int] = 3


class UsageError(HemostatError):
    """What the user wrote cannot be meant."""

    exit_status = 2


class FieldError(UsageError):
    """One field has a value that breaks a rule.

    Args:
        field: dotted name of the field, as the user writes it.
        value: the offending value.
        rule: the rule, as a clause without a full stop.
        fix: what to write instead, as a sentence.

    Examples:
        >>> str(FieldError("lr", -1.0, "must be above 0", "Write the rate that works on one device."))
        'lr=-1.0: must be above 0. Write the rate that works on one device.'
    """

    def __init__(self, field: str, value: object, rule: str, fix: str) -> None:
        super().__init__(f"{field}={value!r}: {rule}. {fix}")
        self.field = field
        self.value = value


class UnknownNameError(FieldError):
    """A name that is not among the known ones; the message lists them and the nearest.

    Of a long list it shows those that are most like the name.

    Examples:
        >>> str(UnknownNameError("schedule", "cosin", ["cosine", "linear"]))
        "schedule='cosin': is not known. Did you mean 'cosine'? Known: cosine, linear."
        >>> str(UnknownNameError("size", "p4", [f"p{number}.large" for number in range(100)]))[25:78]
        "Did you mean 'p4.large'? Known: p4.large, p40.large, "
    """

    def __init__(self, field: str, value: str, known: Iterable[str]) -> None:
        names = sorted(known)
        ranked = sorted(names, key=lambda name: _unlikeness(value, name))
        like = bool(names) and _unlikeness(value, ranked[0])[0] < _UNLIKE
        hint = f"Did you mean {ranked[0]!r}? " if like else ""
        shown = ", ".join(names)
        if len(names) > _MOST_SHOWN:
            few = ranked if like else names
            shown = f"{', '.join(few[:_FEW])} and {len(names) - _FEW} more"
        super().__init__(field, value, "is not known", f"{hint}Known: {shown}.")


_MOST_SHOWN = 40
_FEW = 8
_UNLIKE = 0.4  # 1 - the cut-off of difflib


def _unlikeness(value: str, name: str) -> tuple[float, int]:
    """0 for a name that begins with what was written, or ends with it; up to 1 for one that has nothing of it."""
    mine, other = value.lower(), name.lower()
    begins = len(mine) > 1 and (other.startswith(mine) or mine in re.split(r"[-._]", other))
    return (0.0 if begins else 1.0 - difflib.SequenceMatcher(None, mine, other).ratio(), len(name))


class TaskError(UsageError):
    """The task file, or something it returned, breaks the contract of a task."""


class MissingExtraError(UsageError):
    """An optional dependency is absent.

    Examples:
        >>> str(MissingExtraError("matplotlib", extra="plot", purpose="the loss curve as PNG"))
        "the loss curve as PNG needs matplotlib. Install it: pip install 'hemostat[plot]'"
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}. Install it: pip install 'hemostat[{extra}]'")


class EnvironmentFailure(HemostatError):  # noqa: N818 - the tree reads better than the suffix
    """The machine refused: disk, port, permission, process."""


class RecordError(EnvironmentFailure):
    """The run directory cannot be written or read."""


class RankFailureError(EnvironmentFailure):
    """A rank died or did not answer in time; the message names it."""


class GuardStop(HemostatError):  # noqa: N818
    """A guard ended the run."""

    exit_status = 4


class BudgetStop(HemostatError):  # noqa: N818
    """A cap of hours or dollars was reached."""

    exit_status = 5


class Interrupted(HemostatError):  # noqa: N818
    """The run was saved after a signal and can be resumed."""

    exit_status = 75


class HemostatWarning(UserWarning):
    """Something was decided that the user may not want."""
