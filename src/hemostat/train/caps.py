"""What the time and the money of a run go into, and the asker that stops it before a cap is passed."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from hemostat.errors import BudgetStop
from hemostat.recipe import caps as arithmetic
from hemostat.track import RunRecord, attempts
from hemostat.train.control import Stop
from hemostat.train.resolve import find_price
from hemostat.train.settings import TrainSettings

if TYPE_CHECKING:
    from hemostat.train.session import Session

PARTS: Final = ("evaluation", "checkpoints", "data", "start", "lost")
STEPS: Final = 32
BYTES_PER_WEIGHT: Final = 3  # with an optimizer that keeps two numbers per weight


class Spending:
    """The bill of one run on this rank, over all its attempts.

    Args:
        session: whose clock is read; where it has caps, rank 0 of it asks to stop.

    Attributes:
        caps: of the run.
        best_s: what had been spent at the best point; None before one.
        trained_before_s: training time of the attempts before a resume.
        num_val_samples: size of an evaluation, for a guess before the first one.
    """

    def __init__(self, session: Session) -> None:
        settings = session.settings
        self.caps = arithmetic.Caps.read(settings.max_hours, settings.max_usd, session.usd_per_hour)
        self.best_s: float | None = None
        self.num_val_samples = 0
        self.trained_before_s = 0.0
        self._session = session
        self._before = dict.fromkeys(PARTS, 0.0)
        self._evaluations = [0.0, 0.0]  # all together, and the longest
        self._steps: deque[float] = deque(maxlen=STEPS)
        self._looked_s: float | None = None
        self._made_s = time.perf_counter()
        self._began_s: float | None = None
        self._unseen_s = attempts.since_launch()
        if math.isfinite(self.caps.limit_s) and session.world.rank == 0:
            session.control.askers.append(self._ask)
        self._announce()

    def _announce(self) -> None:
        """Tell whoever watches when the cap is reached, in case this rank never comes to a vote again."""
        if math.isfinite(self.caps.limit_s):
            at_s = time.monotonic() + self.caps.limit_s - self.total_s()
            self._session.control.interrupt.leave_by(at_s, self.caps.name())
            if self._session.world.rank == 0 and self._session.record.path is not None:
                RunRecord(self._session.record.path).set_deadline(at_s, self.caps.name())

    def begin(self) -> None:
        """The first step follows; call it on all ranks.

        Raises:
            BudgetStop: start-up has left nothing for it; on all ranks.
        """
        self.refuse_if_spent()
        self._began_s = time.perf_counter()

    def trained_s(self) -> float:
        """Seconds from the first step to now, evaluations included, of all attempts."""
        now_s = time.perf_counter()
        return self.trained_before_s + (now_s - (self._began_s or now_s))

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Book what is done inside the block."""
        start_s = time.perf_counter()
        yield
        took_s = time.perf_counter() - start_s
        self._evaluations = [self._evaluations[0] + took_s, max(self._evaluations[1], took_s)]

    def total_s(self) -> float:
        """Seconds spent by all attempts, start-up included."""
        before_s = self.trained_before_s + self._before["start"]
        return before_s + self._unseen_s + time.perf_counter() - self._made_s

    def start_anew(self, lost_s: float) -> None:
        """No attempt before this one has saved anything, and yet they were paid for.

        Args:
            lost_s: what they have spent.
        """
        self.trained_before_s += lost_s
        self._before["lost"] += lost_s
        self._announce()

    def _start_s(self) -> float:
        return self._unseen_s + (self._began_s or time.perf_counter()) - self._made_s

    def _saving_s(self) -> float:
        return self._session.saver.blocked_s if self._session.saver else 0.0

    def refuse_if_spent(self, needed_s: float = 0.0) -> None:
        """Raise on all ranks where earlier attempts and start-up have left nothing; call it on all of them.

        Args:
            needed_s: of what comes next, before the run can end.

        Raises:
            BudgetStop: the next step would pass the cap.
        """
        if not math.isfinite(self.caps.limit_s):
            return
        spent_s = self.total_s()
        over = spent_s + needed_s + arithmetic.CLOSING_S > self.caps.limit_s
        if self._session.world.sum([float(over)])[0]:
            raise BudgetStop(
                f"{self.caps.name()}: {self.caps.cost(spent_s)} is spent before the first step of this attempt"
                f"{self.caps.leaves(needed_s)}. Give a higher cap."
            )

    def stop_before_evaluation(self) -> Stop | None:
        """Why an evaluation must not begin here, before the first step of a resumed run; call it on all ranks."""
        if not math.isfinite(self.caps.limit_s):
            return None
        pace = arithmetic.Pace(
            step_s=0.0, evaluation_s=self._evaluation_s(), checkpoint_s=self._checkpoint_s()
        )
        samples = self._session.position[1]
        needed_s = pace.needed_s(evaluates=True, saves=False, is_last=True)
        why = self.caps.why_stop(self.total_s(), needed_s, samples)
        told = self._session.world.from_rank_zero(why)  # its clock decides
        return Stop(told, BudgetStop.exit_status) if told else None

    def _ask(self, samples: int) -> Stop | None:
        session = self._session
        now_s, recipe = self.total_s(), session.recipe
        looked_s = time.perf_counter() - self._saving_s() - self._evaluations[0]
        self._steps.append(
            looked_s - ((self._began_s or looked_s) if self._looked_s is None else self._looked_s)
        )
        self._looked_s = looked_s
        number = session.position[0] + 1
        is_last = samples >= recipe.total_samples
        kept = recipe.checkpoint_every_steps
        pace = arithmetic.Pace(
            step_s=max(self._steps), evaluation_s=self._evaluation_s(), checkpoint_s=self._checkpoint_s()
        )
        needed_s = pace.needed_s(
            evaluates=is_last or number % recipe.eval_every_steps == 0,
            saves=bool(kept and number % kept == 0),
            is_last=is_last,
        )
        why = self.caps.why_stop(now_s, needed_s, samples)
        return Stop(why, BudgetStop.exit_status) if why else None

    def _evaluation_s(self) -> float:
        """The longest so far; before the first, as many samples of training take no less."""
        if self._evaluations[1] or not self.num_val_samples:
            return self._evaluations[1]
        step_s = median(self._steps) if self._steps else 0.0
        return step_s * self.num_val_samples / self._session.recipe.global_batch

    def _checkpoint_s(self) -> float:
        """The longest so far; before the first, a guess by its size."""
        session = self._session
        if session.saver is None:
            return 0.0
        size = sum(param.numel() * param.element_size() for param in session.updater.params)
        return session.saver.longest_s or arithmetic.first_save_s(BYTES_PER_WEIGHT * size)

    def parts(self) -> dict[str, float]:
        """Seconds by what they went into: training is what is left of the total after all others."""
        now = {
            "evaluation": self._evaluations[0],
            "checkpoints": self._saving_s(),
            "data": self._session.loader.waits.wait_s,
            "start": self._start_s(),
            "lost": 0.0,
        }
        found = {name: self._before[name] + now[name] for name in PARTS}
        return {"training": max(0.0, self.total_s() - sum(found.values())), **found}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        longest = {"evaluation_s": self._evaluations[1], "step_s": max(self._steps, default=0.0)}
        return {"parts": self.parts(), "best_s": self.best_s, "longest": longest}

    def restore(self, state: dict[str, Any], lost_s: float) -> None:
        """Go on from a checkpoint.

        Args:
            state: from `state`.
            lost_s: training time after the checkpoint, whose steps are taken again.
        """
        self._before = {name: float(state["parts"][name]) for name in PARTS}
        self._before["lost"] += lost_s
        self.best_s = state["best_s"]
        self._evaluations[1] = float(state["longest"]["evaluation_s"])
        if state["longest"]["step_s"]:
            self._steps.append(float(state["longest"]["step_s"]))
        self._announce()


def announce_early(settings: TrainSettings) -> None:
    """Tell the launching process when a cap is reached before there is a session: data may take for ever to open.

    Earlier attempts are not known yet; the session tells it again.
    """
    caps = arithmetic.Caps.read(settings.max_hours, settings.max_usd, find_price(settings))
    run_dir, rank = os.environ.get("HEMOSTAT_RUN_DIR"), os.environ.get("RANK", "0")
    if run_dir and rank == "0" and math.isfinite(caps.limit_s):
        at_s = float(os.environ.get(attempts.LAUNCHED) or time.monotonic()) + caps.limit_s
        RunRecord(Path(run_dir)).set_deadline(at_s, caps.name())
