"""What a worker process does: fetch batches into shared memory until its parent is done or gone."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

import numpy as np
import torch

from hemostat.data.fetch import Source
from hemostat.data.reading import READING, Cell
from hemostat.data.ring import Ring, TooLargeError, write
from hemostat.errors import HemostatError

_LEASH_S: Final = 1.0
_MAX_TRACE: Final = 8000  # characters


class Request(NamedTuple):
    """One batch to fetch: its indices stand at the start of the slot."""

    number: int
    slot: int
    num_indices: int
    epoch: int


class Answer(NamedTuple):
    """What became of a request: `spec` where it is there, `needed_bytes` where the slot was too small, `error`
    (message, traceback, from hemostat's own tree) where the user's code raised."""

    number: int
    fetch_s: float
    spec: tuple[int, int] | None = None
    needed_bytes: int = 0
    error: tuple[str, str, bool] | None = None


class Desk(NamedTuple):
    """What a worker inherits from its parent by the fork."""

    requests: Connection
    ring: Ring
    source: Source
    seed: int
    cell: Cell
    dump_fd: int
    parent: int


def serve(desk: Desk) -> None:
    """Answer requests until None comes, the pipe closes or the parent dies."""
    _settle(desk)
    while True:
        try:
            request: Request | None = desk.requests.recv()
        except EOFError:
            return
        if request is None:
            return
        try:
            desk.requests.send(_answer(desk, request))
        except BrokenPipeError:
            return


def _settle(desk: Desk) -> None:
    # the parent decides when to stop; a worker that dies of the same Ctrl-C would look like a fault
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    faulthandler.enable(desk.dump_fd)
    faulthandler.register(signal.SIGUSR1, desk.dump_fd, all_threads=False)
    torch.set_num_threads(1)
    READING.cell = desk.cell
    READING.seed = desk.seed
    threading.Thread(target=_leash, args=(desk.parent,), daemon=True).start()


def _leash(parent: int) -> None:
    """After a kill -9 nobody tells a worker that is busy."""
    while os.getppid() == parent:
        time.sleep(_LEASH_S)
    os._exit(1)


def _answer(desk: Desk, request: Request) -> Answer:
    memory = desk.ring.slot(request.slot)
    indices = torch.from_numpy(memory[: 8 * request.num_indices].view(np.int64).copy())
    READING.epoch = request.epoch
    READING.cell[0] = -1
    _seed(desk.seed, request.epoch, int(indices[0]))
    began = time.perf_counter()
    try:
        spec = write(memory, desk.source.fetch(indices))
    except TooLargeError as error:
        return Answer(request.number, 0.0, needed_bytes=error.needed_bytes)
    except BaseException as error:  # noqa: BLE001 - the boundary: the parent raises it again
        ours = isinstance(error, HemostatError)
        text = str(error) if ours else f"{type(error).__name__}: {error}"
        trace = "".join(traceback.format_exception(error.__cause__ or error))
        return Answer(request.number, 0.0, error=(text[:_MAX_TRACE], trace[-_MAX_TRACE:], ours))
    return Answer(request.number, time.perf_counter() - began, spec)


def _seed(seed: int, epoch: int, first: int) -> None:
    """The global generators: else all workers would draw what the parent had at the fork."""
    key = hash((seed, epoch, first)) & 0xFFFFFFFF
    random.seed(key)
    np.random.seed(key)
    torch.manual_seed(key)
