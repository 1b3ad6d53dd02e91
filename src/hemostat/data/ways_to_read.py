"""Ways to read the same data faster: in batches, as bytes, by other readers, further ahead, into pinned memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from time import perf_counter, sleep
from typing import Final

import torch

from hemostat.data.choose import CHEAP_S, Workers, fork_fault, readers_allowed
from hemostat.data.leaves import float_images
from hemostat.data.loader import EvalLoader, TrainLoader
from hemostat.data.probing import Advice, Subject, unfit
from hemostat.data.windows import Feed
from hemostat.units import format_seconds

DEPTHS: Final = (1, 2, 4)
_USUAL_DEPTH: Final = 2  # of one thread
_MOST_BUDGETS: Final = 8  # of a way that needs many batches of slow data
_ROUNDS: Final = 2  # one after another over all depths, so that a busy moment does not hit one of them only


def batch_fetch(subject: Subject) -> Advice:
    """Without the time of joining single samples."""
    source, fetch_s = subject.source, subject.fetch_s
    if source.stream or not source.one_by_one:
        return unfit("batch fetch", "they are read in batches already, or are a stream")
    wanted = list(range(subject.micro_batch))
    samples = [source.dataset[index] for index in wanted]
    collate_s = subject.timed(lambda: source.collate(samples, wanted))
    share = min(1.0, collate_s / fetch_s)
    what = f"give it __getitems__: joining samples is {100 * share:.0f} % of a batch; what it saves itself is on top"
    return Advice("batch fetch", subject.gain_without(collate_s), what)


def uint8(subject: Subject) -> Advice:
    """Without the time of normalising on the host."""
    large = float_images(subject.batch)
    if large is None:
        return unfit("uint8", "no images as floats in a batch")
    pixels = torch.zeros(large.shape, dtype=torch.uint8)
    normal_s = subject.timed(lambda: (pixels.float() / 255 - 0.45) / 0.225)
    saved = format_seconds(normal_s)
    what = f"ship uint8 and normalise on the device: 4 times fewer bytes, {saved} a batch saved here"
    return Advice("uint8", subject.gain_without(normal_s), what)


def modes(subject: Subject) -> Iterator[Advice]:
    """The same batches read by threads and by processes."""
    most = readers_allowed()
    kinds = [("threads", 1)]
    if not subject.source.stream:
        kinds.append(("threads", most))
        if not fork_fault():
            kinds.append(("processes", most))
    for mode, num in dict.fromkeys(kinds):
        seconds = _drained(subject, Workers(mode=mode, num=num))
        what = f"--set train.workers.mode={mode} --set train.workers.num={num}"
        yield Advice(f"{mode} {num}", subject.gain(seconds), what)


def _drained(subject: Subject, workers: Workers) -> float:
    """Seconds of a batch once the readers run."""
    loader = EvalLoader(subject.source, micro_batch=subject.micro_batch, workers=workers)
    batches = iter(loader)
    try:
        for _ in islice(batches, 2 if len(loader) > 4 else 0):
            pass
        began, count = perf_counter(), 0
        for _ in batches:
            count += 1
            if perf_counter() - began > subject.budget_s:
                break
        return (perf_counter() - began) / max(count, 1)
    finally:
        loader.close()


def depth(subject: Subject) -> Advice:
    """One thread with 1, 2 and 4 batches ready, before steps as long as a fetch: where depth matters most."""
    if 2 * 4 * _ROUNDS * len(DEPTHS) * subject.fetch_s > _MOST_BUDGETS * subject.budget_s:
        return unfit(
            "depth", f"a batch of {subject.micro_batch} costs {format_seconds(subject.fetch_s)}: not measured"
        )
    if subject.fetch_s < CHEAP_S:
        return unfit("depth", f"a batch costs {format_seconds(subject.fetch_s)}, less than handing it over")
    spent_s = dict.fromkeys(DEPTHS, 0.0)
    for number in _ROUNDS * DEPTHS:
        spent_s[number] += _stepped(subject, number) / _ROUNDS
    rates = ", ".join(f"{1 / each:.3g}" for each in spent_s.values())
    numbers = ", ".join(map(str, DEPTHS))
    what = (
        f"--set train.workers.depth={DEPTHS[-1]}: depth {numbers} give {rates} batches/s before steps as long as a "
        f"fetch; over depth {_USUAL_DEPTH}"
    )
    return Advice("depth", spent_s[_USUAL_DEPTH] / spent_s[DEPTHS[-1]], what)


def _stepped(subject: Subject, number: int) -> float:
    """Seconds of a batch and a step that sleeps."""
    feed = Feed(seed=0, global_batch=subject.micro_batch, total_samples=2**62)
    loader = TrainLoader(subject.source, feed, workers=Workers(mode="threads", num=1, depth=number))
    batches = iter(loader)
    limit_s = subject.budget_s / (_ROUNDS * len(DEPTHS))
    try:
        next(batches)
        began, count = perf_counter(), 0
        while (spent := perf_counter() - began) < limit_s or count < 4:
            sleep(subject.fetch_s)
            next(batches)
            count += 1
        return spent / count
    finally:
        loader.close()


def pinning(subject: Subject) -> Advice:
    """The batch copied to the accelerator from pinned memory, and from where it lies."""
    if not torch.accelerator.is_available():
        return Advice("pinning", None, "not measured: no accelerator")
    device = torch.accelerator.current_accelerator()
    lying = subject.leaves
    pinned = [leaf.pin_memory() for leaf in lying]

    def copy(leaves: list[torch.Tensor]) -> None:
        for leaf in leaves:
            leaf.to(device, non_blocking=True)
        torch.accelerator.synchronize()

    usual_s, pinned_s = subject.timed(lambda: copy(lying)), subject.timed(lambda: copy(pinned))
    what = (
        f"pin_memory() in the collate_fn, for what the training thread or threads read (what processes read is copied "
        f"once more, out of the pin): the copy takes {format_seconds(pinned_s)} instead of {format_seconds(usual_s)}; "
        f"over fetch and copy"
    )
    return Advice("pinning", (subject.fetch_s + usual_s) / (subject.fetch_s + pinned_s), what)
