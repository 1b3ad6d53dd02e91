"""From one-device hyper-parameters to what the engine is built of: the recipe, its stopper, its optimizer settings."""

from __future__ import annotations

import msgspec
import torch

from hemostat.data import Feed
from hemostat.errors import FieldError
from hemostat.recipe import Base, Devices, Recipe, Stopper, convert
from hemostat.train.own_optimizer import fill_base
from hemostat.train.parallel.arrange import Arranged
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.precision import Precision
from hemostat.train.settings import TrainSettings
from hemostat.train.update import Updater, build_optimizer
from hemostat.units import format_number

FILL = 4  # micro-batches for each pipeline rank: a bubble below a quarter under 1F1B


def complete_base(base: Base, optimizer: torch.optim.Optimizer | None, settings: TrainSettings) -> Base:
    """What works on one device, with what the script's own optimizer and the engine's settings add to it."""
    if optimizer is not None:
        base = fill_base(base, optimizer)
    return base if settings.precision is None else msgspec.structs.replace(base, precision=settings.precision)


def resolve_recipe(base: Base, devices: Devices, num_samples: int, mesh: Mesh) -> Recipe:
    """The recipe for the ranks that are there and the data that were given.

    Args:
        base: what works on one device.
        devices: the batch on the devices at hand; ranks and device are taken from `mesh`.
        num_samples: size of the training set.
        mesh: the ranks.

    Raises:
        FieldError: the recipe names another size of the data, or contradicts itself.
    """
    if base.num_train_samples not in (None, num_samples):
        raise FieldError(
            "num_train_samples", base.num_train_samples, f"train_data has {num_samples}", "Leave it out."
        )
    num_ranks = mesh.num_data_ranks
    if devices.num_ranks not in (1, num_ranks):
        shared = "" if mesh.layout.is_dp else f" with samples of their own in layout {mesh.layout}"
        raise FieldError(
            "num_ranks",
            devices.num_ranks,
            f"this job has {num_ranks} process{'es' * (num_ranks > 1)}{shared}",
            f"Run it with --nproc {devices.num_ranks}, or make a recipe for {num_ranks}.",
        )
    if base.ema is not None:
        raise FieldError("ema", base.ema, "the trainer keeps no average of the weights", "Leave it out.")
    base = msgspec.structs.replace(base, num_train_samples=num_samples)
    device = devices.device or (
        "cpu" if mesh.device.type == "cpu" else torch.cuda.get_device_name(mesh.device)
    )
    recipe = convert(base, msgspec.structs.replace(devices, num_ranks=num_ranks, device=device))
    if mesh.layout.pp > 1 and devices.accumulation is None and devices.micro_batch is None:
        recipe = recut(recipe, FILL * mesh.layout.pp, f"to fill {mesh.layout.pp} pipeline stages")
    if recipe.is_sweep:
        rates = ", ".join(format_number(rate) for rate in recipe.sweep)
        raise FieldError(
            "global_batch",
            recipe.global_batch,
            f"is {format_number(recipe.batch_ratio)} times the tuned batch, where no rule is sure; try lr in {rates}",
            f"Give the best one with tuned_batch={recipe.global_batch}, or choose a rule: lr_rule=linear or sqrt.",
        )
    return recipe


def new_updater(
    recipe: Recipe,
    parts: Arranged,
    precision: Precision,
    optimizer: torch.optim.Optimizer | None,
    own_lr: float,
    *,
    fused: bool = False,
) -> Updater:
    """The updates of a run, with the script's own optimizer or the one that the recipe names.

    Args:
        recipe: what is followed.
        parts: the model on this rank.
        precision: unscales the gradients.
        optimizer: the script's own, or None.
        own_lr: the rate that it was written for.
        fused: build one that can skip a step on the device, where torch has it.
    """
    if optimizer is not None:
        return Updater(optimizer, precision, recipe.clip_norm, own_lr, parts.norm)
    params = [param for param in parts.model.parameters() if param.requires_grad]
    built = build_optimizer(recipe.optimizer, params, optimizer_settings(recipe), fused=fused)
    return Updater(built, precision, recipe.clip_norm, recipe.lr, parts.norm)


def new_stopper(recipe: Recipe) -> Stopper:
    """Early stopping and plateau halving as the recipe has them."""
    return Stopper(
        patience_evals=recipe.patience_evals,
        plateau_patience=recipe.plateau_patience,
        plateau_factor=recipe.plateau_factor,
        min_delta=recipe.min_delta,
        mode=recipe.metric_mode,
        not_before_step=recipe.not_before_step,
    )


def optimizer_settings(recipe: Recipe) -> dict[str, float]:
    """The optimizer's own arguments, without those that were left to torch."""
    names = ("lr", "momentum", "beta1", "beta2", "eps", "weight_decay")
    values = {name: getattr(recipe, name) for name in names}
    return {name: float(value) for name, value in values.items() if value is not None}


def find_price(settings: TrainSettings) -> float | None:
    """Dollars per hour for all devices together, or None where nobody said.

    Raises:
        FieldError: a price below 0, or an instance that is not in the table.
    """
    if settings.usd_per_hour is not None:
        if settings.usd_per_hour < 0:
            raise FieldError(
                "train.usd_per_hour", settings.usd_per_hour, "must be 0 or more", "Write dollars."
            )
        return settings.usd_per_hour
    if settings.instance is None:
        return None
    from hemostat.plan import price_usd_per_hour

    return price_usd_per_hour(settings.instance).usd_per_hour


def feed_of(recipe: Recipe, mesh: Mesh, seed: int) -> Feed:
    """What this rank is fed under a recipe."""
    return Feed(
        seed=seed,
        global_batch=recipe.global_batch,
        accumulation=recipe.accumulation,
        rank=mesh.data_rank,
        num_ranks=mesh.num_data_ranks,
        total_samples=recipe.total_samples,
    )


def recut(recipe: Recipe, accumulation: int, why: str) -> Recipe:
    """The same recipe with its global batch in other pieces.

    Args:
        recipe: as it stands.
        accumulation: micro-batches of a rank; at most as many as it has samples.
        why: one clause, for `--why`.

    Examples:
        >>> from hemostat.recipe import Base, Devices, convert
        >>> recipe = recut(convert(Base(lr=0.1, tuned_batch=24), Devices(num_ranks=2)), 2, "memory ran out")
        >>> recipe.global_batch, recipe.micro_batch, recipe.accumulation
        (24, 6, 2)
    """
    share = -(-recipe.global_batch // recipe.num_ranks)
    accumulation = min(accumulation, share)
    now = {"micro_batch": -(-share // accumulation), "accumulation": accumulation}
    values = tuple(
        msgspec.structs.replace(row, value=now[row.field], why=why, confidence="high")
        if row.field in now
        else row
        for row in recipe.values
    )
    return msgspec.structs.replace(recipe, **now, values=values)
