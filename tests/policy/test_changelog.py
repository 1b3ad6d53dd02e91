"""Changelog fragments are named ISSUE.KIND.md or ISSUE-subject.KIND.md and hold a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = re.compile(r"\d+(-[a-z0-9-]+)?\.(added|changed|fixed|removed|measured)\.md")


def bad_fragment(file) -> Iterator[str]:
    if not NAME.fullmatch(file.path.name):
        yield f"{file.path}: call it like 2.added.md or 2-recipe.fixed.md"
    text = file.text.strip()
    if not text.endswith("."):
        yield f"{file.path}: write whole sentences"
    if text.startswith("#"):
        yield f"{file.path}: no heading; the fragment becomes an item of a list"


def test_every_fragment_can_be_collected(tracked):
    folder = [file for file in tracked if file.path.parts[0] == "changelog.d"]
    fragments = [file for file in folder if file.path.name != "README.md"]
    faults = [fault for file in fragments for fault in bad_fragment(file)]
    assert not faults, "\n".join(faults)


def test_the_check_can_fail(make_file):
    assert not list(bad_fragment(make_file("changelog.d/2-recipe.added.md", "`hemostat recipe`.\n")))
    assert list(bad_fragment(make_file("changelog.d/recipe.md", "`hemostat recipe`.\n")))
    assert list(bad_fragment(make_file("changelog.d/2.added.md", "recipe")))
    assert list(bad_fragment(make_file("changelog.d/2.added.md", "# Recipe.")))
