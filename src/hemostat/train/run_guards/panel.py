"""`Panel`: several guards asked together; each verdict is said once, and some of them stop the run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from hemostat.findings import Finding, Severity
from hemostat.train.run_guards.guard import Guard
from hemostat.train.update import Step

MOST_SAID: Final = {"HG001": 5}


class Panel:
    """The guards of a run, whoever trains it.

    Args:
        guards: by name.
        stop_on: those whose findings are errors.
        heed: acts on a finding.
    """

    def __init__(
        self, guards: Mapping[str, Guard], stop_on: Collection[str], heed: Callable[[Finding], None]
    ) -> None:
        self.guards = dict(guards)
        self._stop_on = stop_on
        self._heed = heed
        self._said: dict[str, int] = {}

    def after_step(self, step: Step) -> None:
        """Look at a step."""
        for name, guard in self.guards.items():
            found = guard.after_step(step)
            if found is not None:
                self.found(name, found)

    def after_evaluation(self, step: Step, value: float, error: float | None = None) -> None:
        """Look at the monitored metric.

        Args:
            step: the latest one.
            value: the metric.
            error: its standard error; None where it is not known.
        """
        for name, guard in self.guards.items():
            found = guard.after_evaluation(step, value, error)
            if found is not None:
                self.found(name, found)

    def found(self, name: str, finding: Finding) -> None:
        """Act on what a guard found, unless it has been said often enough."""
        said = self._said.get(finding.code, 0)
        if said >= MOST_SAID.get(finding.code, 1):
            return
        self._said[finding.code] = said + 1
        if finding.severity > Severity.INFO:
            severity = Severity.ERROR if name in self._stop_on else Severity.WARNING
            finding = msgspec.structs.replace(finding, severity=severity)
        self._heed(finding)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return {"said": self._said, "guards": {name: guard.state() for name, guard in self.guards.items()}}

    def restore(self, state: dict[str, Any], again: Collection[str]) -> None:
        """Go on from `state()`.

        Args:
            state: of the run before.
            again: codes that may be said once more.
        """
        self._said = {code: num for code, num in state["said"].items() if code not in again}
        for name, values in state["guards"].items():
            if name in self.guards:
                self.guards[name].restore(values)
