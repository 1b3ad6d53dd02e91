"""Every module says in one sentence whether to open it; every public name is documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator

import pytest


def module_without_sentence(file) -> Iterator[str]:
    """The first paragraph is one sentence; what follows (a table, a tree) is free."""
    text = ast.get_docstring(file.tree)
    if text is None:
        yield f"{file.path}: no module docstring"
        return
    first = " ".join(text.split("\n\n")[0].split())
    if not first.endswith((".", ":")):
        yield f"{file.path}: the first paragraph of the docstring does not end with a full stop"
    if ". " in first.replace("e.g. ", "").replace("i.e. ", ""):
        yield f"{file.path}: the first paragraph of the docstring is more than one sentence"


def undocumented(module) -> Iterator[str]:
    """Functions and classes of `__all__` without a docstring of their own."""
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        text = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
        generated = f"{name}("  # dataclass writes the signature where there is no docstring
        if not text or text.startswith(generated):
            yield f"{module.__name__}.{name}: no docstring"


def raises_without_section(file) -> Iterator[str]:
    """A documented public function that raises says so; a command's docstring is its help text."""
    if file.domain == "cli":
        return
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        text = ast.get_docstring(node)
        raised = {name for child in escaping(node) if (name := raised_name(child))}
        if text and raised and "Raises:" not in text:
            names = ", ".join(sorted(raised))
            yield f"{file.path}:{node.lineno}: {node.name} raises {names} and has no Raises section"


def escaping(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes whose `raise` leaves the function: not in a nested function, not under a handler."""
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.Try) and node.handlers and name == "body":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.FunctionDef | ast.Lambda):
                yield child
                yield from escaping(child)


def formulas_without_source(file) -> Iterator[str]:
    """A public function of recipe or plan that computes a number says where the formula comes from."""
    for node in file.tree.body if file.domain in ("recipe", "plan") else ():
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.returns is None:
            continue
        operators = [child.op for child in ast.walk(node) if isinstance(child, ast.BinOp)]
        computes = any(isinstance(operator, ast.Mult | ast.Div | ast.Pow) for operator in operators)
        gives_number = {"int", "float"} & set(re.findall(r"\w+", ast.unparse(node.returns)))
        if computes and gives_number and "Source:" not in (ast.get_docstring(node) or ""):
            yield f"{file.path}:{node.lineno}: {node.name} has no `Source:` (paper, vendor page, script)"


def raised_name(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
        return None
    name = ast.unparse(node.exc.func)
    return name if name.endswith(("Error", "Failure")) else None


def faces(sources) -> list[str]:
    """`hemostat` and its folders, as module names."""
    faces = [file for file in sources if file.path.name == "__init__.py" and len(file.path.parts) <= 4]
    return [".".join(file.path.parts[1:-1]) for file in faces]


def test_every_module_says_in_one_sentence_whether_to_open_it(sources):
    faults = [fault for file in sources for fault in module_without_sentence(file)]
    assert not faults, "\n".join(faults)


def test_every_public_name_has_a_docstring(sources):
    faults = [fault for face in faces(sources) for fault in undocumented(importlib.import_module(face))]
    assert not faults, "\n".join(faults)


def test_every_public_function_that_raises_says_so(sources):
    faults = [fault for file in sources for fault in raises_without_section(file)]
    assert not faults, "\n".join(faults)


def test_every_formula_has_a_source(sources):
    faults = [fault for file in sources for fault in formulas_without_source(file)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "bad", ["import math\n", '"""No full stop"""\n', '"""One sentence. Two sentences."""\n']
)
def test_the_module_check_can_fail(bad, make_file):
    assert list(module_without_sentence(make_file("src/hemostat/x.py", bad)))
    good = '"""One sentence that\nwraps.\n\nFree text. More of it\n"""\n'
    assert not list(module_without_sentence(make_file("src/hemostat/x.py", good)))


def test_the_checks_of_names_can_fail(make_file, tmp_path, monkeypatch):
    (tmp_path / "undocumented_face.py").write_text(
        "import dataclasses\n__all__ = ['f', 'C', 'X', 'g']\ndef f(): ...\n"
        "@dataclasses.dataclass\nclass C:\n    a: int\n"
        "X = 3\ndef g():\n    'Does it.'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    faults = list(undocumented(importlib.import_module("undocumented_face")))
    assert [fault.split(":")[0] for fault in faults] == ["undocumented_face.f", "undocumented_face.C"]

    silent = 'def f(x):\n    """Halve."""\n    raise FieldError("x", x, "is odd", "Double it.")\n'
    assert list(raises_without_section(make_file("src/hemostat/x.py", silent)))
    assert not list(raises_without_section(make_file("src/hemostat/cli/x.py", silent)))
    caught = 'def f():\n    "Try."\n    try:\n        raise OSError("x")\n    except OSError:\n        pass\n'
    assert not list(raises_without_section(make_file("src/hemostat/x.py", caught)))
    spoken = silent.replace("Halve.", "Halve.\n\n    Raises:\n        FieldError: odd.\n    ")
    assert not list(raises_without_section(make_file("src/hemostat/x.py", spoken)))


def test_the_check_of_sources_can_fail(make_file):
    formula = 'def scale(lr, k) -> float:\n    """Scale."""\n    return lr * k\n'
    assert list(formulas_without_source(make_file("src/hemostat/recipe/x.py", formula)))
    assert not list(formulas_without_source(make_file("src/hemostat/train/x.py", formula)))
    sourced = formula.replace("Scale.", "Scale.\n\n    Source: Goyal et al. 2017, section 2.1.\n    ")
    assert not list(formulas_without_source(make_file("src/hemostat/recipe/x.py", sourced)))
    assert not list(
        formulas_without_source(make_file("src/hemostat/plan/x.py", formula.replace("float", "str")))
    )
