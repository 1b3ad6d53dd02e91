"""What is looked at when a step was not finite: the samples that hold NaN or infinity."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from hemostat.data import Feed, Order, Source, TrainLoader


def name_samples(source: Source, seed: int, before: int, after: int) -> str:
    """Where somebody finds the samples between two positions of a run.

    Args:
        source: the training data.
        seed: of the order.
        before: position of the first, in samples over all ranks and epochs.
        after: behind the last.
    """
    epoch, start = divmod(before, source.num_samples)
    stop = start + after - before
    if source.stream:
        return f"samples {start} to {stop - 1} of the stream"
    return f"hemostat.data.Order({source.num_samples}, seed={seed}).indices({epoch}, {start}, {stop})"


def nonfinite_samples(source: Source, feed: Feed, start_samples: int) -> list[int]:
    """Samples of one rank's share of a window that hold NaN or infinity, by their index in the data set.

    The window is fetched again, so nothing has to be kept while all is well.

    Args:
        source: the training data.
        feed: sizes, seed and rank.
        start_samples: where the window starts, in samples over all ranks and epochs.
    """
    epoch, start = divmod(start_samples, source.num_samples)
    rows: list[int] = []
    seen = 0
    for micro in TrainLoader(source, feed, start_samples=start_samples):
        rows += [seen + row for row in nonfinite_rows(micro.data) if row < micro.num_samples]
        seen += micro.num_samples
        if micro.last:
            start += micro.window_samples * feed.rank // feed.num_ranks
            break
    if not rows:
        return []
    if source.stream:  # its positions are its samples
        return [start + row for row in rows]
    indices = Order(source.num_samples, feed.seed).indices(epoch, start, start + seen)
    return [int(indices[row]) for row in rows]


def nonfinite_rows(batch: Any) -> list[int]:
    """Rows of a batch in which any floating tensor holds NaN or infinity.

    Args:
        batch: any tree of tensors whose first dim is the row.

    Examples:
        >>> nonfinite_rows((torch.tensor([[1.0], [float("nan")]]), torch.tensor([0, 1])))
        [1]
    """
    rows: set[int] = set()
    for leaf in tensor_leaves(batch):
        if leaf.is_floating_point() and leaf.dim() > 0:
            bad = ~torch.isfinite(leaf.detach().reshape(leaf.shape[0], -1)).all(dim=1)
            rows.update(bad.nonzero().flatten().tolist())
    return sorted(rows)


def same_leaves(first: Any, second: Any) -> bool:
    """Two batches hold the same tensors; NaN equals NaN.

    Examples:
        >>> same_leaves({"x": torch.ones(2)}, {"x": torch.ones(2)}), same_leaves([torch.ones(2)], [torch.zeros(2)])
        (True, False)
    """
    pairs = list(zip(tensor_leaves(first), tensor_leaves(second), strict=True))
    return all(
        a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=0, atol=0, equal_nan=True)
        for a, b in pairs
    )


def leaves_digest(batch: Any) -> str:
    """The same text for equal tensors, and another one for others.

    Examples:
        >>> leaves_digest([torch.ones(2)]) == leaves_digest([torch.ones(2)]) != leaves_digest([torch.zeros(2)])
        True
    """
    digest = hashlib.sha256()
    for leaf in tensor_leaves(batch):
        digest.update(f"{leaf.dtype}{tuple(leaf.shape)}".encode())
        if leaf.numel():
            digest.update(leaf.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def tensor_leaves(tree: Any) -> Iterator[torch.Tensor]:
    """The tensors of a batch, in the order of its tree."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from tensor_leaves(value)
    elif isinstance(tree, tuple | list):
        for value in tree:
            yield from tensor_leaves(value)
