"""The pages exist, name the same commands in both languages, link to each other, and their examples run."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#[^)\s]*)?\)")
COMMANDS = ("make ", "hemostat ", "pip ", "python ", "git ", "torchrun ", "bash ", ".ci/run")
SHELLS = {"bash", "sh", "console", "shell"}
MAX_EXAMPLE_S = 120


def blocks(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """(info string, number of the first line inside, lines) of every fenced block."""
    opened = None
    for number, line in enumerate(text.splitlines(), start=1):
        match = FENCE.match(line)
        if opened is None and match:
            opened = (match["fence"], match["info"].strip(), number + 1, [])
        elif opened and match and match["fence"].startswith(opened[0]) and not match["info"].strip():
            yield opened[1], opened[2], opened[3]
            opened = None
        elif opened:
            opened[3].append(line)


def script_of(text: str) -> str:
    """The Python blocks of a page as one script; every line keeps its number, for the traceback."""
    lines = [""] * len(text.splitlines())
    for info, start, body in blocks(text):
        if info == "python":
            lines[start - 1 : start - 1 + len(body)] = body
    return "\n".join(lines) + "\n" if any(lines) else ""


def run_page(text: str, folder, examples) -> subprocess.CompletedProcess[str]:
    """Run the blocks of a page in an empty folder that holds only `examples/`."""
    if examples.is_dir():
        shutil.copytree(examples, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "page.py").write_text(script_of(text), encoding="utf-8")
    quiet = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "page.py"],
        cwd=folder,
        env=os.environ | quiet,
        capture_output=True,
        text=True,
        timeout=MAX_EXAMPLE_S,
        check=False,
    )


def needs(text: str) -> list[str]:
    """Libraries of others that a page shows, by a comment in it: `<!-- needs: NAME NAME -->`."""
    match = re.search(r"<!-- needs: ([\w ]+) -->", text)
    return match[1].split() if match else []


def commands(text: str) -> list[str]:
    """The command lines of the shell blocks, without prompts, comments and repeated spaces."""
    found = []
    for info, _, body in blocks(text):
        if info.split(" ")[0] not in SHELLS:
            continue
        for line in body:
            words = " ".join(re.sub(r"\s#.*", "", line.strip().removeprefix("$ ")).split())
            if f"{words} ".startswith(COMMANDS):
                found.append(words)
    return found


def dead_links(file, paths: set[str]) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), start=1):
        for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            target = match["target"]
            if re.match(r"[a-z]+:", target):
                continue
            path = os.path.normpath(os.path.join(file.path.parent, target))  # noqa: PTH118 - not on the disk
            if path not in paths and not any(known.startswith(f"{path}/") for known in paths):
                yield f"{file.path}:{number}: {target} does not exist"


def domains(sources) -> list[str]:
    """Folders with a public face; `cli` has none, its commands are those of the others."""
    names = sorted({file.domain for file in sources if file.domain and file.domain != "cli"})
    return [name for name in names if getattr(importlib.import_module(f"hemostat.{name}"), "__all__", ())]


def test_both_readmes_name_the_same_commands(root):
    english = commands((root / "README.md").read_text(encoding="utf-8"))
    chinese = commands((root / "README.zh-CN.md").read_text(encoding="utf-8"))
    assert english == chinese
    assert "make demo" in english
    assert "make test" in english


def test_every_domain_has_its_page_with_an_example(root, sources):
    faults = []
    for domain in domains(sources):
        page = root / "docs" / f"{domain}.md"
        if not page.is_file():
            faults.append(f"docs/{domain}.md does not exist")
            continue
        infos = [info for info, _, _ in blocks(page.read_text(encoding="utf-8"))]
        if "python" not in infos:
            faults.append(f"docs/{domain}.md: no ```python example")
        if "python no-run" in infos:
            faults.append(f"docs/{domain}.md: every example of a domain page is run; drop no-run")
    assert not faults, "\n".join(faults)


def test_the_index_names_every_page(root, tracked):
    index = (root / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {match["target"] for match in LINK.finditer(index)}
    docs = [file.path for file in tracked if file.path.parts[0] == "docs" and file.path.suffix == ".md"]
    names = {str(path.relative_to("docs")) for path in docs} - {"README.md"}
    assert sorted(names - linked) == []


def test_no_link_is_dead(tracked):
    paths = {str(file.path) for file in tracked}
    markdown = [file for file in tracked if file.path.suffix == ".md"]
    faults = [fault for file in markdown for fault in dead_links(file, paths)]
    assert not faults, "\n".join(faults)


def rooms_of_the_map(text: str) -> dict[str, bool]:
    """Room -> whether the map calls it planned."""
    rows = re.findall(r"^\| \d+ \| `([\w.]+)/?`( \(planned\))? \|", text, re.MULTILINE)
    return {room: bool(planned) for room, planned in rows}


def test_the_map_has_one_row_per_room_and_calls_planned_what_is_not_there(root, sources):
    rooms = rooms_of_the_map((root / "docs" / "map.md").read_text(encoding="utf-8"))
    there = {file.path.parts[2] for file in sources} - {"__init__.py", "__main__.py"}
    assert {room for room, planned in rooms.items() if not planned} == there


def test_the_examples_of_the_page_run(page_name, root, tmp_path):
    text = (root / page_name).read_text(encoding="utf-8")
    if not script_of(text):
        pytest.skip("no Python example")
    absent = [name for name in needs(text) if find_spec(name) is None]
    if absent:
        pytest.skip(f"{page_name} needs {', '.join(absent)}, which the tests do not install")
    done = run_page(text, tmp_path, root / "examples")
    assert done.returncode == 0, f"{page_name} (lines as in the page):\n{done.stderr[-3000:]}"


PAGE = """# A page

```python
x = 1
```

Text.

```python no-run
raise SystemExit("never run")
```

```python
import sys
sys.exit(x - {result})
```

```bash
$ make demo   # five minutes
hemostat runs   show last
ls
```
"""


@pytest.mark.parametrize("result", [1, 3])
def test_blocks_share_names_and_a_failing_one_fails(result, tmp_path):
    done = run_page(PAGE.format(result=result), tmp_path, tmp_path / "absent")
    assert (done.returncode == 0) is (result == 1)


def test_a_traceback_names_the_line_of_the_page(tmp_path):
    done = run_page(PAGE.replace("sys.exit", "undefined"), tmp_path, tmp_path / "absent")
    assert "line 15" in done.stderr
    assert PAGE.splitlines()[14].startswith("sys.exit")


def test_a_page_names_the_libraries_that_it_needs():
    assert needs("# A page\n\n<!-- needs: torch lightning -->\n") == ["torch", "lightning"]
    assert needs(PAGE) == []


def test_commands_are_compared_without_prompt_and_comment():
    assert commands(PAGE) == ["make demo", "hemostat runs show last"]
    assert commands(PAGE) != commands(PAGE.replace("show last", "show"))


def test_a_dead_link_is_seen(make_file):
    page = make_file("docs/x.md", "[a](map.md#rooms) [b](../README.md) [c](https://example.org) `[d](e.md)`")
    assert not list(dead_links(page, {"docs/map.md", "README.md"}))
    assert len(list(dead_links(page, {"docs/map.md"}))) == 1


def test_the_map_is_read_row_by_row():
    text = "| 7 | `tune/` (planned) | x | y |\n| 1 | `units.py` | x | y |\n| 2 | units | x | y |\n"
    assert rooms_of_the_map(text) == {"tune": True, "units.py": False}
