"""Job: contradictions are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hemostat.config import decode
from hemostat.errors import FieldError, UnknownNameError
from hemostat.launch import Job


def values(**change):
    return {"command": ("true",), "run_id": "r", "run_dir": Path("runs/r"), **change}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"command": ()}, "command"),
        ({"num_ranks": 0}, "num_ranks"),
        ({"max_restarts": -1}, "max_restarts"),
        ({"port": 0}, "port"),
        ({"port": 70000}, "port"),
        ({"grace_s": 0}, "grace_s"),
    ],
)
def test_impossible_jobs(change, field):
    with pytest.raises(FieldError, match=rf"^{field}="):
        Job(**values(**change))


def test_unknown_fields_and_defaults():
    with pytest.raises(UnknownNameError, match="num_rank"):
        decode(Job, values(num_rank=2))
    job = decode(Job, values())
    assert (job.num_ranks, job.max_restarts, job.port, job.env) == (1, 0, None, {})
