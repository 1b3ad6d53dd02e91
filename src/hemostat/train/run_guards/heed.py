"""What a finding does to a run: recorded, said, and where it is an error, the end."""

from __future__ import annotations

import warnings
from typing import Protocol

from hemostat.config import to_plain
from hemostat.errors import HemostatWarning
from hemostat.findings import Finding, Severity
from hemostat.train.control import Stop
from hemostat.train.outcome import Outcome
from hemostat.train.record import Record


class Heeding(Protocol):
    """A run that acts on findings."""

    outcome: Outcome
    stop: Stop | None
    record: Record


def heed(run: Heeding, finding: Finding, *, says: bool = True) -> None:
    """Act on a finding, on all ranks alike.

    Args:
        run: its outcome and its stop are set.
        finding: equal on all ranks.
        says: warn; a trainer that shows the warnings of all ranks lets one of them speak.

    Warns:
        HemostatWarning: where it says so; the launched command shows it once, as a note of rank 0.
    """
    run.outcome.findings.append(finding)
    run.record.header(lambda: {"verdicts": to_plain(run.outcome.findings)})  # for whoever watches
    said = f"{finding.message} {finding.fix}".rstrip()
    if finding.severity is Severity.ERROR:
        run.stop = Stop(said.rstrip("."), status=4)  # what was saved is said behind it
    if says:
        warnings.warn(f"{finding.code}: {said}", HemostatWarning, stacklevel=3)
