"""`RunGuards`: all guards of a session, asked after each step and evaluation, with the ranks compared now and then."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hemostat.findings import Severity
from hemostat.train.guards import name_samples
from hemostat.train.run_guards.divergence import DivergenceGuard
from hemostat.train.run_guards.drift import DriftGuard
from hemostat.train.run_guards.guard import Guard, RankGuard
from hemostat.train.run_guards.overfitting import OverfittingGuard
from hemostat.train.run_guards.panel import Panel
from hemostat.train.run_guards.rate import RateGuard
from hemostat.train.run_guards.spike import SpikeGuard

if TYPE_CHECKING:
    from hemostat.train.session import Session


def _name_batch(session: Session, before: int, after: int) -> str:
    return name_samples(session.source, session.loader.feed.seed, before, after)


def _spike(session: Session) -> SpikeGuard:
    return SpikeGuard(session.settings.spike_deviations, partial(_name_batch, session))


def _divergence(session: Session) -> DivergenceGuard:
    return DivergenceGuard(session.recipe.schedule.total_steps)


def _overfitting(session: Session) -> OverfittingGuard:
    return OverfittingGuard(session.outcome.monitor, session.stopper.mode)


# drift before rate: of two that are found together, the latter is the cause and gives the reason to stop
GUARDS: Final[dict[str, Callable[[Session], Guard]]] = {
    "spike": _spike,
    "divergence": _divergence,
    "drift": DriftGuard,
    "rate": RateGuard,
    "overfitting": _overfitting,
}


class RunGuards:
    """The guards that `train.guards` names.

    Args:
        session: the run; it must have its optimizer, recipe and stopper.

    Attributes:
        errors: standard error of each metric of the latest evaluation, where it is known.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        settings = session.settings
        on = [name for name in GUARDS if name in settings.guards]
        if session.mesh.layout.sizes["dp"] == 1:
            on = [name for name in on if name != "drift"]
        guards = {name: GUARDS[name](session) for name in on}
        self._panel = Panel(guards, settings.stop_on, session.heed)
        self._every_steps = settings.compare_every_steps
        self._of_ranks: dict[str, RankGuard] = {}
        if isinstance(drift := guards.get("drift"), DriftGuard):
            self._of_ranks["drift"] = drift
        if isinstance(rate := guards.get("rate"), RateGuard):
            self._of_ranks["rate"] = rate
        self._compared_step = 0
        self.errors: dict[str, float] = {}

    def after_step(self) -> None:
        """Look at the latest step."""
        step = self._session.last
        if step is None:
            return
        self._panel.after_step(step)
        if step.number % self._every_steps == 0:
            self.compare()

    def after_evaluation(self, value: float) -> None:
        """Look at the monitored metric."""
        step = self._session.last
        if step is None:
            return
        self._panel.after_evaluation(step, value, self.errors.get(self._session.outcome.monitor))

    def compare(self) -> None:
        """Compare what must be equal on all ranks; call it on all of them.

        A digest of everything travels first; only where these differ does the rest.
        """
        step = self._session.last
        if step is None or step.number == self._compared_step or not self._of_ranks:
            return
        self._compared_step = step.number
        mine = {name: guard.mine(step) for name, guard in self._of_ranks.items()}
        text, world = json.dumps(mine), self._session.world
        said = [mine]
        if len(set(world.gather(hashlib.sha256(text.encode()).hexdigest()))) > 1:
            said = [json.loads(other) for other in world.gather(text)]
        for name, guard in self._of_ranks.items():
            found = guard.compare([told[name] for told in said], step)
            if found is not None:
                self._panel.found(name, found)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return self._panel.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`; a run that was stopped may be stopped for the same reason again."""
        findings = self._session.outcome.findings
        self._panel.restore(state, {found.code for found in findings if found.severity is Severity.ERROR})
