"""What the policy tests look at: the files that git tracks, each with its text and its syntax tree."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class File:
    """One tracked file; `path` is relative to the repository."""

    path: PurePosixPath
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @property
    def num_lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def is_source(self) -> bool:
        return self.path.suffix == ".py" and self.path.parts[:2] == ("src", "hemostat")

    @property
    def domain(self) -> str | None:
        """`recipe` for src/hemostat/recipe/scaling.py; None for the files at the root of the package."""
        return self.path.parts[2] if self.is_source and len(self.path.parts) > 3 else None


def tracked_names() -> list[str]:
    """Paths in the index that are on the disk; a file can be deleted between two commits."""
    if not (ROOT / ".git").exists():
        return []
    # the user of a container is often not the owner of the checkout
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def read(name: str) -> File:
    return File(PurePosixPath(name), (ROOT / name).read_bytes().decode("utf-8", errors="replace"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`page_name`: each Markdown page that users read, a test of its own."""
    if "page_name" in metafunc.fixturenames:
        pages = [name for name in tracked_names() if name.endswith(".md")]
        shown = [name for name in pages if "/" not in name or name.startswith("docs/")]
        metafunc.parametrize("page_name", sorted(shown))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def tracked() -> list[File]:
    names = tracked_names()
    if not names:
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    return [read(name) for name in names]


@pytest.fixture(scope="session")
def sources(tracked: list[File]) -> list[File]:
    return [file for file in tracked if file.is_source]


@pytest.fixture(scope="session")
def make_file() -> Callable[[str, str], File]:
    """Build a file that does not exist, to show that a check can fail."""
    return lambda path, text: File(PurePosixPath(path), text)
