"""Spending: what a study has used of its budget, what its running trials will use, and when they must stop."""

from __future__ import annotations

import bisect
import math

import msgspec

from hemostat.tune.budget import Budget
from hemostat.tune.trial import Configuration, Point, Trial
from hemostat.tune.workers import Order

TOLERANCE_S = 1e-6
_QUANTILE = 0.95  # of the trials' times: of twenty stretches that start, about one is dearer than its price
_MARGIN = 1.2  # a trial may get a fifth slower than it was so far; what is slower is stopped in time
_SAVE_FACTOR = 2.0  # a save may take twice as long as any before it; what takes longer is ended without it


class _Stretch(msgspec.Struct, kw_only=True):
    order: Order
    begun_at_s: float  # the trial's own time when the stretch began
    last: Point | None = None
    asked_s: float | None = None


class Spending:
    """The account of one study; `Study` tells it what happens.

    Every running trial holds back what it will still use; what is held back and what is spent never exceed the cap.

    Args:
        budget: the caps.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.ended_s = 0.0
        self._running: dict[int, _Stretch] = {}
        self._rates: dict[tuple[str, ...], list[float]] = {}
        self._all_rates: list[float] = []
        self._rate_of: dict[int, float] = {}
        self._longest_save_s = 0.0

    def started(self, order: Order, trial: Trial) -> None:
        """A stretch begins."""
        begun_at_s = next((p.time_s for p in reversed(trial.points) if p.at <= order.start), 0.0)
        self._running[order.trial] = _Stretch(order=order, begun_at_s=begun_at_s)

    def measured(self, before: Trial, point: Point) -> None:
        """A running trial has reached a position that it had not reached before."""
        self._running[before.number].last = point
        if point.at > 0:
            self._rated(before, point.time_s / point.at)

    def asked(self, trial: int, at_s: float) -> None:
        """A running trial has been told to stop."""
        self._running[trial].asked_s = at_s

    def ended(self, trial: int, time_s: float, *, whole: bool) -> None:
        """A stretch is over.

        Args:
            trial: its number.
            time_s: what it held its worker for.
            whole: nobody told it to stop.
        """
        stretch = self._running.pop(trial)
        self.ended_s += time_s
        if whole and stretch.last is not None and stretch.last.at == stretch.order.until:
            own_s = stretch.last.time_s - stretch.begun_at_s
            self._longest_save_s = max(self._longest_save_s, time_s - own_s)

    @property
    def stop_s(self) -> float:
        """Seconds to allow for saving and leaving."""
        return max(self.budget.save_s, _SAVE_FACTOR * self._longest_save_s)

    def price_s(self, config: Configuration, span: int, trial: int = -1) -> float | None:
        """Seconds of a stretch, on the safe side; None while nothing is known.

        Args:
            config: what it trains with.
            span: units of position.
            trial: number of a trial that has run before: its own time counts, not that of the others.
        """
        if trial in self._rate_of:
            rate: float | None = _MARGIN * self._rate_of[trial]
        else:
            rates = self._rates.get(self.budget.key(config)) or self._all_rates
            rate = rates[math.ceil(_QUANTILE * len(rates)) - 1] if rates else self.budget.s_per_unit
        return None if rate is None else span * rate + self.stop_s

    def cheapest_s(self, span: int) -> float | None:
        """Seconds of a stretch of whatever configuration is fastest; None while nothing is known."""
        rate = self._all_rates[0] if self._all_rates else self.budget.s_per_unit
        return None if rate is None else span * rate + self.stop_s

    def affords(self, price_s: float | None, now_s: float) -> bool:
        """Tell whether a stretch can end inside of every cap; of one without a price, whether it can be saved."""
        need_s = self.stop_s if price_s is None else price_s
        if (
            self.budget.max_s is not None
            and now_s + need_s > self.budget.max_s - (price_s is None) * TOLERANCE_S
        ):
            return False
        return need_s <= self._free_s(now_s) - (price_s is None) * TOLERANCE_S

    def overdue(self, now_s: float) -> list[int]:
        """Running trials that must be told to stop now, or that have been told and must be ended now."""
        if not self._running or not self._capped:
            return []
        if now_s >= self._hard_s(now_s) - TOLERANCE_S:
            return sorted(self._running)
        going = [stretch for stretch in self._running.values() if stretch.asked_s is None]
        if self.budget.max_s is not None and now_s >= self.budget.max_s - self.stop_s - TOLERANCE_S:
            return sorted(stretch.order.trial for stretch in going)
        stopped = []
        free_s = self._free_s(now_s)
        while going and free_s <= TOLERANCE_S:
            late = [stretch for stretch in going if self._late_s(stretch) <= now_s + TOLERANCE_S]
            if not late and free_s >= -TOLERANCE_S:
                break
            worst = max(
                late or going, key=lambda stretch: (self._hold_s(stretch, now_s), stretch.order.trial)
            )
            going.remove(worst)
            stopped.append(worst.order.trial)
            free_s += self._hold_s(worst, now_s) - (now_s - worst.order.issued_s + self.stop_s)
        return sorted(stopped)

    def deadline_s(self, now_s: float) -> float | None:
        """The clock at which some running trial must stop if nothing happens before; None without a cap."""
        if not self._running or not self._capped:
            return None
        times = [self._hard_s(now_s)]
        if any(stretch.asked_s is None for stretch in self._running.values()):
            if self.budget.max_s is not None:
                times.append(self.budget.max_s - self.stop_s)
            times.append(self._exhausted_s(now_s))
        return max(now_s, min(times))

    @property
    def _capped(self) -> bool:
        return self.budget.max_s is not None or math.isfinite(self.budget.max_busy_s)

    def _rated(self, trial: Trial, rate: float) -> None:
        lists = (self._rates.setdefault(self.budget.key(trial.config), []), self._all_rates)
        before = self._rate_of.get(trial.number)
        for rates in lists:
            if before is not None:
                del rates[bisect.bisect_left(rates, before)]
            bisect.insort(rates, rate)
        self._rate_of[trial.number] = rate

    def _forecast_s(self, stretch: _Stretch) -> float:
        """Seconds of the whole stretch by what is known now; 0 while nothing is."""
        order, last = stretch.order, stretch.last
        done_s, at = (0.0, order.start) if last is None else (last.time_s - stretch.begun_at_s, last.at)
        price_s = self.price_s(order.config, max(0, order.until - at), order.trial)
        return 0.0 if price_s is None else done_s + price_s

    def _hold_s(self, stretch: _Stretch, now_s: float) -> float:
        """What a running stretch has used and still may."""
        gone_s = now_s - stretch.order.issued_s
        if stretch.asked_s is not None:
            return max(gone_s, stretch.asked_s - stretch.order.issued_s + self.stop_s)
        return max(gone_s + self.stop_s, self._forecast_s(stretch))

    def _late_s(self, stretch: _Stretch) -> float:
        """The clock from which on a stretch takes more than was held back for it."""
        return stretch.order.issued_s + max(0.0, self._forecast_s(stretch) - self.stop_s)

    def _free_s(self, now_s: float) -> float:
        if math.isinf(self.budget.max_busy_s):
            return math.inf
        held_s = sum(self._hold_s(stretch, now_s) for stretch in self._running.values())
        return self.budget.max_busy_s - self.ended_s - held_s

    def _hard_s(self, now_s: float) -> float:
        """The clock at which the cap itself is reached while everything runs on."""
        clock_s = math.inf if self.budget.max_s is None else self.budget.max_s
        if math.isinf(self.budget.max_busy_s):
            return clock_s
        gone_s = sum(now_s - stretch.order.issued_s for stretch in self._running.values())
        left_s = self.budget.max_busy_s - self.ended_s - gone_s
        return min(clock_s, now_s + left_s / len(self._running))

    def _exhausted_s(self, now_s: float) -> float:
        """The clock at which nothing is free any more: late stretches use it up, each at the clock's speed."""
        free_s = max(0.0, self._free_s(now_s))
        if math.isinf(free_s):
            return math.inf
        late = sorted(self._late_s(stretch) for stretch in self._running.values() if stretch.asked_s is None)
        time_s = now_s
        for num_late, start_s in enumerate(late):
            gap_s = max(0.0, start_s - time_s)
            if num_late and num_late * gap_s >= free_s:
                break
            free_s -= num_late * gap_s
            time_s += gap_s
        else:
            num_late = len(late)
        return time_s + free_s / num_late if num_late else math.inf
