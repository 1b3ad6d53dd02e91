"""HG004 and HG006: the learning rate of each rank is that of the schedule, and nothing else sets it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hemostat.findings import Finding, Severity
from hemostat.train.run_guards.guard import RankGuard
from hemostat.train.update import Step

if TYPE_CHECKING:
    from hemostat.train.session import Session


class RateGuard(RankGuard):
    """Compares the rate in each parameter group with the closed form of the schedule, on all ranks.

    Args:
        session: the run.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._plateau_factor = session.stopper.lr_factor

    def after_step(self, step: Step) -> Finding | None:
        """Keep the plateau's factor of this step; an evaluation may change it for the next."""
        self._plateau_factor = self._session.stopper.lr_factor
        return None

    def mine(self, step: Step) -> dict[str, Any]:
        """The rates that are due, those that are there, and one that something else had set."""
        session, updater = self._session, self._session.updater
        lr = session.recipe.schedule.lr(max(0, session.applied_steps - 1)) * self._plateau_factor
        judged = step.applied and bool(updater.rates)
        return {
            "due": [lr * ratio for ratio in updater.ratios] if judged else [],
            "used": [float(group["lr"]) for group in updater.optimizer.param_groups] if judged else [],
            "outside": list(updater.outside) if updater.outside else None,
        }

    def compare(self, said: list[Any], step: Step) -> Finding | None:
        """A finding where a rate is not the one that is due, else where something else sets it too."""
        alone = len(said) == 1
        for rank, told in enumerate(said):
            who = "" if alone else f" on rank {rank}"
            for group, (due, used) in enumerate(zip(told["due"], told["used"], strict=True)):
                if not math.isclose(due, used, rel_tol=1e-9):
                    return _wrong(
                        f"group {group} was trained with lr={used:g}{who} at step {step.number}, and the schedule "
                        f"says {due:g}.",
                        "Leave out what sets the rate inside of optimizer.step(); give lr and schedule.",
                        step,
                        said,
                    )
            if told["due"] != said[0]["due"]:
                return _wrong(
                    f"the ranks train with different rates: lr={told['due'][0]:g}{who} at step {step.number}, "
                    f"and {said[0]['due'][0]:g} on rank 0.",
                    "Give session.judge the same value on all ranks, as session.evaluate returns it.",
                    step,
                    said,
                )
        for rank, told in enumerate(said):
            if told["outside"]:
                group, found = told["outside"]
                return Finding(
                    code="HG006",
                    severity=Severity.INFO,
                    message=(
                        f"something set lr={found:g} in group {group}{'' if alone else f' on rank {rank}'} between "
                        "two steps. It had no effect, since the session sets the rate of each step."
                    ),
                    fix="Leave out the other scheduler; give schedule, warmup_steps and eta_min.",
                    where=f"before step {step.number}",
                    evidence={"said": said},
                )
        return None


def _wrong(message: str, fix: str, step: Step, said: list[Any]) -> Finding:
    return Finding(
        code="HG004",
        severity=Severity.ERROR,
        message=message,
        fix=fix,
        where=f"step {step.number}",
        evidence={"said": said},
    )
