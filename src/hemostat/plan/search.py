"""`search`: every legal layout of a model on a cluster; those that fit by speed, the others with what they need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from hemostat.config import Config
from hemostat.plan.candidates import cut_of, is_plain, layouts, recomputations, regime_of, workloads
from hemostat.plan.compute import Terms
from hemostat.plan.cost import Cost, run_cost
from hemostat.plan.duration import Duration, duration
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import RECOMPUTE, Layout
from hemostat.plan.memory import Forecast, peak
from hemostat.plan.parallel.pp import even_pace
from hemostat.plan.prices import Price
from hemostat.plan.profile import Profile
from hemostat.plan.workload import Workload

ABOUT_EQUAL: Final = 0.05  # speeds that differ by less are told apart by no forecast


class Goal(Config, frozen=True, kw_only=True):
    """What is to be trained, whatever the layout.

    Attributes:
        global_batch: samples of one optimizer step.
        num_tokens: of the whole run (samples, for a model without tokens); None: no days and no dollars.
        optimizer: whose moments are kept.
        precision: of the products: "bf16", "fp16" or "fp32".
        price: of one machine and hour; None where there is none.
        terms: of the time, refitted; None: those of the published measurements.
    """

    global_batch: int
    num_tokens: float | None = None
    optimizer: str = "adamw"
    precision: str = "bf16"
    price: Price | None = None
    terms: Terms | None = None


class Choice(Config, frozen=True, kw_only=True):
    """One way to train, and what it takes.

    Attributes:
        layout: with everything known.
        workload: micro-batch and accumulation.
        memory: of the fullest device.
        step: seconds of one optimizer step.
        cost: days and dollars, where the goal has a length and a price.
    """

    layout: Layout
    workload: Workload
    memory: Forecast
    step: Duration
    cost: Cost | None = None

    def is_safe(self, memory_bytes: float) -> bool:
        """It fits at the upper end of the error bar too."""
        return self.memory.device.high_bytes <= memory_bytes


class Rejected(Config, frozen=True, kw_only=True):
    """Axes under which nothing fits, and the least that they need.

    Attributes:
        layout: the one that comes closest.
        workload: with the smallest micro-batch.
        memory: what it would need.
    """

    layout: Layout
    workload: Workload
    memory: Forecast


class Found(Config, frozen=True, kw_only=True):
    """What a search ended with.

    Attributes:
        choices: that fit, one for each tp, pp and way to share (copies, shards, or both), the fastest first; those
            that only fit within the error bar last.
        rejected: the same of what does not fit, the one that comes closest first.
        num_tried: layouts and micro-batches that were looked at.
    """

    choices: tuple[Choice, ...]
    rejected: tuple[Rejected, ...]
    num_tried: int


def search(profile: Profile, cluster: Cluster, goal: Goal, among: Iterable[Layout] | None = None) -> Found:
    """Look at every legal layout, recomputation and micro-batch.

    Of one layout, more recomputation and smaller micro-batches are only looked at where less does not fit: both cost
    time and save memory, nothing else. The plain layouts come first (`is_plain`). Of the others with the same tp and
    pp, none is looked at where the passes alone take longer than a whole step that was found, and the memory only of
    what is about as fast.

    Args:
        profile: of the model.
        cluster: all of whose devices work.
        goal: batch, length, optimizer, price.
        among: layouts to look at; None: all legal ones.

    Examples:
        >>> from hemostat.plan.families import Decoder, decoder_profile
        >>> small = Decoder(num_layers=4, hidden=1024, num_heads=16, num_kv_heads=16, head_width=64, ffn=4096,
        ...                 vocab=32000, num_tokens=1024)
        >>> found = search(decoder_profile(small), Cluster.read("4xA100-40GB"), Goal(global_batch=64))
        >>> str(found.choices[0].layout), found.choices[0].workload.micro_batch, len(found.rejected)
        ('fsdp=4', 16, 0)
    """
    ledger = _Ledger(profile, cluster, goal)
    others = []
    for layout in layouts(profile, cluster, goal.global_batch) if among is None else among:
        if among is not None or is_plain(layout, cluster):
            ledger.look(layout)
        else:
            others.append(layout)
    bounded = [(ledger.bound_s(layout), layout) for layout in others]
    for bound_s, layout in sorted(bounded, key=lambda each: each[0]):
        if bound_s <= (1 + ABOUT_EQUAL) * ledger.least_s < math.inf:
            ledger.look_if_fast(layout)
    return ledger.found()


class _Passes(NamedTuple):
    """What fits under one tp and pp: micro-batch to the least recomputation, and the seconds of the passes alone.

    `idle_s` is what a bubble of 1 takes.
    """

    recompute: dict[int, int]
    busy_s: float = math.inf
    idle_s: float = math.inf


class _Ledger:
    """The best of each kind of layout so far, and what those that do not fit need at least."""

    def __init__(self, profile: Profile, cluster: Cluster, goal: Goal) -> None:
        self.least_s = math.inf
        self._of = profile, cluster, goal
        self._best: dict[tuple[int, int, bool, bool], Choice] = {}
        self._least: dict[tuple[int, int, bool, bool], Rejected] = {}
        self._passes: dict[tuple[int, int], _Passes] = {}
        self._num_tried = 0

    def bound_s(self, layout: Layout) -> float:
        """What a step takes at least with this tp and pp, however data ranks share and stages take turns."""
        passes = self._passes.get((layout.tp, layout.pp))
        if passes is None:
            return math.inf
        most_passes = cut_of(layout, self._of[2].global_batch, 1)[1]
        return passes.busy_s + (layout.bubble(most_passes) * passes.idle_s if layout.pp > 1 else 0.0)

    def look(self, axes: Layout) -> None:
        """Every recomputation and micro-batch."""
        profile, cluster, goal = self._of
        for tried in _tried(profile, axes, goal, cluster.device.memory_bytes):
            self._num_tried += 1
            if tried.memory.fits(cluster.device.memory_bytes):
                choice = _priced(
                    tried, _step(profile, tried.layout, tried.workload, (cluster, goal)), self._of
                )
                self._take(choice)
                self._note(choice)
            else:
                self._reject(tried)

    def look_if_fast(self, axes: Layout) -> None:
        """The fastest that fits, of those that are about as fast as what was found."""
        profile, cluster, goal = self._of
        known = self._passes[axes.tp, axes.pp].recompute
        fast = []
        for number, layout in enumerate(recomputations(axes)):
            for work in workloads(layout, goal.global_batch, goal.optimizer, goal.precision):
                if number >= known.get(work.micro_batch, len(RECOMPUTE)):
                    step = _step(profile, layout, work, (cluster, goal))
                    if step.step_s <= (1 + ABOUT_EQUAL) * self.least_s:
                        fast.append((step.step_s, number, work.micro_batch, layout, work, step))
        for *_, layout, work, step in sorted(fast, key=lambda each: each[:3]):
            self._num_tried += 1
            tried = _look(profile, layout, work)
            if tried.memory.fits(cluster.device.memory_bytes):
                choice = _priced(tried, step, self._of)
                self._take(choice)
                if choice.is_safe(cluster.device.memory_bytes):
                    return

    def _take(self, choice: Choice) -> None:
        cluster, name = self._of[1], _kind(choice.layout)
        if choice.is_safe(cluster.device.memory_bytes):
            self.least_s = min(self.least_s, choice.step.step_s)
        if name not in self._best or _rank(choice, cluster) < _rank(self._best[name], cluster):
            self._best[name] = choice

    def _note(self, choice: Choice) -> None:
        axes = choice.layout.tp, choice.layout.pp
        known = self._passes.get(axes, _Passes({}))
        number, micro_batch = RECOMPUTE.index(choice.layout.recompute), choice.workload.micro_batch
        least = min(number, known.recompute.get(micro_batch, number))
        busy_s, idle_s = choice.step.compute_s + choice.step.tp_s, 0.0
        if choice.layout.pp > 1:
            idle_s = choice.step.bubble_s / max(choice.layout.bubble(choice.workload.accumulation), 1e-9)
        self._passes[axes] = _Passes(
            {**known.recompute, micro_batch: least}, min(busy_s, known.busy_s), min(idle_s, known.idle_s)
        )

    def _reject(self, tried: Rejected) -> None:
        name = _kind(tried.layout)
        known = self._least.get(name)
        if known is None or tried.memory.device.num_bytes < known.memory.device.num_bytes:
            self._least[name] = tried

    def found(self) -> Found:
        """All of it, in order."""
        cluster = self._of[1]
        rejected = (each for name, each in self._least.items() if name not in self._best)
        return Found(
            choices=tuple(sorted(self._best.values(), key=lambda each: _rank(each, cluster))),
            rejected=tuple(sorted(rejected, key=lambda each: each.memory.device.num_bytes)),
            num_tried=self._num_tried,
        )


def choice_of(profile: Profile, cluster: Cluster, goal: Goal, wanted: tuple[Layout, int]) -> Choice:
    """Memory, time and money of one layout and micro-batch, whether it fits or not.

    Args:
        profile: of the model.
        cluster: whose devices its ranks are.
        goal: batch, length, optimizer, price.
        wanted: layout, with `dp` known, and the most samples of a micro-batch.

    Raises:
        FieldError: fewer samples than data ranks.
    """
    layout, most = wanted
    micro_batch, accumulation = cut_of(layout, goal.global_batch, most)
    regime = regime_of(layout, goal.optimizer, goal.precision, accumulation)
    workload = Workload(micro_batch=micro_batch, accumulation=accumulation, regime=regime)
    step = _step(profile, layout, workload, (cluster, goal))
    return _priced(_look(profile, layout, workload), step, (profile, cluster, goal))


def _kind(layout: Layout) -> tuple[int, int, bool, bool]:
    return layout.tp, layout.pp, layout.fsdp > 1, (layout.dp or 1) > 1


def _priced(tried: Rejected, step: Duration, of: tuple[Profile, Cluster, Goal]) -> Choice:
    _, cluster, goal = of
    cost = None
    if goal.num_tokens is not None and goal.price is not None:
        cost = run_cost(step, cluster, goal.price, num_tokens=goal.num_tokens)
    return Choice(layout=tried.layout, workload=tried.workload, memory=tried.memory, step=step, cost=cost)


def _step(profile: Profile, layout: Layout, work: Workload, on: tuple[Cluster, Goal]) -> Duration:
    """The step of exactly the global batch: on the rank with most samples, passes may differ by one sample."""
    cluster, goal = on
    borders = _borders(profile, layout)
    step = duration(profile, layout, work, cluster, goal.terms, borders)
    share = -(-goal.global_batch // layout.num_data_ranks)
    terms = step.terms
    num_smaller = work.micro_batch * work.accumulation - share
    if num_smaller:
        smaller = msgspec.structs.replace(work, micro_batch=work.micro_batch - 1)
        less = duration(profile, layout, smaller, cluster, goal.terms, borders).terms
        part = num_smaller / work.accumulation
        terms = {name: (1.0 - part) * each_s + part * less[name] for name, each_s in terms.items()}
    return msgspec.structs.replace(
        step,
        **terms,
        num_samples=goal.global_batch,
        num_tokens=goal.global_batch * profile.num_tokens,
        model_flop=goal.global_batch * profile.flop,
    )


def _look(profile: Profile, layout: Layout, workload: Workload) -> Rejected:
    memory = peak(profile, layout, workload, _borders(profile, layout))
    return Rejected(layout=layout, workload=workload, memory=memory)


def _borders(profile: Profile, layout: Layout) -> tuple[int, ...] | None:
    return even_pace(profile, layout.num_stages) if layout.pp > 1 else None


def _tried(profile: Profile, axes: Layout, goal: Goal, memory_bytes: float) -> Iterator[Rejected]:
    """What fits, and the first that may not; a micro-batch that fits with less recomputation is not repeated."""
    fitting = 0
    for layout in recomputations(axes):
        for workload in workloads(layout, goal.global_batch, goal.optimizer, goal.precision):
            if workload.micro_batch <= fitting:
                continue
            tried = _look(profile, layout, workload)
            yield tried
            if tried.memory.device.high_bytes > memory_bytes:
                break
            fitting = workload.micro_batch


def _rank(choice: Choice, cluster: Cluster) -> tuple[bool, int, int, float]:
    """Those that fit for sure before those that may; then the faster one; of about equals the simpler one."""
    samples_per_s = choice.step.num_samples / choice.step.step_s
    layout = choice.layout
    num_axes = (layout.tp > 1) + (layout.pp > 1) + (layout.fsdp > 1)
    about = -round(math.log(samples_per_s) / math.log1p(ABOUT_EQUAL))
    is_risky = not choice.is_safe(cluster.device.memory_bytes)
    return is_risky, about, num_axes, -samples_per_s
