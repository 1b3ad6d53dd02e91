"""hemostat.toml in the project folder: its budget, and who is told."""

from __future__ import annotations

from pathlib import Path

from hemostat.config import Config, decode, read_toml
from hemostat.recipe import budget as arithmetic
from hemostat.report import NotifySettings

FILE = Path("hemostat.toml")


class Project(Config, frozen=True, kw_only=True):
    """What holds for all runs of a project.

    Attributes:
        budget: what they may spend together.
        notify: who is told.
    """

    budget: arithmetic.ProjectBudget = arithmetic.ProjectBudget()
    notify: NotifySettings = NotifySettings()


def read_project(folder: Path | None = None) -> Project:
    """Read hemostat.toml of a folder, by default the current one; without the file nothing is set.

    Raises:
        FieldError: the file cannot be meant; an address for messages is not shown.
    """
    path = (folder or Path()) / FILE
    if not path.is_file():
        return Project()
    values = read_toml(path)
    if "notify" in values:
        NotifySettings.check(values["notify"])
    return decode(Project, values, prefix=f"{FILE}.")
