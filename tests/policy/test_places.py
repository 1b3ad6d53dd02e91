"""No path of one machine and no host of a package registry: the repository works anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

# built in pieces, so that this file does not match itself
FOLDERS = ("root", "tmp", "home", "mnt", "media", "work", "opt", "Users", "workspace")
MACHINE_PATH = re.compile(r"(?<![\w.~*}])/(?:" + "|".join(FOLDERS) + r")/[\w.]")
REGISTRY = re.compile(
    r"(?:"
    + "|".join(
        (
            r"\bpypi" + r"\.(?:org|python)",
            "python" + "hosted",
            "download" + r"\.pytorch",
            "ana" + r"conda\.(?:org|com)",
            "registry" + r"\.npm",
            "arti" + "factory",
            r"\bnexus" + r"\.",
            "dev" + r"pi\.",
            r"index-url" + r"[= ]+\S*//",
            r"://\S+/" + r"simple\b",
        )
    )
    + ")",
    re.IGNORECASE,
)
# a test may spell a path to show that it is masked or refused
PATH_FREE = ("src", "docs", "bench", "examples", "changelog.d", ".github", ".ci")


def matches(file, pattern: re.Pattern[str], what: str) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), start=1):
        if found := pattern.search(line):
            yield f"{file.path}:{number}: {what}: {found[0]}"


def test_no_path_of_one_machine(tracked):
    places = [file for file in tracked if file.path.parts[0] in PATH_FREE or len(file.path.parts) == 1]
    faults = [fault for file in places for fault in matches(file, MACHINE_PATH, "path of one machine")]
    assert not faults, "\n".join(faults)


def test_no_host_of_a_package_registry(tracked):
    faults = [fault for file in tracked for fault in matches(file, REGISTRY, "registry")]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("pattern", "bad", "good"),
    [
        (MACHINE_PATH, "cd /ro" + "ot/x", "cd ./ro" + "ot/x"),
        (MACHINE_PATH, 'open("/t' + 'mp/x.json")', "https://example.org/home/x"),
        (MACHINE_PATH, "file:///ho" + "me/ada/x", "~/home/x, $PWD/tmp/x, path/to/tmp/x"),
        (REGISTRY, "pip install -i https://py" + "pi.org/" + "simple x", "pip install 'hemostat[plot]'"),
        (REGISTRY, "--extra-index-url" + " https://host/x", "--extra-index-url"),
    ],
)
def test_the_checks_can_fail(pattern, bad, good, make_file):
    assert list(matches(make_file("docs/x.md", f"text\n{bad}\n"), pattern, "bad"))
    assert not list(matches(make_file("docs/x.md", f"text\n{good}\n"), pattern, "bad"))
