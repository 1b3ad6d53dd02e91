"""`hemostat report`: what a study found, how sure that is, what it cost; as text and as a page that can be sent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from hemostat.errors import FieldError

if TYPE_CHECKING:
    from hemostat.report import StudyPage
    from hemostat.tune import state

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class StudyFiles(NamedTuple):
    """A study as its folder keeps it.

    Attributes:
        folder: its own.
        state: from its journal.
        repeats: the states of its confirmations, in their order.
    """

    folder: Path
    state: state.State
    repeats: list[state.State]

    @property
    def about(self) -> dict[str, Any]:
        """What was asked, its space, and the name and unit of its objective."""
        return self.state.settings.about


@app.command()
def report(
    study: Annotated[str, typer.Argument(help="a study, or last")] = "last",
    confirm: Annotated[
        int | None, typer.Option(help="run the best three again with so many other seeds")
    ] = None,
    max_hours: Annotated[str | None, typer.Option(help="hard cap of these runs: 2, 90min")] = None,
    parallel: Annotated[int | None, typer.Option(help="runs side by side")] = None,
    optuna: Annotated[Path | None, typer.Option(help="write an SQLite file for optuna-dashboard")] = None,
    runs: Annotated[Path, typer.Option(help="folder of all runs")] = Path(".hemostat/runs"),
    plot: Annotated[
        bool, typer.Option("--plot", help="write pictures and study.html beside the journal")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    why: Annotated[bool, typer.Option("--why", help="every trial")] = False,
) -> None:
    """What did a study find, how sure is that, and what did it cost?

    Example: hemostat report digits-k3f9m --confirm 3 --plot
    """
    from hemostat.cli.tune_confirm import run_again
    from hemostat.tune import optuna_study

    found = _read(_folder(runs, study))
    if confirm is not None:
        run_again(found, runs, confirm, (max_hours, parallel))
        found = _read(found.folder)
    elif max_hours is not None or parallel is not None:
        name, value = ("max_hours", max_hours) if max_hours is not None else ("parallel", parallel)
        raise FieldError(name, value, "is for --confirm", "Add --confirm 3, or leave it out.")
    page = _page(found)
    if as_json:
        print(json.dumps(msgspec.to_builtins(page.answer), indent=1))
    else:
        print("\n".join(page.lines(why)))
    if plot:
        print(f"wrote {page.write(found.folder)}", file=sys.stderr)
    if optuna is not None:
        num_trials = optuna_study.write_optuna(optuna, found.folder.name, page.space, page.history)
        print(f"wrote {num_trials} trials: optuna-dashboard sqlite:///{optuna}", file=sys.stderr)


def _folder(runs: Path, name: str) -> Path:
    from hemostat.cli.tune_study import studies_of

    root = studies_of(runs)
    known = sorted(root.glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime)
    if not known:
        raise FieldError(
            "study", name, f"there are no studies in {root}", "Start one: hemostat tune FILE.py:CLASS"
        )
    names = [path.parent.name for path in known]
    fitting = names[-1:] if name == "last" else [other for other in names if other == name]
    fitting = fitting or [other for other in names if name in other]
    if len(fitting) != 1:
        shown = ", ".join((fitting or names)[-8:])
        rule = f"fits {len(fitting)} studies" if fitting else "is no study"
        raise FieldError("study", name, rule, f"Name one of {shown}.")
    return root / fitting[0]


def _read(folder: Path) -> StudyFiles:
    from hemostat.tune import journal, state

    first = state.State.of(journal.read_journal(folder / "journal.jsonl"))
    repeats = [state.State.of(journal.read_journal(path)) for path in sorted(folder.glob("confirm-*.jsonl"))]
    return StudyFiles(folder, first, repeats)


def _page(found: StudyFiles) -> StudyPage:
    from hemostat.report import StudyPage
    from hemostat.tune import answer, space_file

    space = space_file.space_from(found.about["space"])
    return StudyPage(
        name=found.folder.name,
        metric=found.about["metric"],
        unit=found.about["unit"],
        answer=answer(space, found.state, [each.history for each in found.repeats]),
        space=space,
        history=found.state.history,
    )
