"""Global batch = micro batch x accumulation x ranks: finds what is not given, refuses what contradicts."""

from __future__ import annotations

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.recipe.field_checks import check_int


class Devices(Config, frozen=True, kw_only=True):
    """What one has now. Nothing but num_ranks: the global batch stays what it was tuned at.

    Attributes:
        num_ranks: data-parallel ranks.
        micro_batch: samples that one rank computes at once.
        accumulation: micro-batches that one rank adds up before an update.
        global_batch: samples behind one update, over all ranks.
        device: "A100-80GB", "V100", "T4", "cpu", ... for the precision.
        new_eval_every_samples: samples between evaluations now; None: as on one device.
        new_checkpoint_every_samples: samples between checkpoints now; None: as on one device.
        new_warmup_steps: updates of warm-up now; None: derived from the one-device value.

    Raises:
        FieldError: a count below 1.
    """

    num_ranks: int = 1
    micro_batch: int | None = None
    accumulation: int | None = None
    global_batch: int | None = None
    device: str | None = None
    new_eval_every_samples: int | None = None
    new_checkpoint_every_samples: int | None = None
    new_warmup_steps: int | None = None

    def __post_init__(self) -> None:
        """Every count is a whole number of at least 1."""
        for name in self.__struct_fields__:
            if name != "device":
                check_int(name, getattr(self, name), minimum=0 if name == "new_warmup_steps" else 1)


class Batch(Config, frozen=True, kw_only=True):
    """A global batch and how it is cut.

    Attributes:
        global_batch: samples behind one update.
        num_ranks: data-parallel ranks.
        micro_batch: the largest micro batch of any rank.
        accumulation: micro-batches per rank and update.
    """

    global_batch: int
    num_ranks: int
    micro_batch: int
    accumulation: int

    @property
    def even(self) -> bool:
        """True where every micro-batch of every rank has the same size."""
        return self.micro_batch * self.accumulation * self.num_ranks == self.global_batch


def split_batch(
    tuned_batch: int,
    *,
    num_ranks: int = 1,
    micro_batch: int | None = None,
    accumulation: int | None = None,
    global_batch: int | None = None,
) -> Batch:
    """Find the global batch and its cut from what is given.

    A micro batch alone means accumulation 1 and sets the global batch; anything else without a
    global batch holds `tuned_batch`. The global batch need not divide by the ranks: rank r takes
    samples [G*r//W, G*(r+1)//W).

    Args:
        tuned_batch: the global batch to hold where nothing asks for another one.
        num_ranks: data-parallel ranks.
        micro_batch: samples per rank and pass.
        accumulation: passes per update.
        global_batch: samples per update.

    Raises:
        FieldError: the three contradict each other, or a rank would get no sample.

    Source: exact arithmetic; the equality of accumulation and large batch is Goyal et al. 2017
        (arXiv 1706.02677) section 2.3 with the loss normalised by the global batch.

    Examples:
        >>> split_batch(128, num_ranks=8)
        Batch(global_batch=128, num_ranks=8, micro_batch=16, accumulation=1)
        >>> split_batch(128, num_ranks=8, micro_batch=128).global_batch
        1024
        >>> split_batch(128, num_ranks=3, accumulation=2)  # 43 + 43 + 42, in halves of at most 22
        Batch(global_batch=128, num_ranks=3, micro_batch=22, accumulation=2)
    """
    Devices(
        num_ranks=num_ranks, micro_batch=micro_batch, accumulation=accumulation, global_batch=global_batch
    )
    check_int("tuned_batch", tuned_batch, minimum=1)
    if global_batch is None:
        per_rank = None if micro_batch is None else micro_batch * (accumulation or 1)
        global_batch = tuned_batch if per_rank is None else per_rank * num_ranks
    share = -(-global_batch // num_ranks)
    passes = accumulation if accumulation is not None else -(-share // (micro_batch or share))
    needed = -(-share // passes)
    _check_cut(global_batch, num_ranks, passes)
    if None not in (micro_batch, accumulation) and micro_batch != needed:
        product = f"micro_batch={micro_batch} x accumulation={accumulation} x num_ranks={num_ranks}"
        raise FieldError(
            "global_batch",
            global_batch,
            f"contradicts {product} = {(micro_batch or 0) * passes * num_ranks}",
            "Give two of the three; the third follows.",
        )
    return Batch(
        global_batch=global_batch,
        num_ranks=num_ranks,
        micro_batch=needed,
        accumulation=passes,
    )


def _check_cut(global_batch: int, num_ranks: int, accumulation: int) -> None:
    if global_batch < num_ranks:
        raise FieldError(
            "global_batch",
            global_batch,
            f"leaves some of num_ranks={num_ranks} without a sample",
            f"Use at least {num_ranks} samples per update, or fewer ranks.",
        )
    share = -(-global_batch // num_ranks)
    if accumulation > share:
        raise FieldError(
            "accumulation",
            accumulation,
            f"is more than the {share} samples of a rank",
            f"Use at most {share}.",
        )
