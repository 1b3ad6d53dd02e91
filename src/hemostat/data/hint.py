"""The one thing to try next when a run has waited for its data, from what the run itself has shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hemostat.data.choose import readers_allowed
from hemostat.data.waits import BOUND_SHARE, JUDGED_S
from hemostat.units import format_seconds

if TYPE_CHECKING:
    from hemostat.data.loader import TrainLoader

# Of one sample; below it the calls cost more than the work: decoding a JPEG of 300 x 300 took 0.4 to 1.6 ms
# (bench/data_costs.py, 2026-11-30).
CALL_S: Final = 100e-6
JITTER: Final = 2.0  # a 99th percentile beyond so many steps is a reader that stumbles, not one that is slow


def hint(loader: TrainLoader, wall_s: float) -> str:
    """What to do first, in the order of docs/data.md; "" for a run that is not input-bound, or too short to tell.

    Pinned memory is left out: it shortens the copy to the device, which is no wait for data.

    Args:
        loader: of the run that has ended.
        wall_s: how long the run took.
    """
    waits, source = loader.waits, loader.source
    if wall_s < JUDGED_S or waits.share(wall_s) <= BOUND_SHARE or not waits.num_fetches:
        return ""
    fetch_s = waits.fetch_s / waits.num_fetches
    step_s = max(0.0, wall_s - waits.wait_s) / waits.num_fetches
    feed = loader.feed
    sample_s = fetch_s * feed.accumulation * feed.num_ranks / feed.global_batch
    costs = f"a batch costs {format_seconds(fetch_s)} to read, a step {format_seconds(step_s)}"
    workers, chosen = loader.workers, source.choice
    mode = workers.mode or (chosen.mode if chosen else "none")
    num = max(1, workers.num or (chosen.num if chosen else 1))
    if source.one_by_one and sample_s < CALL_S:
        return f"read whole batches, give the data set __getitems__ ({costs})"
    if not source.stream and loader.ships_float_images:
        return f"ship images as uint8 and normalise them on the device ({costs})"
    if workers.mode is not None and (mode == "none" or num < readers_allowed()):
        return f"leave train.workers.mode out, so that it is measured who should read ({costs})"
    if mode == "threads" and fetch_s < num * step_s and waits.quantile_s(0.99) > JITTER * step_s:
        return f"more batches ready, --set train.workers.depth={4 * (workers.depth or 2 * num)} ({costs})"
    if sample_s >= CALL_S or source.stream:
        return f"store the samples decoded or tokenised, `hemostat data prepare` ({costs})"
    return f"keep the data in memory or on a local disk ({costs})"
