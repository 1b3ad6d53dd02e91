"""Findings: what lint, diagnose, guards, plan and recipe return instead of printing."""

from __future__ import annotations

import enum
from typing import Any

import msgspec


class Severity(enum.IntEnum):
    """How much a finding costs if ignored."""

    INFO = 0
    WARNING = 1
    ERROR = 2


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found.

    Attributes:
        code: stable code (`HL001`); it never changes meaning.
        severity: how much it costs if ignored.
        message: one plain sentence.
        fix: the setting and the value that mend it; empty when there is none.
        where: file:line, step or rank.
        evidence: the numbers behind it.
    """

    code: str
    severity: Severity
    message: str
    fix: str = ""
    where: str = ""
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)


def exit_status(findings: list[Finding]) -> int:
    """0 when nothing needs a hand, 1 when something does.

    Examples:
        >>> exit_status([Finding(code="HL001", severity=Severity.INFO, message="a note")])
        0
    """
    return int(any(finding.severity > Severity.INFO for finding in findings))
