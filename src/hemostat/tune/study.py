"""Study: decides what each free worker does next, from its journal alone, and writes it down before it is done."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from hemostat.errors import FieldError
from hemostat.tune.budget import Budget, check_least
from hemostat.tune.failures import can_retry
from hemostat.tune.journal import (
    AnyEntry,
    Began,
    Ended,
    Extended,
    Finished,
    Journal,
    Judged,
    Measured,
    Ordered,
)
from hemostat.tune.pruner import Pruner
from hemostat.tune.sampler import Sampler
from hemostat.tune.settings import Settings
from hemostat.tune.space import Space
from hemostat.tune.state import State
from hemostat.tune.trial import Configuration, History, Trial
from hemostat.tune.workers import End, Order, Progress
from hemostat.units import format_seconds, format_usd

StoppingRule = Callable[[Space, History], str | None]
ControlRule = Callable[[History, int], bool]
_PROPOSALS = 8  # of a sampler that proposes what has been tried
EXHAUSTED = "every configuration of the space has been tried"


class Study:
    """A state machine over one journal; it neither waits nor starts anything (`drive` does).

    Args:
        journal: a new one, or that of a study that is to go on.
        space: what may be chosen.
        sampler: chooses configurations.
        pruner: decides how far trials run.
        settings: of a new study; those of a study that goes on stand in its journal.
        stop: asked whenever something was learned; one sentence ends the study.
        control: tells whether the new trial of that number is never stopped.

    Raises:
        FieldError: a new study over a journal that has one, or none to go on with; a budget that is known to be
            less than one run.
    """

    def __init__(
        self,
        journal: Journal,
        space: Space,
        sampler: Sampler,
        pruner: Pruner,
        settings: Settings | None = None,
        stop: StoppingRule | None = None,
        control: ControlRule | None = None,
    ) -> None:
        name = str(journal.path.parent) if journal.path else "in memory"
        if settings is not None and journal.entries:
            raise FieldError("study", name, "is there already", "Go on with it, or choose another name.")
        if settings is not None:
            if settings.budget.s_per_unit is not None:
                check_least(
                    settings.budget, settings.budget.s_per_unit * settings.length + settings.budget.save_s
                )
            journal.append(
                Began(at_s=0.0, settings=settings, rungs=pruner.rungs(settings.length, settings.step))
            )
        if not journal.entries:
            raise FieldError("study", name, "has no journal", "Begin it first, or check its name.")
        self._journal = journal
        self._space, self._sampler, self._pruner = space, sampler, pruner
        self._stop, self._control = stop, control
        self._state = State.of(journal.entries)
        self._tried = {space.key(trial.config) for trial in self._state.history.trials}

    @property
    def history(self) -> History:
        """All trials so far."""
        return self._state.history

    @property
    def settings(self) -> Settings:
        """What was asked, with the newest budget."""
        return self._state.settings

    @property
    def clock_s(self) -> float:
        """The latest clock in the journal: where the workers' clock goes on."""
        return self._state.clock_s

    @property
    def running(self) -> list[Order]:
        """The orders under way, by trial."""
        return [self._state.running[number] for number in sorted(self._state.running)]

    @property
    def stopping(self) -> list[int]:
        """Running trials that have been told to stop; one that was to be ended at once stands there twice."""
        times = {"stop": 1, "end": 2}
        told = [(trial, times.get(verdict, 0)) for trial, (verdict, _) in self._state.verdicts.items()]
        return sorted(trial for trial, count in told for _ in range(count))

    @property
    def ending(self) -> str | None:
        """Why the study ended; None while it goes on."""
        return self._state.ending

    @property
    def busy_s(self) -> float:
        """Seconds of all stretches that have ended."""
        return self._state.spending.ended_s

    @property
    def unspent(self) -> str:
        """What is left of the budget, in words; empty without a cap."""
        return self.settings.budget.unspent(self.clock_s, self.busy_s)

    def next(self, now_s: float) -> Order | None:
        """Choose what a free worker does.

        In this order: what the machine failed and what left too early, promotions, the first round, then new
        configurations; of these the first that the budget pays for.

        Args:
            now_s: the workers' clock.

        Returns:
            None when there is nothing to do now; the study has ended when nothing is running either.
        """
        state = self._state
        if state.ending is not None:
            return None
        now_s = max(now_s, state.clock_s)
        if state.unread:
            state.unread = False
            reason = state.streak.reason(len(self.history.trials)) or state.sameness.reason or self._stopped()
            if reason is not None:
                return self._finish(reason, now_s)
        order = self._again(now_s) or self._promoted(now_s)
        return order or self._new(now_s)

    def record(self, event: Progress | End, now_s: float) -> None:
        """Take in what a worker says; what is known already, as after a crash of this process, changes nothing.

        Args:
            event: of a running trial.
            now_s: the workers' clock.
        """
        if event.trial not in self._state.running:
            return
        at_s = max(now_s, self.clock_s)
        if isinstance(event, End):
            outcome, why = event.outcome, event.why
            if outcome == "finished" and not self.history.trials[event.trial].points:
                outcome, why = "crash", why or "it ended and no value of the objective appeared"
            if outcome == "paused" and self.history.trials[event.trial].position >= self.settings.length:
                outcome = "finished"
            self._write(Ended(at_s=at_s, trial=event.trial, outcome=outcome, time_s=event.time_s, why=why))
            return
        trial = self.history.trials[event.trial]
        if trial.points and event.point.at <= trial.position:
            return
        value = event.point.value
        self._write(
            Measured(
                at_s=at_s,
                trial=event.trial,
                at=event.point.at,
                value=value
                if math.isfinite(value)
                else "nan"
                if math.isnan(value)
                else "inf"
                if value > 0
                else "-inf",
                time_s=event.point.time_s,
            )
        )

    def stops(self, now_s: float) -> list[int]:
        """Running trials to stop now: `drive` asks after every event and whenever `deadline_s` has come.

        A trial that is named a second time is to be ended at once.
        """
        state, now_s = self._state, max(now_s, self.clock_s)
        named: list[int] = []
        for order in self.running:
            trial = self.history.trials[order.trial]
            verdict, judged_at = state.verdicts.get(order.trial, ("", 0))
            if verdict in ("stop", "end"):
                continue
            if state.ending is not None:
                named.append(self._judge(order.trial, now_s, "the study has ended"))
            elif self._is_asked(trial, order) and judged_at < trial.position:
                if self._pruner.keep(self.history, trial):
                    self._write(Judged(at_s=now_s, trial=order.trial, verdict="go"))
                else:
                    named.append(self._judge(order.trial, now_s, f"stopped at {trial.position}"))
        for number in state.spending.overdue(now_s):
            if state.verdicts.get(number, ("", 0))[0] != "end":
                named.append(self._judge(number, now_s, "the budget"))
        return named

    def deadline_s(self, now_s: float) -> float | None:
        """The clock at which `stops` must be asked even if nothing happens; None without a cap."""
        return self._state.spending.deadline_s(max(now_s, self.clock_s))

    def extend(self, budget: Budget, now_s: float) -> None:
        """Give the study another budget; one that has ended goes on."""
        self._write(Extended(at_s=max(now_s, self.clock_s), budget=budget))

    def _write(self, entry: AnyEntry) -> None:
        self._journal.append(entry)
        self._state.apply(entry)

    def _finish(self, reason: str, now_s: float) -> Order | None:
        self._write(Finished(at_s=now_s, reason=reason))
        return None

    def _judge(self, trial: int, now_s: float, why: str) -> int:
        told = self._state.verdicts.get(trial, ("", 0))[0] == "stop"
        self._write(Judged(at_s=now_s, trial=trial, verdict="end" if told else "stop", why=why))
        return trial

    def _is_asked(self, trial: Trial, order: Order) -> bool:
        """Whether the pruner is asked about a trial that passes a rung without a pause."""
        if self.settings.can_pause or trial.control:
            return False
        return trial.position in self.history.rungs and order.start < trial.position < order.until

    def _stopped(self) -> str | None:
        return self._stop(self._space, self.history) if self._stop is not None else None

    def _again(self, now_s: float) -> Order | None:
        for number in sorted(self._state.due):
            old = self._state.due[number]
            trial = self.history.trials[number]
            if trial.outcome == "paused" or can_retry(trial):
                order = self._order(trial, old.start, old.until, now_s)
                if order is not None:
                    return order
        return None

    def _promoted(self, now_s: float) -> Order | None:
        trial = self._pruner.promote(self.history)
        if trial is None:
            return None
        return self._order(trial, trial.position, self._next_rung(trial), now_s)

    def _next_rung(self, trial: Trial) -> int:
        return next(at for at in self.history.rungs if at > trial.position)

    def _order(self, trial: Trial, start: int, until: int, now_s: float) -> Order | None:
        """A trial goes on, if the budget pays for it."""
        spending = self._state.spending
        if not spending.affords(spending.price_s(trial.config, until - start, trial.number), now_s):
            return None
        self._write(Ordered(at_s=now_s, trial=trial.number, start=start, until=until))
        return self._state.running[trial.number]

    def _new(self, now_s: float) -> Order | None:
        """A new trial, if the budget could carry it to its end."""
        number, spending = len(self.history.trials), self._state.spending
        if not spending.affords(spending.cheapest_s(self.settings.length), now_s):
            return self._last(self._poor(), now_s)
        proposal = self._proposal(number)
        if proposal is None:
            return self._last(EXHAUSTED, now_s)
        origin, config = proposal
        if not spending.affords(spending.price_s(config, self.settings.length), now_s):
            return self._last(self._poor(), now_s)
        control = self._control is not None and self._control(self.history, number)
        whole = control or not self.settings.can_pause
        until = self.settings.length if whole else self._pruner.first_rung(self.history, number)
        self._tried.add(self._space.key(config))
        self._write(
            Ordered(
                at_s=now_s, trial=number, start=0, until=until, config=config, origin=origin, control=control
            )
        )
        return self._state.running[number]

    def _proposal(self, number: int) -> tuple[str, Configuration] | None:
        for given in self.settings.first_round:
            if self._space.key(given.config) not in self._tried:
                return given.origin, given.config
        rng = random.Random(f"{self.settings.seed}:{number}")
        for _ in range(_PROPOSALS):
            config = self._sampler.propose(self._space, self.history, rng)
            if config is None:
                return None
            if self._space.key(config) not in self._tried:
                return self._sampler.name, config
        return None

    def _last(self, reason: str, now_s: float) -> Order | None:
        """Nothing new can start: the best trial is run to its end if none was or will be, then it is over.

        Where every configuration has been tried, all that wait at a rung go on first.
        """
        order = self._waiting(now_s) if reason == EXHAUSTED else None
        if order is not None:
            return order
        running, trials = self._state.running, self.history.trials
        if running and reason == EXHAUSTED:
            return None  # what comes in may be better than the best so far, and costs no more
        ends = any(order.until == self.settings.length for order in running.values())
        if not ends and not any(trial.outcome == "finished" for trial in trials):
            for at in reversed(self.history.rungs):
                for score, trial in self.history.at_rung(at):
                    if trial.outcome == "paused" and score < math.inf:
                        order = self._order(trial, trial.position, self.settings.length, now_s)
                        if order is not None:
                            return order
        return None if running else self._finish(reason, now_s)

    def _waiting(self, now_s: float) -> Order | None:
        """The best trial that waits at a rung goes on to the next; higher rungs come first."""
        for at in reversed(self.history.rungs[:-1]):
            for score, trial in self.history.at_rung(at):
                if trial.outcome == "paused" and trial.position == at and score < math.inf:
                    return self._order(trial, at, self._next_rung(trial), now_s)
        return None

    def _poor(self) -> str:
        """What is said when the budget ends the study."""
        run_s = self._state.spending.cheapest_s(self.settings.length)
        reason = "the budget does not pay for another run"
        if not self.history.trials:
            kept = format_seconds(self._state.spending.stop_s)
            reason = f"the budget does not pay for a first run: {kept} of it are kept for saving and leaving"
        if run_s is not None and not any(trial.outcome == "finished" for trial in self.history.trials):
            usd = run_s * self.settings.budget.usd_per_s
            price = f", {format_usd(usd)}" if usd else ""
            reason = f"the budget is less than one run takes: at least {format_seconds(run_s)}{price}"
        return f"{reason}; unspent: {self.unspent}"
