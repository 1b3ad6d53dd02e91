"""Write the benchmark tables of the docs from bench/results/*.json; `--check` only says which are stale.

A table stands between `<!-- bench:NAME -->` and `<!-- /bench -->`, NAME being the file without `.json`.
`<!-- bench:NAME one two -->` shows only those figures, in that order.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"(?P<open><!-- bench:(?P<name>[\w-]+)(?P<only>(?: [\w.-]+)*) -->\n)"
    r"(?P<body>.*?)(?P<close><!-- /bench -->)",
    re.DOTALL,
)
WORDS = {
    "en": {
        "head": ("figure", "value", "bar", "meets", "note"),
        "meets": {True: "yes", False: "**no**", None: ""},
        "foot": "Measured {date} at {commit} on {machine}.",
    },
    "zh": {
        "head": ("指标", "数值", "门槛", "达标", "说明"),
        "meets": {True: "是", False: "**否**", None: ""},
        "foot": "测于 {date}，提交 {commit}，机器：{machine}。",
    },
}


class StaleError(Exception):
    """A marker that names no result, or no figure of it."""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def number(value: Any) -> str:
    """Five significant digits; text and whole numbers as they are."""
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def table(record: dict[str, Any], only: list[str], lang: str) -> str:
    """One Markdown table and the line that says when and where it was measured."""
    words: dict[str, Any] = WORDS[lang]
    by_name = {figure["name"]: figure for figure in record["figures"]}
    missing = [name for name in only if name not in by_name]
    if missing:
        raise StaleError(f"no figure {', '.join(missing)}; there are {', '.join(by_name)}")
    lines = ["| " + " | ".join(words["head"]) + " |", "|---|---|---|---|---|"]
    for name in only or by_name:
        figure = by_name[name]
        cells = (
            f"`{name}`",
            f"{number(figure['value'])} {figure['unit']}".strip(),
            number(figure["bar"]),
            words["meets"][figure["meets"]],
            str(figure["note"]).replace("|", "\\|"),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", words["foot"].format(**record), ""])


def render(text: str, results: dict[str, dict[str, Any]], lang: str = "en") -> str:
    """The page with every marked table written anew.

    Raises:
        StaleError: a marker names no result or no figure.
    """

    def replace(match: re.Match[str]) -> str:
        if match["name"] not in results:
            known = ", ".join(sorted(results)) or "none yet"
            raise StaleError(f"bench:{match['name']}: no such result; there are {known}")
        body = table(results[match["name"]], match["only"].split(), lang)
        return f"{match['open']}{body}{match['close']}"

    return BLOCK.sub(replace, text)


def load_results(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def main(root: Path, check: bool) -> int:
    """Write or check all pages; 1 when `check` finds a stale one or a marker is wrong."""
    results = load_results(root / "bench" / "results")
    status = 0
    for page in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")]):
        text = page.read_text(encoding="utf-8")
        try:
            new = render(text, results, "zh" if page.name.endswith(".zh-CN.md") else "en")
        except StaleError as error:
            say(f"{page.relative_to(root)}: {error}")
            status = 1
            continue
        if new != text and check:
            say(f"{page.relative_to(root)}: stale; run `make docs`")
            status = 1
        elif new != text:
            page.write_text(new, encoding="utf-8")
            say(f"{page.relative_to(root)}: written")
    return status


if __name__ == "__main__":
    sys.exit(main(ROOT, check="--check" in sys.argv[1:]))
