"""`search`: every legal layout of a model on a cluster; those that fit by speed, the others with what they need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from hemostat.config import Config
from hemostat.plan.candidates import cut_of, layouts, recomputations, regime_of, workloads
from hemostat.plan.compute import Terms
from hemostat.plan.cost import Cost, run_cost
from hemostat.plan.duration import Duration, duration
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
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
        choices: that fit, one for each set of axes, the fastest first; those that only fit within the error bar last.
        rejected: axes that do not fit, the one that comes closest first.
        num_tried: layouts and micro-batches that were looked at.
    """

    choices: tuple[Choice, ...]
    rejected: tuple[Rejected, ...]
    num_tried: int


def search(profile: Profile, cluster: Cluster, goal: Goal, among: Iterable[Layout] | None = None) -> Found:
    """Look at every legal layout, recomputation and micro-batch.

    Of one layout, more recomputation and smaller micro-batches are only looked at where less does not fit: both cost
    time and save memory, nothing else.

    Args:
        profile: of the model.
        cluster: all of whose devices work.
        goal: batch, length, optimizer, price.
        among: layouts to look at; None: all legal ones.

    Examples:
        >>> from hemostat.plan.families import Decoder, decoder_profile
        >>> tiny = Decoder(num_layers=2, hidden=64, num_heads=4, num_kv_heads=4, head_width=16, ffn=256, vocab=1000,
        ...                num_tokens=128)
        >>> found = search(decoder_profile(tiny), Cluster.read("4xA100-40GB"), Goal(global_batch=64))
        >>> str(found.choices[0].layout), found.choices[0].workload.micro_batch, len(found.rejected)
        ('dp=4', 16, 0)
    """
    best: dict[str, Choice] = {}
    least: dict[str, Rejected] = {}
    num_tried = 0
    for axes in layouts(profile, cluster, goal.global_batch) if among is None else among:
        name = str(axes)
        for tried in _tried(profile, axes, goal, cluster.device.memory_bytes):
            num_tried += 1
            if not tried.memory.fits(cluster.device.memory_bytes):
                known = least.get(name)
                if known is None or tried.memory.device.num_bytes < known.memory.device.num_bytes:
                    least[name] = tried
                continue
            choice = _priced(tried, profile, cluster, goal)
            if name not in best or _rank(choice, cluster) < _rank(best[name], cluster):
                best[name] = choice
    return Found(
        choices=tuple(sorted(best.values(), key=lambda each: _rank(each, cluster))),
        rejected=tuple(
            sorted(
                (each for name, each in least.items() if name not in best),
                key=lambda each: each.memory.device.num_bytes,
            )
        ),
        num_tried=num_tried,
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
    return _priced(_look(profile, layout, workload), profile, cluster, goal)


def _priced(tried: Rejected, profile: Profile, cluster: Cluster, goal: Goal) -> Choice:
    step = _step(profile, tried, cluster, goal)
    cost = None
    if goal.num_tokens is not None and goal.price is not None:
        cost = run_cost(step, cluster, goal.price, num_tokens=goal.num_tokens)
    return Choice(layout=tried.layout, workload=tried.workload, memory=tried.memory, step=step, cost=cost)


def _step(profile: Profile, tried: Rejected, cluster: Cluster, goal: Goal) -> Duration:
    """The step of exactly the global batch: on the rank with most samples, passes may differ by one sample."""
    layout, work = tried.layout, tried.workload
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
    """What fits, and the first that does not; a micro-batch that fits with less recomputation is not repeated."""
    fitting = 0
    for layout in recomputations(axes):
        for workload in workloads(layout, goal.global_batch, goal.optimizer, goal.precision):
            if workload.micro_batch <= fitting:
                continue
            tried = _look(profile, layout, workload)
            yield tried
            if not tried.memory.fits(memory_bytes):
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
