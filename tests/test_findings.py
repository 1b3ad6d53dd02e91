from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.findings import Finding, Severity, exit_status


def finding(severity: Severity) -> Finding:
    return Finding(code="HR001", severity=severity, message="The rate is scaled twice.")


@given(st.lists(st.sampled_from(Severity)))
def test_the_status_is_one_when_anything_needs_a_hand(severities):
    worst = max(severities, default=Severity.INFO)
    assert exit_status([finding(severity) for severity in severities]) == (worst >= Severity.WARNING)


def test_severities_can_be_compared_and_sorted():
    assert sorted(Severity, reverse=True) == [Severity.ERROR, Severity.WARNING, Severity.INFO]


@given(
    st.builds(
        Finding,
        code=st.from_regex(r"H[LDR]\d{3}", fullmatch=True),
        severity=st.sampled_from(Severity),
        message=st.text(min_size=1),
        fix=st.text(),
        where=st.text(),
        evidence=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)),
    )
)
def test_a_finding_survives_json(original):
    assert msgspec.json.decode(msgspec.json.encode(original), type=Finding) == original


def test_a_finding_in_json_has_the_field_names_that_scripts_read():
    written = json.loads(msgspec.json.encode(finding(Severity.WARNING)))
    assert written == {
        "code": "HR001",
        "severity": 1,
        "message": "The rate is scaled twice.",
        "fix": "",
        "where": "",
        "evidence": {},
    }


def test_a_finding_is_frozen_and_its_evidence_is_not_shared():
    first, second = finding(Severity.INFO), finding(Severity.INFO)
    assert first.evidence is not second.evidence
    with pytest.raises(AttributeError):
        first.code = "HR002"  # type: ignore[misc]
