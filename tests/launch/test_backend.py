"""What a backend cannot do is said before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hemostat.errors import UnknownNameError, UsageError
from hemostat.launch import BACKENDS, Job, backend
from hemostat.launch.backend import check, needs


class Small:
    """A place with one processor and no network."""

    name = "small"
    cannot = frozenset({"several ranks", "port"})

    def run(self, job):
        check(self, job)
        return 0

    def start(self, job):
        raise NotImplementedError


def job(**change):
    return Job(command=("true",), run_id="r", run_dir=Path("r"), **change)


def test_needs():
    assert needs(job()) == frozenset()
    assert needs(job(num_ranks=2, max_restarts=1, port=1)) == {"several ranks", "restarts", "port"}


def test_refusal_names_all_of_it():
    assert Small().run(job(max_restarts=3)) == 0
    with pytest.raises(UsageError, match="backend='small': cannot do port, several ranks"):
        Small().run(job(num_ranks=2, port=29500))


def test_known_backends():
    assert backend("local") is BACKENDS["local"]
    with pytest.raises(UnknownNameError, match="Known: local"):
        backend("cloud")
