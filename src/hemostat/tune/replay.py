"""ReplayWorkers: recorded curves on a virtual clock in place of devices, for benches, reports and tests."""

from __future__ import annotations

import bisect
import math
import random
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from hemostat.tune.trial import Configuration, Outcome, Point
from hemostat.tune.workers import End, Order, Progress


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did.

    Attributes:
        points: its evaluations, in the order of their positions; the first that is no finite number ends it as "nan".
        outcome: how it ended after the last point.
        why: one sentence about a failure.
        end_s: its own seconds when it ended; None where that was at its last point.
    """

    points: Sequence[Point]
    outcome: Outcome = "finished"
    why: str = ""
    end_s: float | None = None


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How a replay's clock differs from the recorded seconds.

    Attributes:
        save_s: seconds to save and to leave.
        noise: standard deviation of the logarithm of the time between two evaluations, drawn anew for each.
        seed: of the noise.
    """

    save_s: float = 0.0
    noise: float = 0.0
    seed: int = 0


class ReplayWorkers:
    """Workers that know beforehand what every configuration does.

    Args:
        find: the recording of a configuration.
        num_workers: how many trials run side by side.
        can_pause: a trial can leave at a rung and go on later.
        pace: what saving costs, and noise.
        now_s: where the clock begins; `Study.clock_s` of a study that is resumed.

    Examples:
        >>> points = [Point(at=1, value=0.5, time_s=10.0), Point(at=2, value=0.4, time_s=20.0)]
        >>> workers = ReplayWorkers(lambda config: Recording(points=points), num_workers=1)
        >>> workers.start(Order(trial=0, config={}, start=0, until=1, seed=0))
        >>> workers.wait(None).point.value, workers.wait(None).outcome, workers.now_s()
        (0.5, 'paused', 10.0)
    """

    def __init__(
        self,
        find: Callable[[Configuration], Recording],
        num_workers: int = 5,
        *,
        can_pause: bool = True,
        pace: Pace | None = None,
        now_s: float = 0.0,
    ) -> None:
        self.num_workers = num_workers
        self.can_pause = can_pause
        self._find = find
        self._pace = pace or Pace()
        self._now_s = now_s
        self._running: dict[int, tuple[Order, deque[tuple[float, Progress | End]]]] = {}
        self._asked: set[int] = set()

    def now_s(self) -> float:
        """The virtual clock."""
        return self._now_s

    def start(self, order: Order) -> None:
        """Begin one stretch, at the time that the order was given."""
        begin_s = order.issued_s
        self._running[order.trial] = (order, deque(self._events(order, begin_s)))

    def wait(self, until_s: float | None) -> Progress | End | None:
        """Go to the next thing that happens, or to `until_s` where that is earlier."""
        heads = [(events[0][0], trial) for trial, (_, events) in self._running.items()]
        if not heads or (until_s is not None and until_s < min(heads)[0]):
            self._now_s = max(self._now_s, until_s or 0.0)
            return None
        at_s, trial = min(heads)  # of two at one time, the trial that began first
        self._now_s = max(self._now_s, at_s)
        _, events = self._running[trial]
        event = events.popleft()[1]
        if isinstance(event, End):
            del self._running[trial]
            self._asked.discard(trial)
        return event

    def stop(self, trial: int) -> None:
        """The trial saves and leaves; at the second time it leaves at once."""
        order, events = self._running[trial]
        save_s = self._pace.save_s if self.can_pause and trial not in self._asked else 0.0
        outcome: Outcome = "stopped" if trial in self._asked or not self.can_pause else "paused"
        self._asked.add(trial)
        at_s = self._now_s + save_s
        if len(events) == 1 and events[0][0] <= at_s:
            return  # it is about to end by itself
        events.clear()
        events.append((at_s, End(trial=trial, outcome=outcome, time_s=at_s - order.issued_s)))

    def _events(self, order: Order, begin_s: float) -> list[tuple[float, Progress | End]]:
        """All that a stretch will report, with the clock of each."""
        recording = self._find(order.config)
        points, outcome, why = list(recording.points), recording.outcome, recording.why
        broken = next((n for n, point in enumerate(points) if not math.isfinite(point.value)), None)
        end_s = recording.end_s
        if broken is not None:
            points, outcome, why, end_s = (
                points[:broken],
                "nan",
                "the objective was no number",
                points[broken].time_s,
            )
        own_s = self._own_times(order.trial, points)
        first = bisect.bisect_right([point.at for point in points], order.start)
        offset_s = begin_s - (own_s[first - 1] if first else 0.0)
        events: list[tuple[float, Progress | End]] = []
        for point, time_s in zip(points[first:], own_s[first:], strict=True):
            if point.at > order.until:
                break
            progress = Progress(trial=order.trial, point=Point(at=point.at, value=point.value, time_s=time_s))
            events.append((offset_s + time_s, progress))
        last_s = events[-1][0] if events else begin_s
        reached = first + len(events) == len(points)
        if not reached or (points and points[-1].at >= order.until and outcome != "finished"):
            at_s, outcome, why = last_s + self._pace.save_s, "paused", ""
        else:
            after_s = 0.0 if end_s is None else max(0.0, end_s - (points[-1].time_s if points else 0.0))
            at_s = last_s + after_s
        events.append((at_s, End(trial=order.trial, outcome=outcome, time_s=at_s - begin_s, why=why)))
        return events

    def _own_times(self, trial: int, points: Sequence[Point]) -> list[float]:
        """The trial's own seconds at each point, with the noise of this trial: the same whenever they are asked."""
        if self._pace.noise == 0.0:
            return [point.time_s for point in points]
        times: list[float] = []
        time_s, before_s = 0.0, 0.0
        for point in points:
            rng = random.Random(f"{self._pace.seed}:{trial}:{point.at}")
            time_s += (point.time_s - before_s) * math.exp(rng.gauss(0.0, self._pace.noise))
            before_s = point.time_s
            times.append(time_s)
        return times
