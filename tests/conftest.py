"""Shared fixtures: a pool of gloo ranks per world size, and one torch thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rank_pool import Pools


@pytest.fixture(scope="session")
def ranks() -> Iterator[Pools]:
    """`ranks(3, function, *args)` runs a module-level function on 3 gloo ranks: a list of results by rank."""
    pools = Pools()
    yield pools
    pools.close()


@pytest.fixture(autouse=True)
def _outside_any_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "HEMOSTAT_RUN_DIR",
        "HEMOSTAT_RUN_ID",
        "TORCHELASTIC_RUN_ID",
    ):
        monkeypatch.delenv(name, raising=False)
