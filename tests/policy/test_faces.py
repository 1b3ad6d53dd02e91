"""The public surface of a domain is its `__all__`: short, sorted, importable, and the only door."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator

MAX_NAMES = 12


def natural_order(name: str) -> tuple:
    """CONSTANTS, then Classes, then functions, numbers by value: the order that ruff's RUF022 keeps."""
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return kind, [(part.isdigit(), int(part) if part.isdigit() else part) for part in _pieces(name)]


def _pieces(name: str) -> list[str]:
    return [piece for piece in re.split(r"(\d+)", name) if piece]


def bad_surface(module) -> Iterator[str]:
    names = getattr(module, "__all__", None)
    if names is None:
        yield f"{module.__name__}: no __all__"
        return
    if len(names) > MAX_NAMES:
        yield f"{module.__name__}: {len(names)} public names, at most {MAX_NAMES}"
    if list(names) != sorted(names, key=natural_order):
        yield f"{module.__name__}: __all__ is not sorted"
    for name in names:
        if not hasattr(module, name):
            yield f"{module.__name__}: {name!r} stands in __all__ and cannot be imported"


def imported_modules(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, dotted name), function-level imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""


def side_doors(file, domains: Iterable[str]) -> Iterator[str]:
    """Imports of a module inside another domain; inside the own one siblings are free."""
    for line, name in imported_modules(file.tree):
        parts = name.split(".")
        if parts[0] == "hemostat" and len(parts) > 2 and parts[1] in domains and parts[1] != file.domain:
            yield f"{file.path}:{line}: imports {name}; use `from hemostat.{parts[1]} import ...`"


def relative_imports(file) -> Iterator[str]:
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield f"{file.path}:{node.lineno}: relative import; write hemostat.x.y"


def domains_of(sources) -> set[str]:
    return {file.domain for file in sources if file.domain and file.domain != "cli"}


def test_every_domain_has_a_short_sorted_importable_face(sources):
    modules = ["hemostat", *(f"hemostat.{domain}" for domain in sorted(domains_of(sources)))]
    faults = [fault for name in modules for fault in bad_surface(importlib.import_module(name))]
    assert not faults, "\n".join(faults)


def test_domains_meet_only_at_their_faces(sources):
    domains = domains_of(sources)
    faults = [fault for file in sources for fault in side_doors(file, domains)]
    assert not faults, "\n".join(faults)


def test_imports_are_absolute(sources):
    faults = [fault for file in sources for fault in relative_imports(file)]
    assert not faults, "\n".join(faults)


def test_the_checks_can_fail(make_file, tmp_path, monkeypatch):
    surface = "MAX = f = Batch = 1\n__all__ = {}\n"
    for stem, names, good in [
        ("face_long", [f"f{i}" for i in range(13)], False),
        ("face_unsorted", ["Batch", "MAX", "f"], False),
        ("face_missing", ["Batch", "g"], False),
        ("face_good", ["MAX", "Batch", "f"], True),
    ]:
        (tmp_path / f"{stem}.py").write_text(surface.format(names))
        monkeypatch.syspath_prepend(tmp_path)
        faults = list(bad_surface(importlib.import_module(stem)))
        assert (faults == []) is good, stem

    line = "def f():\n    from hemostat.recipe.scaling import scale_lr\n"
    assert list(side_doors(make_file("src/hemostat/train/step.py", line), {"recipe", "train"}))
    assert not list(side_doors(make_file("src/hemostat/recipe/x.py", line), {"recipe", "train"}))
    face = "from hemostat.recipe import scale_lr\n"
    assert not list(side_doors(make_file("src/hemostat/train/step.py", face), {"recipe", "train"}))
    assert list(relative_imports(make_file("src/hemostat/train/step.py", "from . import loop\n")))


def test_the_order_is_that_of_ruff():
    assert sorted(["scale_lr", "Base", "HL", "b10", "b9"], key=natural_order) == [
        "HL",
        "Base",
        "b9",
        "b10",
        "scale_lr",
    ]
