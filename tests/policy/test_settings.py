"""Settings structs say `kw_only=True` themselves, because msgspec does not inherit it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec

BASES = {"Config", "msgspec.Struct", "Struct"}


def positional_settings(file) -> Iterator[str]:
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.ClassDef) or not BASES & {ast.unparse(base) for base in node.bases}:
            continue
        said = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        has_fields = any(isinstance(line, ast.AnnAssign) for line in node.body)
        if has_fields and said.get("kw_only") != "True":
            yield f"{file.path}:{node.lineno}: class {node.name} is not keyword-only; add kw_only=True"


def test_every_settings_struct_is_keyword_only(sources):
    faults = [fault for file in sources for fault in positional_settings(file)]
    assert not faults, "\n".join(faults)


def test_the_check_can_fail(make_file):
    bad = "class Base(Config, frozen=True):\n    lr: float = 0.1\n"
    assert list(positional_settings(make_file("src/hemostat/x.py", bad)))
    good = bad.replace("frozen=True", "frozen=True, kw_only=True")
    assert not list(positional_settings(make_file("src/hemostat/x.py", good)))


def test_msgspec_still_does_not_inherit_it():
    """When this fails, the rule can go."""

    class Parent(msgspec.Struct, kw_only=True):
        pass

    class Child(Parent):
        lr: float

    assert Child(0.1).lr == 0.1  # type: ignore[call-arg]
