"""Traces in, findings out: what no task of the other tests can produce on a CPU."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from hemostat.train.traces import Job, StepTrace, Trace
from hemostat.train.verify import judge


def step(number: int, **changes: Any) -> StepTrace:
    tensors = {"w": [1.0, 0.5, -0.5, 0.25, 1.0]}
    usual = StepTrace(
        samples=4 * number,
        rows=[f"{number}.{row}" for row in range(4)],
        loss_sum=8.0,
        count=4.0,
        pieces=1,
        gradients=tensors,
        gradient_digest="g",
        rates=[0.1],
        weights=tensors,
        digests=["a"],
    )
    return msgspec.structs.replace(usual, **changes)


def job(**traces: Trace) -> Job:
    usual = {name: Trace(steps=[step(1), step(2)]) for name in ("real", "plain", "accumulated")}
    halves = {"cut": Trace(steps=[step(1)]), "resumed": Trace(steps=[step(2)])}
    return Job(traces=usual | halves | traces)


def codes(*jobs: Job) -> list[str]:
    return [finding.code for finding in judge(dict(enumerate(jobs, start=1))).findings]


def test_equal_jobs_have_no_finding():
    verdict = judge({1: job(), 2: job()})
    assert verdict.findings == []
    assert verdict.table[2]["gradient"] == 0.0 and math.isnan(verdict.table[2]["metrics"])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"rows": ["2.1", "2.0", "2.2", "2.3"]}, "HV005"),
        ({"loss_sum": 8.1}, "HV001"),
        ({"loss_sum": math.nan}, "HV001"),
        ({"gradients": {}}, "HV007"),
        ({"rates": [0.2]}, "HV008"),
        ({"weights": {"w": [1.0, 0.6, -0.5, 0.25, 1.0]}}, "HV006"),
        ({"digests": ["a", "b"]}, "HV006"),
    ],
)
def test_the_first_difference_is_named(changes, code):
    other = job(plain=Trace(steps=[step(1), step(2, **changes)]))
    verdict = judge({1: job(), 2: other})
    assert [finding.code for finding in verdict.findings] == [code]
    assert verdict.findings[0].where == "2 processes, accumulation 1, step 2"


def test_another_number_of_steps_is_about_the_data():
    assert codes(job(), job(plain=Trace(steps=[step(1)]))) == ["HV005"]


def test_padding_is_no_fault_where_single_samples_are_equal():
    one, other = job(), job(plain=Trace(steps=[step(1, rows=list("abcd")), step(2)]))
    one.samples_seen = other.samples_seen = ["the digests"]
    assert codes(one, other) == []


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"rows": list("abcd")}, "the order of the data"),
        ({"loss_sum": 8.0 + 1e-12}, "buffers or the random numbers"),
        ({"gradient_digest": "h"}, "behind the gradient"),
        ({"rates": [0.1 + 1e-15]}, "the learning rate"),
        ({"digests": ["b"]}, "outside of its state_dict"),
    ],
)
def test_what_a_resume_has_lost_is_named_to_the_last_bit(changes, lost):
    (finding,) = judge({1: job(resumed=Trace(steps=[step(2, **changes)]))}).findings
    assert finding.code == "HV010" and lost in finding.message


def test_random_data_excuse_the_resume_and_nothing_else():
    broken = job(resumed=Trace())
    assert codes(broken) == ["HV010"]
    broken.random_data = "two reads differ"
    assert codes(broken) == ["HV004"]
