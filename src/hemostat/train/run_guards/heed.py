"""What a finding does to a run: recorded, said, and where it is an error, the end."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from hemostat.config import to_plain
from hemostat.errors import HemostatWarning
from hemostat.findings import Finding, Severity
from hemostat.train.control import Stop

if TYPE_CHECKING:
    from hemostat.train.session import Session


def heed(session: Session, finding: Finding) -> None:
    """Act on a finding, on all ranks alike.

    Args:
        session: the run.
        finding: equal on all ranks.

    Warns:
        HemostatWarning: always; the launched command shows it once, as a note of rank 0.
    """
    session.outcome.findings.append(finding)
    session.record.header(lambda: {"verdicts": to_plain(session.outcome.findings)})  # for whoever watches
    said = f"{finding.message} {finding.fix}".rstrip()
    if finding.severity is Severity.ERROR:
        session.stop = Stop(said.rstrip("."), status=4)  # what was saved is said behind it
    warnings.warn(f"{finding.code}: {said}", HemostatWarning, stacklevel=3)
