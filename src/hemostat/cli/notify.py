"""`hemostat notify`: sends a trial message to everybody whom hemostat.toml and HEMOSTAT_NOTIFY name."""

from __future__ import annotations

import sys

import typer

from hemostat.cli.project import FILE, read_project
from hemostat.report import Message, Notifier

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def notify() -> None:
    """Is somebody told when a run ends? Sends a trial message now."""
    settings = read_project().notify
    notifier = Notifier(settings)
    if not notifier.urls:
        print(f"nobody is told: write [notify] urls into {FILE}, or set HEMOSTAT_NOTIFY", file=sys.stderr)
        raise typer.Exit(1)
    event = settings.events[0] if settings.events else ""
    sentence = f"This is a trial. You will be told of: {', '.join(settings.events) or 'nothing'}."
    troubles = notifier.send(Message(event=event, title="hemostat: a trial", sentence=sentence))
    for trouble in troubles:
        print(trouble, file=sys.stderr)
    print(f"{len(notifier.urls) - len(troubles)} of {len(notifier.urls)} took the message. {sentence}")
    raise typer.Exit(int(bool(troubles)))
