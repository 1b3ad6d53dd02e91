"""`assert`, blanket `except` and bare `batch_size` stay out of the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

BLANKET = {"Exception", "BaseException"}
# where an exception leaves its thread or its process; each has one handler, and nothing is lost there
BOUNDARIES = {
    "src/hemostat/data/prefetch.py": "the read-ahead thread hands it to the consumer, which raises it",
    "src/hemostat/data/worker.py": "a worker process sends it to its parent, which raises it",
    "src/hemostat/train/data_watch.py": "the thread that hashes the data writes it into the run as a note",
    "src/hemostat/train/together.py": "each rank tells the others of it, and then all raise",
    "src/hemostat/train/rank.py": "a rank writes it into its exit file and ends with the status",
}


def asserts(file) -> Iterator[str]:
    """`python -O` removes them, and their message is not for users."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Assert):
            yield f"{file.path}:{node.lineno}: assert; raise an error of hemostat.errors"


def blanket_excepts(file) -> Iterator[str]:
    """What a user's code raises may be caught to be raised again with its place, never to be swallowed."""
    if str(file.path) in BOUNDARIES:
        return
    enders = {node.name for node in ast.walk(file.tree) if never_returns(node)}
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        names = {ast.unparse(kind).removeprefix("builtins.") if kind else "" for kind in caught}
        if "" in names or (names & BLANKET and not raises_at_the_end(node, enders)):
            yield f"{file.path}:{node.lineno}: catches everything; name what can be mended here, or raise"


def never_returns(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.FunctionDef) and bool(node.returns) and "NoReturn" in ast.unparse(node.returns)
    )


def raises_at_the_end(handler: ast.ExceptHandler, enders: set[str]) -> bool:
    last = handler.body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in enders
    return isinstance(last, ast.Raise)


def bare_batch_sizes(file) -> Iterator[str]:
    """A field or parameter of that name could mean the micro batch or the global batch."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.arg) and node.arg == "batch_size":
            yield f"{file.path}:{node.lineno}: batch_size; say micro_batch or global_batch"
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "batch_size":
            yield f"{file.path}:{node.lineno}: batch_size; say micro_batch or global_batch"


TRY = "try:\n    f()\n"
CHECKS = [asserts, blanket_excepts, bare_batch_sizes]


@pytest.mark.parametrize("check", CHECKS)
def test_no_source_file_breaks_the_rule(check, sources):
    faults = [fault for file in sources for fault in check(file)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("check", "bad", "good"),
    [
        (asserts, "assert x > 0\n", "if x <= 0:\n    raise ValueError(x)\n"),
        (blanket_excepts, f"{TRY}except:\n    raise\n", f"{TRY}except OSError:\n    pass\n"),
        (blanket_excepts, f"{TRY}except (OSError, Exception):\n    pass\n", "f()\n"),
        (
            blanket_excepts,
            f"{TRY}except BaseException as e:\n    log(e)\n",
            f"{TRY}except Exception:\n    raise\n",
        ),
        (
            blanket_excepts,
            f"{TRY}except Exception as e:\n    end(e)\n",
            f"def end(e) -> NoReturn: ...\n{TRY}except Exception as e:\n    end(e)\n",
        ),
        (bare_batch_sizes, "def f(batch_size): ...\n", "def f(micro_batch): ...\n"),
        (bare_batch_sizes, "class C:\n    batch_size: int = 1\n", "class C:\n    global_batch: int = 1\n"),
    ],
)
def test_the_checks_can_fail(check, bad, good, make_file):
    assert list(check(make_file("src/hemostat/x.py", bad)))
    assert not list(check(make_file("src/hemostat/x.py", good)))


def test_a_boundary_has_exactly_one_blanket_handler(sources):
    files = {str(file.path): file for file in sources}
    assert set(BOUNDARIES) <= set(files), "a boundary that is gone leaves the table"
    for name in BOUNDARIES:
        found = [node for node in ast.walk(files[name].tree) if isinstance(node, ast.ExceptHandler)]
        blanket = [node for node in found if node.type and ast.unparse(node.type) in BLANKET]
        assert len(blanket) == 1, name
