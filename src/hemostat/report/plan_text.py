"""`plan_text`: a plan as the page that was asked for: short, with reasons, in plain words, for a manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hemostat.errors import UnknownNameError
from hemostat.report.plan_ask import ask_lines
from hemostat.report.plan_explain import explain_lines
from hemostat.report.plan_page import fit_lines, plan_lines

if TYPE_CHECKING:
    from hemostat.plan import Plan

ABOUT = ("", "why", "fit", "ask", "explain")


def plan_text(plan: Plan, about: str = "") -> str:
    """Say a plan.

    Args:
        plan: as it was made; for "fit" with its largest sizes.
        about: "" for the answer in 12 lines, "why" with every reason, "fit" for what fits, "ask" for the page that
            asks for the money (Markdown), "explain" for plain words.

    Raises:
        UnknownNameError: another word.
        FieldError: "ask" without a length or a price.
    """
    if about not in ABOUT:
        raise UnknownNameError("about", about, ABOUT)
    if about == "ask":
        lines = ask_lines(plan)
    elif about == "explain":
        lines = explain_lines(plan)
    elif about == "fit":
        lines = fit_lines(plan)
    else:
        lines = plan_lines(plan, why=about == "why")
    return "\n".join(lines)
