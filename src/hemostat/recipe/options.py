"""The two ways to use N devices: hold the global batch, or scale it; and the rows about the batch."""

from __future__ import annotations

from hemostat.config import Resolved
from hemostat.recipe.batch import Batch, split_batch
from hemostat.recipe.one_device import Base
from hemostat.recipe.recipe import Option
from hemostat.recipe.scaling import ScaledLr, scale_lr


def scale_base(base: Base, global_batch: int, critical_batch: float | None) -> ScaledLr:
    """`scale_lr` with everything that the one-device values say."""
    return scale_lr(
        base.lr,
        tuned_batch=base.tuned_batch,
        global_batch=global_batch,
        optimizer=base.optimizer,
        critical_batch=critical_batch,
        finetune=base.finetune,
        rule=base.lr_rule,
    )


def list_options(base: Base, batch: Batch, critical_batch: float | None) -> tuple[Option, ...]:
    """Holding the batch first; then the batch asked for, or one tuned batch per rank.

    Holding is left out where there are more ranks than samples in the tuned batch.
    """
    moved = batch.global_batch != base.tuned_batch
    options = []
    if base.tuned_batch >= batch.num_ranks:
        held = split_batch(base.tuned_batch, num_ranks=batch.num_ranks) if moved else batch
        options.append(_option("hold", held, scale_base(base, base.tuned_batch, None), chosen=not moved))
    if moved or batch.num_ranks > 1:
        wide = batch if moved else split_batch(base.tuned_batch * batch.num_ranks, num_ranks=batch.num_ranks)
        scaled = scale_base(base, wide.global_batch, critical_batch)
        options.append(_option("scale", wide, scaled, chosen=moved))
    return tuple(options)


def _option(name: str, batch: Batch, scaled: ScaledLr, chosen: bool) -> Option:
    return Option(
        name=name,
        global_batch=batch.global_batch,
        micro_batch=batch.micro_batch,
        accumulation=batch.accumulation,
        lr=scaled.lr,
        tier=scaled.tier,
        sweep=scaled.sweep,
        chosen=chosen,
        why=scaled.why,
    )


def batch_rows(base: Base, batch: Batch) -> list[Resolved]:
    """Rows for the global batch and its cut."""
    held = batch.global_batch == base.tuned_batch
    cut = f"{batch.micro_batch} x {batch.accumulation} accumulated x {batch.num_ranks} ranks"
    rows = (
        (
            "global_batch",
            base.tuned_batch,
            batch.global_batch,
            "held: the number of ranks alone changes nothing" if held else cut,
        ),
        ("micro_batch", base.tuned_batch, batch.micro_batch, "samples of one rank in one pass"),
        ("accumulation", 1, batch.accumulation, "passes added up before an update, exactly the large batch"),
    )
    return [
        Resolved(field=field, before=before, value=value, why=why, source="definition", confidence="high")
        for field, before, value, why in rows
    ]


def lr_row(base: Base, scaled: ScaledLr) -> Resolved:
    """The row of the learning rate; a list of rates in tier low."""
    return Resolved(
        field="lr",
        before=base.lr,
        value=list(scaled.sweep) if scaled.tier == "low" else scaled.lr,
        why=scaled.why,
        source=scaled.source,
        confidence=scaled.tier,
    )
