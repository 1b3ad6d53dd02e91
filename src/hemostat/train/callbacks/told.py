"""What a trainer tells of itself, and which settings a callback can heed."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.train.resolve import find_price
from hemostat.train.settings import TrainSettings

GUARDS: Final = ("spike", "divergence", "overfitting")
HEEDED: Final = (
    *("guards", "stop_on", "spike_deviations", "max_skips"),
    *("max_hours", "max_usd", "usd_per_hour", "instance", "record"),
)


class Told(Config, frozen=True, kw_only=True):
    """What a trainer says of itself before its first step.

    Attributes:
        library: its name and version, such as "transformers 5.24.0".
        monitor: metric that is followed.
        mode: "min" or "max".
        total_steps: optimizer steps of the whole run; 0 where it is not known.
        loss_every_steps: steps between two losses that are told.
        values: hyper-parameters under the names of a recipe: lr, global_batch, micro_batch, accumulation and so on.
        options: all settings of the trainer under its own names.
        data: what is known of the training data.
    """

    library: str
    monitor: str = "val_loss"
    mode: Literal["min", "max"] = "min"
    total_steps: int = 0
    loss_every_steps: int = 1
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    data: dict[str, Any] = msgspec.field(default_factory=dict)


def check_settings(settings: TrainSettings) -> TrainSettings:
    """Refuse settings that a callback cannot heed; what is left at its default is no wish.

    Raises:
        FieldError: one of the engine's own is set, or a guard that needs the engine is named.
    """
    plain = TrainSettings()
    for name in TrainSettings.__struct_fields__:
        value, default = getattr(settings, name), getattr(plain, name)
        if value == default:
            continue
        if name not in HEEDED:
            raise FieldError(
                f"train.{name}", value, "belongs to the trainer here", f"Known: {', '.join(HEEDED)}."
            )
        unknown = [guard for guard in value if guard not in GUARDS] if name in ("guards", "stop_on") else []
        if unknown:
            raise FieldError(
                f"train.{name}", unknown[0], "needs hemostat's own engine", f"Known: {', '.join(GUARDS)}."
            )
    find_price(settings)
    return settings
