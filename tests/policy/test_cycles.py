"""No import cycle between modules; imports inside functions do not count, they run later."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import grimp
import pytest


def late_lines(path: Path) -> set[int]:
    """Lines inside functions."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def module_file(module: str) -> Path:
    """Found without importing anything, so that a broken room does not hide a cycle in another."""
    package, *rest = module.split(".")
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent.joinpath(*rest)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def import_time_graph(package: str) -> grimp.ImportGraph:
    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    for importer in sorted(graph.modules):
        late = late_lines(module_file(importer))
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            details = graph.get_import_details(importer=importer, imported=imported)
            if details and all(detail["line_number"] in late for detail in details):
                graph.remove_import(importer=importer, imported=imported)
    return graph


def cycles(graph: grimp.ImportGraph) -> Iterator[str]:
    for importer in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            back = graph.find_shortest_chain(importer=imported, imported=importer)
            if back:
                yield " -> ".join((importer, *back))


def test_no_module_imports_itself_in_a_circle():
    faults = list(cycles(import_time_graph("hemostat")))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("name", "second", "num_cycles"),
    [("cyclic_one", "import cyclic_one.a\n", 2), ("cyclic_late", "def f():\n    import cyclic_late.a\n", 0)],
)
def test_the_check_can_fail(name, second, num_cycles, tmp_path, monkeypatch):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / name / "a.py").write_text(f"import {name}.b\n")
    (tmp_path / name / "b.py").write_text(second)
    monkeypatch.syspath_prepend(tmp_path)
    assert len(list(cycles(import_time_graph(name)))) == num_cycles
