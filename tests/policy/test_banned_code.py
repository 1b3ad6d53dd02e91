"""`assert`, blanket `except` and bare `batch_size` stay out of the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

BLANKET = {"Exception", "BaseException"}


def asserts(file) -> Iterator[str]:
    """`python -O` removes them, and their message is not for users."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Assert):
            yield f"{file.path}:{node.lineno}: assert; raise an error of hemostat.errors"


def blanket_excepts(file) -> Iterator[str]:
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        names = {ast.unparse(kind).removeprefix("builtins.") if kind else "" for kind in caught}
        if names & (BLANKET | {""}):
            yield f"{file.path}:{node.lineno}: catches everything; name what can be mended here"


def bare_batch_sizes(file) -> Iterator[str]:
    """A field or parameter of that name could mean the micro batch or the global batch."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.arg) and node.arg == "batch_size":
            yield f"{file.path}:{node.lineno}: batch_size; say micro_batch or global_batch"
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "batch_size":
            yield f"{file.path}:{node.lineno}: batch_size; say micro_batch or global_batch"


CHECKS = [asserts, blanket_excepts, bare_batch_sizes]


@pytest.mark.parametrize("check", CHECKS)
def test_no_source_file_breaks_the_rule(check, sources):
    faults = [fault for file in sources for fault in check(file)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("check", "bad", "good"),
    [
        (asserts, "assert x > 0\n", "if x <= 0:\n    raise ValueError(x)\n"),
        (blanket_excepts, "try:\n    f()\nexcept:\n    pass\n", "try:\n    f()\nexcept OSError:\n    pass\n"),
        (blanket_excepts, "try:\n    f()\nexcept (OSError, Exception):\n    pass\n", "f()\n"),
        (blanket_excepts, "try:\n    f()\nexcept BaseException as e:\n    pass\n", "f()\n"),
        (bare_batch_sizes, "def f(batch_size): ...\n", "def f(micro_batch): ...\n"),
        (bare_batch_sizes, "class C:\n    batch_size: int = 1\n", "class C:\n    global_batch: int = 1\n"),
    ],
)
def test_the_checks_can_fail(check, bad, good, make_file):
    assert list(check(make_file("src/hemostat/x.py", bad)))
    assert not list(check(make_file("src/hemostat/x.py", good)))
