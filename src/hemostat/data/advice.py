"""What would make reading faster: each way in its order, with the gain measured on the data at hand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hemostat.data.choose import Workers, readers_allowed
from hemostat.data.fetch import Source
from hemostat.data.loader import EvalLoader

BUDGET_S: Final = 1.0  # for each way
_MOST_SAMPLES: Final = 4096


class Advice(NamedTuple):
    """One way to read faster.

    Attributes:
        way: short name, as in "batch fetch".
        gain: batches per second over reading as it is now in one thread; None where it was not measured.
        what: what to do, or why there is nothing to do.
    """

    way: str
    gain: float | None
    what: str


class Report(NamedTuple):
    """What was found.

    Attributes:
        fetch_s: seconds for one batch in one thread, the second time its samples are read.
        advice: the ways in the order of docs/data.md.
    """

    fetch_s: float
    advice: tuple[Advice, ...]


def advise(source: Source, micro_batch: int) -> Report:
    """Measure each way on the first samples of a data set; about a second each.

    Args:
        source: the data.
        micro_batch: samples in one batch of one rank.
    """
    micro_batch = min(micro_batch, source.num_samples)
    first_s, _ = _read(source, micro_batch)
    fetch_s, batch = _read(source, micro_batch)
    leaves = list(_tensors(batch))
    return Report(
        fetch_s,
        (
            _batch_fetch(source, micro_batch, fetch_s),
            _bytes(leaves, fetch_s),
            *_modes(source, micro_batch, fetch_s),
            _copy(leaves, fetch_s),
            _cache(first_s, fetch_s),
        ),
    )


def _batches(source: Source, micro_batch: int) -> Iterator[Tensor]:
    num = min(source.num_samples, _MOST_SAMPLES) // micro_batch
    return (torch.arange(k * micro_batch, (k + 1) * micro_batch) for k in range(max(1, num)))


def _read(source: Source, micro_batch: int) -> tuple[float, Any]:
    """Mean seconds of a batch, and the last one."""
    fetch = source.reader()
    began, count, batch = perf_counter(), 0, None
    for indices in _batches(source, micro_batch):
        batch = fetch(indices)
        count += 1
        if perf_counter() - began > BUDGET_S:
            break
    return (perf_counter() - began) / count, batch


def _timed(work: Callable[[], Any]) -> float:
    """Seconds of one call, of many."""
    work()
    began, count = perf_counter(), 0
    while (spent := perf_counter() - began) < BUDGET_S / 10 or count < 3:
        work()
        count += 1
    return spent / count


def _gain(before_s: float, after_s: float) -> float:
    return before_s / max(after_s, 1e-9)


def _batch_fetch(source: Source, micro_batch: int, fetch_s: float) -> Advice:
    if source.stream or not source.one_by_one:
        return Advice("batch fetch", None, "it is read in batches already, or is a stream")
    dataset = source.dataset
    samples = [dataset[index] for index in range(micro_batch)]
    collate_s = _timed(lambda: source.collate(samples, list(range(micro_batch))))
    share = min(1.0, collate_s / fetch_s)
    what = f"give it __getitems__: joining samples is {100 * share:.0f} % of a batch; what it saves itself is on top"
    return Advice("batch fetch", _gain(fetch_s, max(fetch_s - collate_s, 0.05 * fetch_s)), what)


def _bytes(leaves: list[Tensor], fetch_s: float) -> Advice:
    large = max((leaf for leaf in leaves if leaf.dtype == torch.float32), key=Tensor.numel, default=None)
    if large is None or large.dim() < 4:
        return Advice("uint8", None, "no images as floats in a batch")
    pixels = torch.zeros(large.shape, dtype=torch.uint8)
    normal_s = _timed(lambda: (pixels.float() / 255 - 0.45) / 0.225)
    what = f"ship uint8 and normalise on the device: 4 times fewer bytes, {1e3 * normal_s:.2g} ms a batch saved here"
    return Advice("uint8", _gain(fetch_s, max(fetch_s - normal_s, 0.05 * fetch_s)), what)


def _modes(source: Source, micro_batch: int, fetch_s: float) -> Iterator[Advice]:
    most = readers_allowed()
    kinds = [("threads", 1)] if source.stream else [("threads", 1), ("threads", most), ("processes", most)]
    for mode, num in dict.fromkeys(kinds):
        seconds = _drained(source, micro_batch, Workers(mode=mode, num=num))  # type: ignore[arg-type]
        yield Advice(
            f"{mode} {num}",
            _gain(fetch_s, seconds),
            f"--set train.workers.mode={mode} --set train.workers.num={num}",
        )


def _drained(source: Source, micro_batch: int, workers: Workers) -> float:
    """Seconds of a batch once the readers run."""
    loader = EvalLoader(source, micro_batch=micro_batch, workers=workers)
    batches = iter(loader)
    try:
        for _ in islice(batches, 2 if len(loader) > 4 else 0):
            pass
        began, count = perf_counter(), 0
        for _ in batches:
            count += 1
            if perf_counter() - began > BUDGET_S:
                break
        return (perf_counter() - began) / max(count, 1)
    finally:
        loader.close()


def _copy(leaves: list[Tensor], fetch_s: float) -> Advice:
    """Write what one batch holds many times over into a file, and gather batches from it."""
    arrays = [
        leaf.contiguous().view(torch.uint8).numpy().reshape(len(leaf), -1)
        for leaf in leaves
        if leaf.dim() > 1
    ]
    if not arrays:
        return Advice("stored copy", None, "a batch holds no tensor to store")
    rows = np.concatenate(arrays, axis=1)
    with tempfile.TemporaryFile() as file:
        for _ in range(8):
            rows.tofile(file)
        file.flush()
        stored = np.memmap(file, np.uint8, mode="r", shape=(8 * len(rows), rows.shape[1]))
        wanted = np.random.default_rng(0).integers(0, len(stored), len(rows))
        gather_s = _timed(lambda: stored[wanted])
    mib = rows.nbytes / len(rows) / 2**20
    return Advice(
        "stored copy", _gain(fetch_s, gather_s), f"decode or tokenise once: {mib:.3g} MiB a sample on disk"
    )


def _cache(first_s: float, fetch_s: float) -> Advice:
    what = f"the first reading took {1e3 * first_s:.3g} ms a batch, the second {1e3 * fetch_s:.3g} ms"
    return Advice(
        "local cache", None, f"{what}; where the first is far slower, keep the data on a local disk"
    )


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _tensors(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _tensors(value)
