"""`RunGuards`: all guards of a run, asked after each step and evaluation, with the ranks compared now and then."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hemostat.findings import Finding, Severity
from hemostat.train.run_guards.divergence import DivergenceGuard
from hemostat.train.run_guards.drift import DriftGuard
from hemostat.train.run_guards.guard import Guard, RankGuard
from hemostat.train.run_guards.overfitting import OverfittingGuard
from hemostat.train.run_guards.rate import RateGuard
from hemostat.train.run_guards.spike import SpikeGuard

if TYPE_CHECKING:
    from hemostat.train.session import Session

# drift before rate: of two that are found together, the latter is the cause and gives the reason to stop
GUARDS: Final[dict[str, Callable[[Session], Guard]]] = {
    "spike": SpikeGuard,
    "divergence": DivergenceGuard,
    "drift": DriftGuard,
    "rate": RateGuard,
    "overfitting": OverfittingGuard,
}
MOST_SAID: Final = {"HG001": 5}


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
        if session.world.num_ranks == 1:
            on = [name for name in on if name != "drift"]
        self._guards = {name: GUARDS[name](session) for name in on}
        self._every_steps = settings.compare_every_steps
        self._of_ranks: dict[str, RankGuard] = {}
        if isinstance(drift := self._guards.get("drift"), DriftGuard):
            self._of_ranks["drift"] = drift
        if isinstance(rate := self._guards.get("rate"), RateGuard):
            self._of_ranks["rate"] = rate
        self._said: dict[str, int] = {}
        self._compared_step = 0
        self.errors: dict[str, float] = {}

    def after_step(self) -> None:
        """Look at the latest step."""
        step = self._session.last
        if step is None:
            return
        for name, guard in self._guards.items():
            found = guard.after_step(step)
            if found is not None:
                self._heed(name, found)
        if step.number % self._every_steps == 0:
            self.compare()

    def after_evaluation(self, value: float) -> None:
        """Look at the monitored metric."""
        step = self._session.last
        if step is None:
            return
        error = self.errors.get(self._session.outcome.monitor)
        for name, guard in self._guards.items():
            found = guard.after_evaluation(step, value, error)
            if found is not None:
                self._heed(name, found)

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
                self._heed(name, found)

    def _heed(self, name: str, found: Finding) -> None:
        said = self._said.get(found.code, 0)
        if said >= MOST_SAID.get(found.code, 1):
            return
        self._said[found.code] = said + 1
        if found.severity > Severity.INFO:
            stops = name in self._session.settings.stop_on
            found = msgspec.structs.replace(found, severity=Severity.ERROR if stops else Severity.WARNING)
        self._session.heed(found)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return {"said": self._said, "guards": {name: guard.state() for name, guard in self._guards.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`; a run that was stopped may be stopped for the same reason again."""
        stopping = {
            finding.code for finding in self._session.outcome.findings if finding.severity is Severity.ERROR
        }
        self._said = {code: num for code, num in state["said"].items() if code not in stopping}
        for name, values in state["guards"].items():
            if name in self._guards:
                self._guards[name].restore(values)
