"""Length of a run: epochs, samples, tokens and steps into each other; windows never cross an epoch."""

from __future__ import annotations

import math

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.recipe.field_checks import check_int, check_number


class RunLength(Config, frozen=True, kw_only=True):
    """One length of a run in every unit.

    Attributes:
        samples: samples that are trained on.
        steps: updates that consume them.
        epochs: passes over the data; None where its size was not given.
        tokens: tokens in the samples; None where a sample has no known number of tokens.
    """

    samples: int
    steps: int
    epochs: float | None = None
    tokens: int | None = None


def convert_length(
    *,
    global_batch: int,
    epochs: float | None = None,
    samples: int | None = None,
    steps: int | None = None,
    tokens: int | None = None,
    num_train_samples: int | None = None,
    sample_tokens: int | None = None,
) -> RunLength:
    """Epochs, samples, steps or tokens (one of them) into all of them.

    Args:
        global_batch: samples behind one update.
        epochs: passes over the data, a fraction is allowed; needs num_train_samples.
        samples: samples to train on.
        steps: updates; without num_train_samples every one is a full batch.
        tokens: tokens, rounded up to whole samples; needs sample_tokens.
        num_train_samples: size of the training set; no window then crosses the end of an epoch.
        sample_tokens: tokens in a sample.

    Raises:
        FieldError: not exactly one length, or one without the size that it needs.

    Source: definition; `steps_from_samples` and `samples_from_steps` hold the rule about epochs.

    Examples:
        >>> convert_length(epochs=2.5, num_train_samples=1000, global_batch=128)
        RunLength(samples=2500, steps=20, epochs=2.5, tokens=None)
        >>> convert_length(steps=20, num_train_samples=1000, global_batch=128).samples  # 8 + 8 + 4 x 128
        2512
        >>> convert_length(tokens=2_000_000_000, sample_tokens=2048, global_batch=512).steps
        1908
    """
    _check_lengths({"epochs": epochs, "samples": samples, "steps": steps, "tokens": tokens})
    sizes = {
        "global_batch": global_batch,
        "num_train_samples": num_train_samples,
        "sample_tokens": sample_tokens,
    }
    for name, size in sizes.items():
        check_int(name, size, minimum=1)
    if epochs is not None:
        samples = samples_from_epochs(epochs, _needed("num_train_samples", num_train_samples, "epochs"))
    elif tokens is not None:
        samples = samples_from_tokens(tokens, _needed("sample_tokens", sample_tokens, "tokens"))
    elif steps is not None:
        samples = samples_from_steps(steps, global_batch, num_train_samples)
    count = samples or 0
    return RunLength(
        samples=count,
        steps=steps_from_samples(count, global_batch, num_train_samples),
        epochs=None if num_train_samples is None else count / num_train_samples,
        tokens=None if sample_tokens is None else count * sample_tokens,
    )


def _check_lengths(given: dict[str, float | None]) -> None:
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise FieldError(
            "length",
            " and ".join(named) or None,
            "must be given once",
            "Give one of epochs, samples, steps, tokens.",
        )
    check_number("epochs", given["epochs"], above=0.0)
    for name in ("samples", "steps", "tokens"):
        check_int(name, given[name], minimum=1)


def _needed(name: str, value: int | None, unit: str) -> int:
    if value is None:
        raise FieldError(name, None, f"is needed to count {unit}", "Give it.")
    return value


def samples_from_epochs(epochs: float, num_train_samples: int) -> int:
    """Samples in a number of epochs, rounded up; a fraction of an epoch is allowed.

    Source: definition.

    Examples:
        >>> samples_from_epochs(2.5, 1001)
        2503
    """
    return math.ceil(epochs * num_train_samples - 1e-9)


def samples_from_tokens(num_tokens: int, sample_tokens: int) -> int:
    """Samples that hold at least so many tokens.

    Source: definition.

    Examples:
        >>> samples_from_tokens(2_000_000_000, 2048)
        976563
    """
    return -(-num_tokens // sample_tokens)


def steps_from_samples(num_samples: int, global_batch: int, num_train_samples: int | None = None) -> int:
    """Updates that consume so many samples.

    The last window of every epoch is ragged, so that no window crosses an epoch: each whole epoch takes
    ceil(n / G) updates. Without a known epoch: ceil(samples / G).

    Source: definition; the rule about epochs is this project's (docs/recipe.md).

    Examples:
        >>> steps_from_samples(2500, 128, num_train_samples=1000)
        20
        >>> steps_from_samples(2500, 128)
        20
        >>> steps_from_samples(2000, 128, num_train_samples=1000)
        16
    """
    if num_train_samples is None:
        return -(-num_samples // global_batch)
    epochs, rest = divmod(num_samples, num_train_samples)
    return epochs * -(-num_train_samples // global_batch) + -(-rest // global_batch)


def samples_from_steps(num_steps: int, global_batch: int, num_train_samples: int | None = None) -> int:
    """The most samples that so many updates consume, from the start of an epoch.

    The other direction of `steps_from_samples`: the last update of an epoch takes only what is left.

    Source: definition; the rule about epochs is this project's (docs/recipe.md).

    Examples:
        >>> samples_from_steps(20, 128), samples_from_steps(20, 128, num_train_samples=1000)
        (2560, 2512)
    """
    if num_train_samples is None:
        return num_steps * global_batch
    epochs, rest = divmod(num_steps, -(-num_train_samples // global_batch))
    return epochs * num_train_samples + rest * global_batch


def samples_per_period(num_steps: int, global_batch: int, num_train_samples: int | None = None) -> float:
    """Samples between two events that come every `num_steps` updates, as the mean over a long run.

    Source: definition: an epoch has n samples in ceil(n / G) updates.

    Examples:
        >>> samples_per_period(3, 128), samples_per_period(3, 128, num_train_samples=1000)
        (384, 375.0)
    """
    if num_train_samples is None:
        return num_steps * global_batch
    return num_steps * num_train_samples / -(-num_train_samples // global_batch)
