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


def _tracked() -> list[File]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = []
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():  # a file can be tracked and deleted, between two commits
            text = (ROOT / name).read_bytes().decode("utf-8", errors="replace")
            files.append(File(PurePosixPath(name), text))
    return files


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def tracked() -> list[File]:
    return _tracked()


@pytest.fixture(scope="session")
def sources(tracked: list[File]) -> list[File]:
    return [file for file in tracked if file.is_source]


@pytest.fixture(scope="session")
def pages(tracked: list[File]) -> list[File]:
    """The Markdown files that users read."""
    folders = (".", "docs", "changelog.d")
    return [file for file in tracked if file.path.suffix == ".md" and str(file.path.parent) in folders]


@pytest.fixture(scope="session")
def make_file() -> Callable[[str, str], File]:
    """Build a file that does not exist, to show that a check can fail."""
    return lambda path, text: File(PurePosixPath(path), text)
