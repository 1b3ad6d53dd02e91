"""`Layout`: along which axes the processes share a model and its data, and which process stands where."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import msgspec

from hemostat.config import Config, decode, parse_overrides
from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.pipelines import pipeline_bubble

AXES: Final = ("pp", "dp", "fsdp", "tp")  # from the outermost to the one whose ranks are neighbours
SCHEDULES: Final = ("gpipe", "1f1b", "interleaved", "zero_bubble")
RECOMPUTE: Final = ("none", "selective", "full")
_LOOPED: Final = ("interleaved",)


class Place(NamedTuple):
    """Where one process stands: its 0-based position on each axis."""

    pp: int
    dp: int
    fsdp: int
    tp: int


class Layout(Config, frozen=True, kw_only=True):
    """How many processes share the work along each axis, and what goes with it; `[layout]` in TOML.

    Attributes:
        dp: copies of the model, each with its own samples; None: what the other axes leave of the processes.
        fsdp: processes that share parameters, gradients and optimizer state, each with its own samples (FSDP2).
            With `dp` above 1 this is hsdp: sharded within, copied across.
        tp: processes that share each matrix and the same samples.
        pp: stages that a sample passes one after the other.
        schedule: order of the micro-batches in the stages: "gpipe", "1f1b", "interleaved" or "zero_bubble";
            None: 1f1b, interleaved where a process has several stages.
        stages_per_rank: pieces of the model that one process holds, for "interleaved".
        reshard: drop the gathered parameters of a block after its forward pass; it costs a second gather and saves
            their memory.
        recompute: activations that are computed again in backward: "none", "selective" (all but the outputs of
            matrix products and attention) or "full" (all of a block).
        compile: torch.compile each block.
        sequence_parallel: with `tp`, share the positions between the matrices too.
        loss_parallel: with `tp`, leave the logits shared out over the vocabulary.

    Raises:
        FieldError: a count below 1, or parts that contradict each other.

    Examples:
        >>> Layout.read("fsdp=2,tp=2").filled(8).sizes
        {'pp': 1, 'dp': 2, 'fsdp': 2, 'tp': 2}
    """

    dp: int | None = None
    fsdp: int = 1
    tp: int = 1
    pp: int = 1
    schedule: str | None = None
    stages_per_rank: int = 1
    reshard: bool = True
    recompute: str = "none"
    compile: bool = False
    sequence_parallel: bool = True
    loss_parallel: bool = True

    def __post_init__(self) -> None:
        """Counts are counts, names are known, and each part has what it needs."""
        for name in (*AXES, "stages_per_rank"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise FieldError(f"layout.{name}", value, "must be 1 or more", f"Leave {name} out for 1.")
        if self.schedule is not None and self.schedule not in SCHEDULES:
            raise UnknownNameError("layout.schedule", self.schedule, SCHEDULES)
        if self.recompute not in RECOMPUTE:
            raise UnknownNameError("layout.recompute", self.recompute, RECOMPUTE)
        if self.schedule is not None and self.pp == 1:
            raise FieldError(
                "layout.schedule", self.schedule, "orders pipeline stages, and pp=1", "Give pp=2 or more."
            )
        if self.schedule == "zero_bubble" and self.compile:
            raise FieldError(
                "layout.compile",
                True,
                "is not possible with schedule=zero_bubble, which splits each backward pass in two",
                "Leave one of them out.",
            )
        looped = self.stages_per_rank > 1
        if looped and (self.pp == 1 or self.schedule not in (None, *_LOOPED)):
            raise FieldError(
                "layout.stages_per_rank",
                self.stages_per_rank,
                f"needs pp=2 or more and schedule=interleaved, not pp={self.pp}, schedule={self.schedule}",
                "Give these, or leave it out.",
            )
        if self.schedule in _LOOPED and not looped:
            raise FieldError(
                "layout.schedule", self.schedule, "with one stage per rank is 1f1b", "Give stages_per_rank=2."
            )

    @classmethod
    def read(cls, text: str) -> Layout:
        """Parse what `--layout` is given.

        Raises:
            FieldError: not `name=value,name=value`, or a value that cannot be meant.

        Examples:
            >>> Layout.read("pp=2, schedule=gpipe").schedule
            'gpipe'
        """
        return decode(cls, cls.values(text), prefix="layout.")

    def filled(self, num_ranks: int) -> Layout:
        """The same with `dp` and `schedule` known.

        Args:
            num_ranks: processes of the job.

        Raises:
            FieldError: the product of the axes is another number.
        """
        inner = self.fsdp * self.tp * self.pp
        if num_ranks % inner or self.dp not in (None, num_ranks // inner):
            made = inner * (self.dp or 1)
            raise FieldError(
                "layout",
                str(self),
                f"makes {made} process{'es' * (made > 1)}{' or a multiple' if self.dp is None else ''}, "
                f"and there {'are' if num_ranks > 1 else 'is'} {num_ranks}",
                f"Take {made} of them, or another layout.",
            )
        chosen = self.schedule
        if self.pp > 1 and chosen is None:
            chosen = "interleaved" if self.stages_per_rank > 1 else "1f1b"
        return msgspec.structs.replace(self, dp=num_ranks // inner, schedule=chosen)

    @property
    def sizes(self) -> dict[str, int]:
        """Axis to number of processes along it, from the outermost in; `filled` knows dp."""
        return {axis: getattr(self, axis) or 1 for axis in AXES}

    @property
    def num_ranks(self) -> int:
        """Processes of the whole layout."""
        return math.prod(self.sizes.values())

    @property
    def num_data_ranks(self) -> int:
        """Processes, or groups of them, with samples of their own."""
        return (self.dp or 1) * self.fsdp

    @property
    def num_stages(self) -> int:
        """Pieces that the model is cut into."""
        return self.pp * self.stages_per_rank

    @property
    def is_dp(self) -> bool:
        """Every process holds the whole model."""
        return self.fsdp == self.tp == self.pp == 1

    def place(self, rank: int) -> Place:
        """Where a process stands.

        Examples:
            >>> Layout(dp=2, tp=2).place(3)
            Place(pp=0, dp=1, fsdp=0, tp=1)
        """
        found: dict[str, int] = {}
        for axis in reversed(AXES):
            rank, found[axis] = divmod(rank, self.sizes[axis])
        return Place(**found)

    def data_rank(self, rank: int) -> int:
        """Which share of the samples a process computes on; ranks of one tp or pp group have the same.

        Examples:
            >>> [Layout(fsdp=2, tp=2).data_rank(rank) for rank in range(4)]
            [0, 0, 1, 1]
        """
        place = self.place(rank)
        return place.dp * self.fsdp + place.fsdp

    def bubble(self, num_micro_batches: int) -> float:
        """Idle over busy time of the pipeline's schedule; 0 without stages.

        Examples:
            >>> Layout(pp=4).bubble(8)
            0.375
        """
        if self.pp == 1:
            return 0.0
        schedule = self.schedule or ("interleaved" if self.stages_per_rank > 1 else "1f1b")
        return pipeline_bubble(schedule, self.pp, num_micro_batches, self.stages_per_rank)

    @property
    def changed(self) -> dict[str, Any]:
        """The fields that are not as they are by default, as a `[layout]` table.

        Examples:
            >>> Layout(dp=1, fsdp=2, recompute="full").changed
            {'dp': 1, 'fsdp': 2, 'recompute': 'full'}
        """
        usual = Layout()
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in fields.items() if value != getattr(usual, name)}

    def __str__(self) -> str:
        """The axes above 1, as `--layout` takes them.

        Examples:
            >>> str(Layout(fsdp=2, pp=2)), str(Layout(dp=1))
            ('pp=2,fsdp=2', 'dp=1')
        """
        return ",".join(f"{axis}={size}" for axis, size in self.sizes.items() if size > 1) or "dp=1"

    @staticmethod
    def values(text: str) -> dict[str, Any]:
        """The `[layout]` table that `name=value,name=value` stands for.

        Raises:
            FieldError: a part without `=`, or a name that comes twice.
        """
        parts = [part.strip() for part in text.split(",") if part.strip()]
        names = [part.partition("=")[0].strip() for part in parts]
        are_names = all(name.isidentifier() for name in names)
        if (
            not parts
            or not are_names
            or len(set(names)) < len(names)
            or any("=" not in part for part in parts)
        ):
            raise FieldError(
                "layout", text, "is not axis=number,axis=number", 'Write it like --layout "fsdp=2,tp=2".'
            )
        return parse_overrides(parts)
