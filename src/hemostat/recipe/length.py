"""Length of a run: epochs, samples, tokens and steps into each other; windows never cross an epoch."""

from __future__ import annotations

import math

from hemostat.recipe.one_device import Base


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


def run_samples(base: Base) -> int:
    """Length of the one-device run in samples; 0 where neither it nor the data set's size is given.

    Examples:
        >>> run_samples(Base(epochs=3, num_train_samples=1000)), run_samples(Base(epochs=3))
        (3000, 0)
        >>> run_samples(Base(num_train_samples=1000))  # one epoch where nothing is said
        1000
    """
    if base.total_samples is not None:
        return base.total_samples
    if base.num_train_samples is None:
        return 0
    return samples_from_epochs(1.0 if base.epochs is None else base.epochs, base.num_train_samples)
