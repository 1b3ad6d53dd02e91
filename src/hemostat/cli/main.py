"""Entry point: prints the root help from a literal table and loads one command's module on demand."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hemostat.errors import HemostatError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# name -> (module, line of help); a literal, because loading every command for its help costs over 100 ms
COMMANDS = {
    "recipe": ("hemostat.cli.recipe", "what do my one-device hyper-parameters become on N devices?"),
    "plan": ("hemostat.cli.plan", "what fits, on which layout, how fast, for how many dollars?"),
    "train": ("hemostat.cli.train", "run a task file on 1..N processes, guarded and recorded"),
    "tune": ("hemostat.cli.tune", "which hyper-parameters are better, inside a budget?"),
    "evaluate": (
        "hemostat.cli.evaluate",
        "how good is a run on validation or test data, and how sure is that?",
    ),
    "verify": ("hemostat.cli.verify", "do N processes take the steps of one? On the CPU, before paying"),
    "data": ("hemostat.cli.data", "what would make reading the data faster?"),
    "export": ("hemostat.cli.export", "take a run's model away: weights, card, ready to load"),
    "notify": ("hemostat.cli.notify", "is somebody told when a run ends? Sends a trial message"),
    "report": ("hemostat.cli.report", "what did a study find, how sure is that, what did it cost?"),
    "runs": ("hemostat.cli.runs", "which commit, data and parameters gave which result?"),
}


def root_help() -> str:
    """The text of `hemostat --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {line}" for name, (_, line) in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: hemostat COMMAND [ARGS]...",
            "",
            "Take a model from one device to many without bleeding money.",
            "",
            *lines,
            "",
            "hemostat COMMAND --help shows a command's own flags; hemostat --version the version.",
        ]
    )


def run(argv: Sequence[str]) -> int:
    """Run one command line.

    Args:
        argv: the words after `hemostat`.

    Returns:
        The exit status: 0 clean, 1 findings, 2 usage, 3 environment or run failure, 4 stopped by a guard,
        5 budget, 75 saved after a signal.
    """
    if not argv or argv[0] in ("--help", "-h", "help"):
        print(root_help())
        return 0 if argv else 2
    if argv[0] == "--version":
        from hemostat import __version__

        print(f"hemostat {__version__}")
        return 0
    try:
        if argv[0] not in COMMANDS:
            raise UnknownNameError("command", argv[0], COMMANDS)
        return _invoke(argv[0], list(argv[1:]))
    except HemostatError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status


def _invoke(name: str, args: list[str]) -> int:
    import typer

    command = typer.main.get_command(import_module(COMMANDS[name][0]).app)
    wrong_words: Any = typer.BadParameter.__base__  # click's UsageError, wherever this typer keeps its click
    try:
        status = command(args=args, prog_name=f"hemostat {name}", standalone_mode=False)
    except wrong_words as error:  # typer itself would draw a box of several lines
        message = " ".join(error.format_message().split()).rstrip(".")
        raise UsageError(f"{message}. See hemostat {name} --help.") from None
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    return status if isinstance(status, int) else 0


def main() -> None:
    """What the `hemostat` script calls."""
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader left, as in `hemostat runs | head -1`; nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
