"""Examples are imported as a user's files are: their folder stands on the path."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="session")
def examples():
    return EXAMPLES


@pytest.fixture(scope="session")
def example():
    """Import an example by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield _import


def _import(name: str):
    """A task file of the same name that another test has loaded gives way."""
    known = sys.modules.get(name)
    if known is not None and Path(known.__file__).parent != EXAMPLES:
        del sys.modules[name]
    return importlib.import_module(name)
