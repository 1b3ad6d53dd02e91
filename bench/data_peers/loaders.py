"""The loaders: each a function that makes an iterable of batches in a fresh random order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from data_peers.workloads import Workload
from hemostat.data import Feed, Source, TrainLoader

Make = Callable[[Workload, int], Iterable[Any]]


def hemostat(work: Workload, seed: int, source: Source | None = None) -> Iterable[Any]:
    """Nothing is set: the loader measures and chooses, inside of the time that is taken."""
    source = source or Source(work.ours)
    feed = Feed(seed=seed, global_batch=work.micro_batch, total_samples=10**9)
    return TrainLoader(source, feed)


def torch_loader(num_workers: int, many: bool) -> Make:
    """torch's DataLoader."""

    def make(work: Workload, seed: int) -> Iterable[Any]:
        return _endless(DataLoader, work, seed, num_workers, many)

    return make


def stateful(num_workers: int, many: bool) -> Make:
    """torchdata's StatefulDataLoader."""

    def make(work: Workload, seed: int) -> Iterable[Any]:
        from torchdata.stateful_dataloader import StatefulDataLoader

        return _endless(StatefulDataLoader, work, seed, num_workers, many)

    return make


def _endless(kind: Any, work: Workload, seed: int, num_workers: int, many: bool) -> Iterator[Any]:
    """Epoch after epoch of one loader, whose workers stay."""
    torch.manual_seed(seed)
    # a batch comes back from __getitems__ whole, so there is nothing to collate
    collate = {"collate_fn": _as_it_is} if many else {}
    loader = kind(
        work.many if many else work.item,
        work.micro_batch,
        shuffle=True,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        **collate,
    )
    while True:
        yield from loader


def _as_it_is(batch: Any) -> Any:
    return batch


class _ArraySource:
    """Grain collates numpy arrays, not tensors."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Any:
        x, y = self.dataset[int(index)]
        return np.asarray(x), np.asarray(y)


def grain(num_threads: int) -> Make:
    """Google's Grain."""

    def make(work: Workload, seed: int) -> Iterable[Any]:
        import grain.python as pygrain

        data = pygrain.MapDataset.source(_ArraySource(work.item)).seed(seed).shuffle().repeat()
        options = pygrain.ReadOptions(num_threads=num_threads, prefetch_buffer_size=4 * work.micro_batch)
        return data.to_iter_dataset(options).batch(work.micro_batch)

    return make


def spdl(num_threads: int) -> Make:
    """Meta's SPDL, fetching whole batches in threads."""

    def make(work: Workload, seed: int) -> Iterable[Any]:
        from spdl.pipeline import PipelineBuilder

        def order() -> Iterator[list[int]]:
            rng = np.random.default_rng(seed)
            while True:
                chosen = rng.permutation(len(work.many))  # type: ignore[arg-type]
                for start in range(0, len(chosen) - work.micro_batch + 1, work.micro_batch):
                    yield chosen[start : start + work.micro_batch].tolist()

        builder = PipelineBuilder().add_source(order())
        builder = builder.pipe(work.many.__getitems__, concurrency=num_threads, output_order="input")
        return _piped(builder.add_sink(4).build(num_threads=num_threads))

    return make


def _piped(pipeline: Any) -> Iterator[Any]:
    with pipeline.auto_stop():
        yield from pipeline


LOADERS: dict[str, Make] = {
    "hemostat": hemostat,
    "torch_0": torch_loader(0, many=False),
    "torch_1": torch_loader(1, many=False),
    "torch_2": torch_loader(2, many=False),
    "torch_many_0": torch_loader(0, many=True),
    "torch_many_2": torch_loader(2, many=True),
    "stateful_0": stateful(0, many=False),
    "stateful_2": stateful(2, many=False),
    "stateful_many_0": stateful(0, many=True),
    "stateful_many_2": stateful(2, many=True),
    "grain_0": grain(0),
    "grain_2": grain(2),
    "spdl_1": spdl(1),
    "spdl_2": spdl(2),
    "spdl_4": spdl(4),
}
