"""File names, depth, mirrored tests: where things are, as docs/map.md says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

FORBIDDEN_NAMES = {"utils", "util", "common", "misc", "helpers", "helper", "core", "base", "lib", "shared"}
# src/hemostat/plan/parallel/fsdp.py is as deep as it gets
MAX_PARTS = 5
# the face of a folder and the entry point hold no logic of their own
WITHOUT_TEST = {"__init__.py", "__main__.py"}


def forbidden_names(file) -> Iterator[str]:
    folders = file.path.parts[2:-1] if file.is_source else ()
    for name in (*folders, file.path.stem):
        if name.strip("_").removeprefix("test_") in FORBIDDEN_NAMES:
            yield f"{file.path}: {name!r} says nothing; name the file after the thing in it"


def too_deep(file) -> Iterator[str]:
    if len(file.path.parts) > MAX_PARTS:
        yield f"{file.path}: deeper than src/hemostat/plan/parallel/fsdp.py"


def has_code(tree: ast.Module) -> bool:
    """Anything but a docstring and imports."""
    for node in tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not isinstance(node, ast.Import | ast.ImportFrom):
            return True
    return False


def mirror(path: PurePosixPath) -> PurePosixPath:
    """src/hemostat/recipe/scaling.py -> tests/recipe/test_scaling.py."""
    return PurePosixPath("tests", *path.parts[2:-1], f"test_{path.name}")


def untested(sources, paths: set[PurePosixPath]) -> Iterator[str]:
    for file in sources:
        if file.path.name in WITHOUT_TEST or not has_code(file.tree):
            continue
        if mirror(file.path) not in paths:
            yield f"{file.path}: {mirror(file.path)} does not exist"


def without_tests(file) -> Iterator[str]:
    """A test file that defines no test cannot fail."""
    names = [node.name for node in ast.walk(file.tree) if isinstance(node, ast.FunctionDef)]
    subclasses = [node for node in file.tree.body if isinstance(node, ast.ClassDef) and node.bases]
    if not subclasses and not any(name.startswith("test_") for name in names):
        yield f"{file.path}: no test in it"


def is_test_file(file) -> bool:
    return file.path.parts[0] == "tests" and file.path.name.startswith("test_")


def test_no_file_has_a_name_that_says_nothing(tracked):
    python = [file for file in tracked if file.path.suffix == ".py"]
    faults = [fault for file in python for fault in forbidden_names(file)]
    assert not faults, "\n".join(faults)


def test_no_source_file_is_deeper_than_plan_parallel_fsdp(sources):
    faults = [fault for file in sources for fault in too_deep(file)]
    assert not faults, "\n".join(faults)


def test_every_source_file_has_its_test_at_the_mirrored_path(sources, tracked):
    faults = list(untested(sources, {file.path for file in tracked}))
    assert not faults, "\n".join(faults)


def test_every_test_file_has_a_test(tracked):
    faults = [fault for file in tracked if is_test_file(file) for fault in without_tests(file)]
    assert not faults, "\n".join(faults)


def test_the_checks_can_fail(make_file):
    assert list(forbidden_names(make_file("src/hemostat/recipe/base.py", "")))
    assert list(forbidden_names(make_file("src/hemostat/_utils/x.py", "")))
    assert list(forbidden_names(make_file("tests/recipe/test_helpers.py", "")))
    assert not list(forbidden_names(make_file("src/hemostat/recipe/scaling.py", "")))

    assert list(too_deep(make_file("src/hemostat/plan/parallel/fsdp/one.py", "")))
    assert not list(too_deep(make_file("src/hemostat/plan/parallel/fsdp.py", "")))

    lonely = make_file("src/hemostat/recipe/scaling.py", '"""Scale."""\nimport math\nX = math.pi\n')
    assert list(untested([lonely], set()))
    assert not list(untested([lonely], {PurePosixPath("tests/recipe/test_scaling.py")}))
    assert not list(untested([make_file("src/hemostat/recipe/x.py", '"""Empty."""\nimport math\n')], set()))

    assert list(without_tests(make_file("tests/test_x.py", "def check():\n    pass\n")))
    assert not list(without_tests(make_file("tests/test_x.py", "def test_it():\n    pass\n")))
