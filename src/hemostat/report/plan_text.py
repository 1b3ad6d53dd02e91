"""`plan_text`: a plan as the page that was asked for: short, with reasons, in plain words, for a manager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hemostat.errors import UnknownNameError
from hemostat.report.plan_ask import ask_lines
from hemostat.report.plan_explain import explain_lines
from hemostat.report.plan_fit import Budget, fit_lines
from hemostat.report.plan_page import plan_lines, why_lines

if TYPE_CHECKING:
    from hemostat.plan import Plan

ABOUT = ("", "why", "fit", "ask", "explain")


def plan_text(
    plan: Plan,
    about: str = "",
    task: str | None = None,
    more: Sequence[str] = (),
    *,
    usd: float | None = None,
    days: float | None = None,
) -> str:
    """Say a plan.

    Args:
        plan: as it was made; for "fit" with its largest sizes.
        about: "" for the answer in 12 lines, "why" with every reason, "fit" for what fits, "ask" for the page that
            asks for the money (Markdown), "explain" for plain words.
        task: "file.py:Class" for the command that runs the plan, or empty for one whose task is still to be written;
            None: no command.
        more: lines of the caller's, such as the recipe; they count among the 12.
        usd: for "fit", dollars that one has; None: a thousand.
        days: for "fit", days that one has; None: one.

    Raises:
        UnknownNameError: another word.
        FieldError: "ask" without a length or a price, "ask" or "explain" where nothing fits.
    """
    if about not in ABOUT:
        raise UnknownNameError("about", about, ABOUT)
    if about == "ask":
        lines = [*ask_lines(plan), *more]
    elif about == "explain":
        lines = [*explain_lines(plan), *(["", *more] if more else [])]
    elif about == "fit":
        usual = Budget()
        lines = [*fit_lines(plan, Budget(usd or usual.usd, days or usual.days)), *more]
    else:
        lines = (why_lines if about == "why" else plan_lines)(plan, task, more)
    return "\n".join(lines)
