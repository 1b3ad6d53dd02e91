"""`Plan`: the answer to "what fits here, how fast, for how much", from a profile, a cluster and a few settings."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hemostat.config import Config, decode
from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.changes import Change, changes
from hemostat.plan.cost import better_machine, cluster_price
from hemostat.plan.families import decoder_from_numbers, decoder_of, decoder_profile, read_config
from hemostat.plan.front import Offer, front
from hemostat.plan.hardware import Cluster
from hemostat.plan.largest import Largest, largest_batch, largest_model, largest_sample
from hemostat.plan.layout import Layout
from hemostat.plan.measured_steps import MeasuredStep, terms_of
from hemostat.plan.prices import Price
from hemostat.plan.profile import Profile
from hemostat.plan.search import Choice, Found, Goal, choice_of, search
from hemostat.units import format_usd

# Where nobody said a batch: 0.5 to 4 million tokens are usual for language models, and a power of two divides well.
TOKENS_PER_STEP: Final = 1 << 20
SAMPLES_PER_DEVICE: Final = 32
PRECISIONS: Final = ("bf16", "fp16", "fp32")


class PlanSettings(Config, frozen=True, kw_only=True):
    """What a plan may be told; `[plan]` in TOML.

    Attributes:
        global_batch: samples of one optimizer step; None: about a million tokens (2^20), or 32 samples a device.
        num_tokens: of the whole run (samples, for a model without tokens); None: no days and no dollars.
        num_samples: the same in samples, where `num_tokens` is not given.
        sample_tokens: of one sample, for a config.json or three numbers; None: all positions that the model has.
        optimizer: whose moments are kept.
        precision: of the products: "bf16", "fp16" or "fp32".
        layout: one that is wanted; what it needs is said, and what makes it fit.
        micro_batch: that goes with it; None: the largest that fits, or 1.
        usd_per_hour: of one machine, in place of the table's price.
        spot: the spot price.
        max_usd: of the whole run; what costs more is left out.
        max_days: of the whole run.
        critical_batch: measured by a run; beyond it a larger batch, and more devices with it, buy little.
        front: compare dollars and days with those of other clusters, as a note and in `Plan.front`.
        measured: steps that were taken; the terms of time that these tell apart are refitted to them.
    """

    global_batch: int | None = None
    num_tokens: float | None = None
    num_samples: float | None = None
    sample_tokens: int | None = None
    optimizer: str = "adamw"
    precision: str = "bf16"
    layout: Layout | None = None
    micro_batch: int | None = None
    usd_per_hour: float | None = None
    spot: bool = False
    max_usd: float | None = None
    max_days: float | None = None
    critical_batch: float | None = None
    front: bool = False
    measured: tuple[MeasuredStep, ...] = ()

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UnknownNameError("plan.precision", self.precision, PRECISIONS)
        if self.micro_batch is not None and self.layout is None:
            fix = "Add --layout, or leave it out: the search tries them all."
            raise FieldError("plan.micro_batch", self.micro_batch, "belongs to a layout", fix)
        for field in ("max_days", "critical_batch"):
            value = getattr(self, field)
            if value is not None and not 0 < value < math.inf:
                raise FieldError(
                    f"plan.{field}", value, "must be above 0", "Leave it out where there is none."
                )


class Plan(Config, frozen=True, kw_only=True):
    """What a search found, and what it says beside the layout that was wanted.

    Attributes:
        profile: of the model.
        cluster: all of whose devices work.
        goal: batch, length, price.
        found: by the search.
        wanted: the layout that was asked for, whether it fits or not.
        changes: that make it fit, the cheapest first; empty where it does, or nothing was wanted.
        doubled: the best layout on twice the devices, at no larger batch than the critical one, where that is known.
        largest: batch, sample and model that fit, where it was asked (`with_largest`).
        front: dollars against days over clusters, where it was asked (`with_front`).
        notes: sentences, such as that a newer machine is cheaper.
    """

    profile: Profile
    cluster: Cluster
    goal: Goal
    found: Found
    wanted: Choice | None = None
    changes: tuple[Change, ...] = ()
    doubled: Choice | None = None
    largest: tuple[Largest, ...] = ()
    front: tuple[Offer, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def make(cls, profile: Profile, cluster_text: str, values: Mapping[str, Any]) -> Plan:
        """Search.

        Args:
            profile: of the model, traced or from `profile_of_config`.
            cluster_text: "8xA100-40GB", "2x p4d.24xlarge".
            values: of `PlanSettings`.

        Raises:
            UnknownNameError: no such device, machine, optimizer or setting.
            FieldError: sizes that cannot be meant, or a budget that nothing fits.

        Examples:
            >>> profile = Plan.profile_of_numbers({"num_params": 320e6, "num_layers": 24, "hidden": 1024})
            >>> plan = Plan.make(profile, "8xA100-40GB", {"num_tokens": 6.4e9})
            >>> plan.best.is_safe(plan.cluster.device.memory_bytes)
            True
        """
        settings = decode(PlanSettings, dict(values), prefix="plan.")
        cluster = Cluster.read(cluster_text)
        price, notes = _price(cluster, settings)
        goal = Goal(
            global_batch=_global_batch(profile, cluster, settings),
            num_tokens=_length(profile, settings),
            optimizer=settings.optimizer,
            precision=settings.precision,
            price=price,
            terms=terms_of(settings.measured, profile, cluster, (settings.optimizer, settings.precision)),
        )
        found = _within(search(profile, cluster, goal), settings)
        wanted = None if settings.layout is None else _wanted(profile, cluster, goal, settings)
        is_short = wanted is not None and not wanted.is_safe(cluster.device.memory_bytes)
        made = cls(
            profile=profile,
            cluster=cluster,
            goal=goal,
            found=found,
            wanted=wanted,
            changes=changes(profile, cluster, goal, wanted.layout, wanted.workload.micro_batch)
            if wanted and is_short
            else (),
            doubled=_doubled(profile, cluster, goal, settings) if found.choices else None,
            notes=(*_batch_note(goal, settings), *notes),
        )
        return made.with_front() if settings.front else made

    @property
    def best(self) -> Choice | None:
        """The fastest layout that fits; None where none does."""
        return self.found.choices[0] if self.found.choices else None

    def with_front(self) -> Plan:
        """The same plan, with the clusters that no other beats in both days and dollars, the fastest first.

        Raises:
            FieldError: the length or the price of the run is not known.
        """
        if self.goal.num_tokens is None or self.goal.price is None:
            raise FieldError(
                "plan.front", True, "needs a length and a price", "Give --tokens, and plan.usd_per_hour."
            )
        found = front(self.profile, self.cluster, self.goal, self.found.choices)
        said = "; ".join(offer.sentence() for offer in found)
        notes = (*self.notes, f"time against dollars, nothing beats both: {said}") if found else self.notes
        return msgspec.structs.replace(self, front=found, notes=notes)

    def with_largest(self, sizes: Mapping[str, Any] | None) -> Plan:
        """The same plan, with how large a batch fits, and how large a sample and a model.

        Args:
            sizes: the config.json or the numbers that the profile is of; None for a traced model, which cannot grow.
        """
        found = [largest_batch(self.profile, self.cluster, self.goal)]
        if sizes is not None:
            is_config = "model_type" in sizes
            tokens = self.profile.num_tokens
            decoder = decoder_of(sizes, tokens) if is_config else decoder_from_numbers(**sizes)
            found += [
                largest_sample(decoder, self.cluster, self.goal),
                largest_model(decoder, self.cluster, self.goal),
            ]
        return msgspec.structs.replace(self, largest=tuple(found))

    @staticmethod
    def read_config(path: str) -> dict[str, Any]:
        """The values of a Hugging Face `config.json` on the disk.

        Raises:
            FieldError: no such file, no JSON, or no table of names.
        """
        return read_config(path)

    @staticmethod
    def profile_of_config(config: Mapping[str, Any], num_tokens: int | None = None) -> Profile:
        """The profile of a Hugging Face `config.json`, in closed form.

        Raises:
            UnknownNameError: a family that is not known.
            FieldError: a size that cannot be.
        """
        return decoder_profile(decoder_of(config, num_tokens))

    @staticmethod
    def profile_of_numbers(numbers: Mapping[str, Any]) -> Profile:
        """The profile of a decoder of which only a few sizes are known.

        Args:
            numbers: "num_params", "num_layers", "hidden" and what else `Decoder` has.

        Raises:
            FieldError: sizes that contradict each other.
        """
        return decoder_profile(decoder_from_numbers(**numbers))


def _price(cluster: Cluster, settings: PlanSettings) -> tuple[Price | None, list[str]]:
    """The price, or the sentence that says why there is none; a budget cannot do without."""
    try:
        price = cluster_price(cluster, spot=settings.spot, given=settings.usd_per_hour)
    except FieldError as error:
        if settings.max_usd is not None:
            raise
        return None, [str(error)]
    if settings.usd_per_hour is not None:
        return price, []
    said = (better_machine(price.instance, spot=settings.spot), price.warning(datetime.date.today()))
    return price, [sentence for sentence in said if sentence]


def _length(profile: Profile, settings: PlanSettings) -> float | None:
    if settings.num_tokens is None and settings.num_samples is not None:
        return settings.num_samples * profile.num_tokens
    return settings.num_tokens


def _global_batch(profile: Profile, cluster: Cluster, settings: PlanSettings) -> int:
    given = settings.global_batch
    if given is None:
        if profile.num_tokens == 1:
            return SAMPLES_PER_DEVICE * cluster.num_devices
        return max(1, TOKENS_PER_STEP // profile.num_tokens)
    if given < 1:
        raise FieldError("global_batch", given, "must be 1 or more", "Give samples, or tokens: 4Mtok.")
    return given


def _batch_note(goal: Goal, settings: PlanSettings) -> list[str]:
    """What is to know of the batch.

    Raises:
        FieldError: a critical batch that is none.
    """
    notes = []
    if settings.global_batch is None:
        notes.append(
            f"nobody said a global batch: {goal.global_batch:,} samples are assumed (--global-batch)"
        )
    critical = settings.critical_batch
    if critical is not None and not critical > 0:
        raise FieldError("plan.critical_batch", critical, "must be above 0", "Give what a run measured.")
    if critical is not None and goal.global_batch > critical:
        stretch = (1.0 + goal.global_batch / critical) / 2.0  # McCandlish et al. 2018, eq. 2.11
        notes.append(
            f"beyond about {critical:,.0f} samples a step more devices buy little: a batch of {goal.global_batch:,} "
            f"needs {stretch:.2g} times the samples; twice the devices are counted at {critical:,.0f}"
        )
    return notes


def _doubled(profile: Profile, cluster: Cluster, goal: Goal, settings: PlanSettings) -> Choice | None:
    """The best layout on twice the devices; what lies beyond the critical batch is no use of them.

    Source: McCandlish et al. 2018 (arXiv 1812.06162), section 2.2.
    """
    useful = goal.global_batch
    if settings.critical_batch is not None:
        useful = max(1, min(useful, round(settings.critical_batch)))
    twice = msgspec.structs.replace(cluster, num_devices=2 * cluster.num_devices)
    found = search(profile, twice, msgspec.structs.replace(goal, global_batch=useful))
    return next(iter(found.choices), None)


def _wanted(profile: Profile, cluster: Cluster, goal: Goal, settings: PlanSettings) -> Choice:
    """The layout that was asked for, with the largest micro-batch that fits unless one was named."""
    layout = (settings.layout or Layout()).filled(cluster.num_devices)
    if settings.micro_batch is not None:
        if settings.micro_batch < 1:
            raise FieldError("micro_batch", settings.micro_batch, "must be 1 or more", "Give samples.")
        return choice_of(profile, cluster, goal, (layout, settings.micro_batch))
    share = -(-goal.global_batch // layout.num_data_ranks)
    best = choice_of(profile, cluster, goal, (layout, 1))
    while best.workload.micro_batch < share and best.is_safe(cluster.device.memory_bytes):
        more = choice_of(profile, cluster, goal, (layout, min(share, 2 * best.workload.micro_batch)))
        if not more.is_safe(cluster.device.memory_bytes):
            break
        best = more
    return best


def _within(found: Found, settings: PlanSettings) -> Found:
    """Leave out what a budget of money or days forbids.

    Raises:
        FieldError: it forbids everything.
    """
    choices = list(found.choices)
    for name, limit, text in (
        ("usd", settings.max_usd, format_usd),
        ("days", settings.max_days, "{:.1f} days".format),
    ):
        if limit is None:
            continue
        costs = [(getattr(choice.cost, name), choice) for choice in choices if choice.cost is not None]
        if not costs and choices:
            raise FieldError(f"max_{name}", limit, "needs the length of the run", "Give --tokens.")
        choices = [choice for cost, choice in costs if cost <= limit]
        if costs and not choices:
            least = min(cost for cost, _ in costs)
            raise FieldError(
                f"max_{name}",
                limit,
                f"nothing fits it: the least is {text(least)}",
                "Give more, train fewer --tokens, or take another --cluster.",
            )
    return msgspec.structs.replace(found, choices=tuple(choices))
