"""Ways to keep the data in another form: decoded on disk, many small files in one, decoded in memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from hemostat.data.leaves import tensors
from hemostat.data.probing import Advice, Subject, unfit
from hemostat.units import format_bytes, format_seconds

FEW_FILES: Final = 64
SMALL_BYTES: Final = 1 << 20
SAMPLE_FILES: Final = 512
SAMPLE_BYTES: Final = 64 << 20
_NAMES: Final = ("files", "paths", "filenames", "samples", "imgs")  # as data sets of images call their list
_MEMORY_SHARE: Final = 0.5  # of this machine's, for a cache


def stored_copy(subject: Subject) -> Advice:
    """Write what one batch holds many times over into files, and gather batches from them."""
    leaves = [leaf.detach().contiguous() for leaf in subject.leaves if leaf.dim()]
    if not any(leaf.dim() > 1 for leaf in leaves):
        return unfit("stored copy", "a batch holds no tensor to store")
    rng = np.random.default_rng(0)
    with ExitStack() as files:
        stored = []
        for leaf in leaves:
            file = files.enter_context(tempfile.TemporaryFile())
            rows = leaf.cpu().flatten().view(torch.uint8).numpy()
            for _ in range(8):
                rows.tofile(file)
            file.flush()
            stored.append(np.memmap(file, np.uint8, mode="r", shape=(8 * len(leaf), rows.size // len(leaf))))
        picked = [rng.integers(0, len(rows), len(leaf)) for rows, leaf in zip(stored, leaves, strict=True)]

        def gather() -> list[torch.Tensor]:
            pairs = zip(stored, picked, leaves, strict=True)
            return [torch.from_numpy(rows[p]).view(leaf.dtype).view(leaf.shape) for rows, p, leaf in pairs]

        gather_s = subject.timed(gather)
    size = format_bytes(sum(leaf.nbytes for leaf in leaves) // subject.micro_batch)
    return Advice(
        "stored copy",
        subject.gain(gather_s),
        f"decode or tokenise once, `hemostat data prepare`: {size} a sample",
    )


def shards(subject: Subject) -> Advice:
    """Some of the files read one by one, and out of one memory-mapped file that holds them all."""
    files = files_of(subject.source.dataset)
    if len(files) < FEW_FILES:
        return unfit("shards", "the data set shows no list of many files")
    chosen = np.random.default_rng(0).permutation(len(files))[:SAMPLE_FILES]
    contents: list[tuple[Path, bytes]] = []
    held = 0
    for place in chosen.tolist():
        contents.append((files[place], files[place].read_bytes()))
        held += len(contents[-1][1])
        if held > SAMPLE_BYTES:
            break
    typical = int(np.median([len(content) for _, content in contents]))
    if typical > SMALL_BYTES:
        return unfit("shards", f"the files are large already ({format_bytes(typical)})")
    ends = np.cumsum([len(content) for _, content in contents]).tolist()
    starts = [0, *ends[:-1]]
    with tempfile.TemporaryFile() as file:
        file.write(b"".join(content for _, content in contents))
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as joined:
            one_s = subject.timed(lambda: [joined[a:b] for a, b in zip(starts, ends, strict=True)])
    single_s = subject.timed(lambda: [path.read_bytes() for path, _ in contents])
    one_s, single_s = one_s / len(contents), single_s / len(contents)
    what = (
        f"{len(files)} files of about {format_bytes(typical)} in one memory-mapped file: {format_seconds(one_s)} to "
        f"read one instead of {format_seconds(single_s)}, both from the page cache"
    )
    return Advice("shards", subject.gain_without((single_s - one_s) * subject.micro_batch), what)


def files_of(dataset: Any) -> Sequence[Path]:
    """The files that a data set names in one of its attributes, one a sample; empty where there are none."""
    while not any(hasattr(dataset, name) for name in _NAMES) and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    for name in _NAMES:
        listed = getattr(dataset, name, None)
        if not isinstance(listed, list | tuple) or not listed:
            continue
        items = [item[0] if isinstance(item, tuple) and item else item for item in listed]
        if all(isinstance(item, str | Path) for item in items) and Path(items[0]).is_file():
            return [Path(item) for item in items]
    return []


def cache(subject: Subject) -> Advice:
    """Batches out of decoded samples in memory: what was read is kept up to 64 MiB and read again."""
    sample_bytes = sum(leaf.nbytes for leaf in subject.leaves) / subject.micro_batch
    if not sample_bytes:
        return unfit("cache", "a batch holds no tensor to keep")
    total_bytes = sample_bytes * subject.source.num_samples
    room_bytes = _MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = min(1.0, room_bytes / total_bytes)
    kept_s = _from_memory(subject)
    what = f"keep decoded samples in memory: {format_bytes(int(total_bytes))} for all"
    if share < 1:
        what += f", {100 * share:.0f} % of them in half of this machine's memory"
    if subject.first_s > 2 * subject.fetch_s:
        what += (
            f"; the first reading took {subject.first_s / subject.fetch_s:.2g} times as long, as far disks do"
        )
    return Advice("cache", subject.gain(share * kept_s + (1 - share) * subject.fetch_s), what)


def _from_memory(subject: Subject) -> float:
    """Seconds of a batch out of memory, joined as the data set's batches are."""
    source, rng = subject.source, np.random.default_rng(0)
    if not source.one_by_one:
        leaves = [leaf for leaf in subject.leaves if leaf.dim()]
        wanted = torch.from_numpy(rng.permutation(min(map(len, leaves))))
        return subject.timed(lambda: [leaf[wanted] for leaf in leaves])
    kept: dict[int, Any] = {}
    held = 0
    for index in range(min(source.num_samples, 4 * subject.micro_batch)):
        kept[index] = source.dataset[index]
        held += sum(leaf.nbytes for leaf in tensors(kept[index]))
        if held > SAMPLE_BYTES:
            break
    picked = rng.integers(0, len(kept), subject.micro_batch).tolist()
    return subject.timed(lambda: source.collate([kept[index] for index in picked], picked))
