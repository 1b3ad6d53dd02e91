"""No Python file over 400 lines, no function over 60 lines or 7 parameters, without exceptions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7
MAX_OWN_FLAGS = 8
SHARED_FLAGS = {"config", "set", "json", "plot", "lang", "why", "yes"} | {
    "global_batch",  # these three mean the same in recipe, train and plan
    "layout",
    "max_usd",
}


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


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument for argument in every if argument.arg not in ("self", "cls")]


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """`@app.command()`: its parameters are flags that a user types by name."""
    return any(ast.unparse(decorator).startswith("app.command(") for decorator in function.decorator_list)


def wide_functions(file) -> Iterator[str]:
    for function in functions(file.tree):
        num_parameters = len(parameters(function))
        if num_parameters > MAX_PARAMETERS and not (file.domain == "cli" and is_command(function)):
            yield f"{file.path}:{function.lineno}: {function.name} has {num_parameters} parameters"


def wide_commands(file) -> Iterator[str]:
    """At most 8 flags of its own; arguments and the shared flags do not count."""
    for function in functions(file.tree):
        if file.domain != "cli" or not is_command(function):
            continue
        named = [arg for arg in parameters(function) if arg.arg.strip("_") not in SHARED_FLAGS]
        flags = [arg for arg in named if arg.annotation and "Argument(" not in ast.unparse(arg.annotation)]
        if len(flags) > MAX_OWN_FLAGS:
            yield f"{file.path}:{function.lineno}: {function.name} has {len(flags)} flags of its own"


def test_no_file_is_longer_than_400_lines(tracked):
    faults = list(long_files(file for file in tracked if file.path.suffix == ".py"))
    assert not faults, "\n".join(faults)


def test_no_function_is_longer_than_60_lines(sources):
    faults = [fault for file in sources for fault in long_functions(file)]
    assert not faults, "\n".join(faults)


def test_no_function_has_more_than_7_parameters(sources):
    faults = [fault for file in sources for fault in wide_functions(file)]
    assert not faults, "\n".join(faults)


def test_no_command_has_more_than_8_flags_of_its_own(sources):
    faults = [fault for file in sources for fault in wide_commands(file)]
    assert not faults, "\n".join(faults)


def test_the_checks_can_fail(make_file):
    assert list(long_files([make_file("src/hemostat/x.py", "x = 1\n" * 401)]))
    assert not list(long_files([make_file("src/hemostat/x.py", "x = 1\n" * 400)]))

    body = "def f(self, a, b, c, d, e, *, g, h):\n" + "    a = 1\n"
    assert not list(long_functions(make_file("src/hemostat/x.py", body + "    a = 1\n" * 58)))
    assert list(long_functions(make_file("src/hemostat/x.py", body + "    a = 1\n" * 59)))

    assert not list(wide_functions(make_file("src/hemostat/x.py", body)))
    assert list(wide_functions(make_file("src/hemostat/x.py", body.replace("g, h", "g, h, i"))))

    shared = ", ".join(f"{name}_: int" for name in sorted(SHARED_FLAGS))
    command = "@app.command()\ndef f(task: Annotated[str, typer.Argument()], {}, {}): ...\n"
    own = [f"flag{number}: int" for number in range(9)]
    assert not list(
        wide_commands(make_file("src/hemostat/cli/x.py", command.format(shared, ", ".join(own[:8]))))
    )
    too_many = make_file("src/hemostat/cli/x.py", command.format(shared, ", ".join(own)))
    assert list(wide_commands(too_many))
    assert not list(wide_functions(too_many))
    assert list(wide_functions(make_file("src/hemostat/x.py", too_many.text)))
