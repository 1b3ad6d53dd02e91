"""What a job of `hemostat verify` notes of its runs, and the file that carries it to the command."""

from __future__ import annotations

from pathlib import Path

import msgspec

Sketches = dict[str, list[float]]
_FILE = "traces.json"


class StepTrace(msgspec.Struct, kw_only=True):
    """One step of a watched run, over all ranks.

    Attributes:
        samples: position afterwards.
        rows: digest of each sample, in the order of the global batch.
        loss_sum, count: over all micro-batches.
        pieces: micro-batches that held samples.
        gradients, weights: per parameter its norm and four projections; weights are those afterwards.
        rates: learning rate of each group.
        gradient_digest: of all gradients; sketches are sums, whose last bits follow the memory they lie in.
        digests: of the weights of each rank.
    """

    samples: int
    rows: list[str]
    loss_sum: float
    count: float
    pieces: int
    gradients: Sketches
    gradient_digest: str
    rates: list[float]
    weights: Sketches
    digests: list[str]


class Trace(msgspec.Struct, kw_only=True):
    """One watched run: its steps, and the metrics of its last evaluation."""

    steps: list[StepTrace] = []
    metrics: dict[str, float] = {}


class Job(msgspec.Struct, kw_only=True):
    """All runs of one job, and what the model and the data are.

    Attributes:
        traces: by name of the leg.
        samples, of_samples, batch: how the data were cut short.
        samples_seen: the digests of the first samples on each rank, read one by one; empty for streams.
        random_data: a sentence if two reads of a sample differ.
        dropouts: modules whose dropout was off.
        batch_norms: modules with statistics of the batch.
    """

    traces: dict[str, Trace] = {}
    samples: int = 0
    of_samples: int = 0
    batch: int = 0
    samples_seen: list[str] = []
    random_data: str = ""
    dropouts: list[str] = []
    batch_norms: list[str] = []


def write_job(job: Job, run_dir: Path) -> None:
    """Leave a job's notes in its run directory."""
    (run_dir / _FILE).write_bytes(msgspec.json.encode(job))


def read_job(run_dir: Path) -> Job:
    """What `write_job` left."""
    return msgspec.json.decode((run_dir / _FILE).read_bytes(), type=Job)
