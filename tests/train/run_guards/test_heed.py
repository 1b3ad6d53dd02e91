"""A finding is recorded and said; an error ends the run with status 4."""

from types import SimpleNamespace

import pytest

from hemostat.errors import HemostatWarning
from hemostat.findings import Finding, Severity
from hemostat.train.control import Stop
from hemostat.train.outcome import Outcome
from hemostat.train.process import World
from hemostat.train.record import Record
from hemostat.train.run_guards import heed


@pytest.mark.parametrize("severity", list(Severity))
def test_only_an_error_stops(severity):
    session = SimpleNamespace(outcome=Outcome(), stop=None, record=Record(World(), enabled=False))
    finding = Finding(code="HG002", severity=severity, message="It is lost.", fix="Lower lr.")
    with pytest.warns(HemostatWarning, match=r"HG002: It is lost\. Lower lr\."):
        heed(session, finding)
    assert session.outcome.findings == [finding]
    if severity is Severity.ERROR:
        assert session.stop == Stop("It is lost. Lower lr", 4)
    else:
        assert session.stop is None


def test_one_rank_of_many_speaks_and_all_of_them_know(recwarn):
    run = SimpleNamespace(outcome=Outcome(), stop=None, record=Record(World(), enabled=False))
    heed(run, Finding(code="HG002", severity=Severity.ERROR, message="It is lost."), says=False)
    assert (len(recwarn), len(run.outcome.findings), run.stop.status) == (0, 1, 4)
