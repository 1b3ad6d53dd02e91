"""No Python file over 400 lines, no function over 60 lines or 7 parameters, without exceptions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7


def long_files(files) -> Iterator[str]:
    for file in files:
        if file.num_lines > MAX_FILE_LINES:
            yield f"{file.path}: {file.num_lines} lines; it has two subjects"


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_functions(file) -> Iterator[str]:
    for function in functions(file.tree):
        num_lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if num_lines > MAX_FUNCTION_LINES:
            yield f"{file.path}:{function.lineno}: {function.name} has {num_lines} lines"


def wide_functions(file) -> Iterator[str]:
    for function in functions(file.tree):
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        num_parameters = len([argument for argument in every if argument.arg not in ("self", "cls")])
        if num_parameters > MAX_PARAMETERS:
            yield f"{file.path}:{function.lineno}: {function.name} has {num_parameters} parameters"


def test_no_file_is_longer_than_400_lines(tracked):
    faults = list(long_files(file for file in tracked if file.path.suffix == ".py"))
    assert not faults, "\n".join(faults)


def test_no_function_is_longer_than_60_lines(sources):
    faults = [fault for file in sources for fault in long_functions(file)]
    assert not faults, "\n".join(faults)


def test_no_function_has_more_than_7_parameters(sources):
    faults = [fault for file in sources for fault in wide_functions(file)]
    assert not faults, "\n".join(faults)


def test_the_checks_can_fail(make_file):
    assert list(long_files([make_file("src/hemostat/x.py", "x = 1\n" * 401)]))
    assert not list(long_files([make_file("src/hemostat/x.py", "x = 1\n" * 400)]))

    body = "def f(self, a, b, c, d, e, *, g, h):\n" + "    a = 1\n"
    assert not list(long_functions(make_file("src/hemostat/x.py", body + "    a = 1\n" * 58)))
    assert list(long_functions(make_file("src/hemostat/x.py", body + "    a = 1\n" * 59)))

    assert not list(wide_functions(make_file("src/hemostat/x.py", body)))
    assert list(wide_functions(make_file("src/hemostat/x.py", body.replace("g, h", "g, h, i"))))
