"""Persistent gloo ranks for the tests: torch costs 1.8 s a process, so each world size is started once."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import socket
import sys
import traceback
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

JOB_TIMEOUT_S = 60.0


class RankFailedError(Exception):
    """One or more ranks raised; the text holds their tracebacks."""


class Pools:
    """One pool per world size, started on first use."""

    def __init__(self) -> None:
        self._pools: dict[int, Pool] = {}

    def __call__(self, num_ranks: int, function: Any, *args: Any) -> list[Any]:
        if num_ranks not in self._pools:
            self._pools[num_ranks] = Pool(num_ranks)
        try:
            return self._pools[num_ranks].run(function, *args)
        except (RankFailedError, TimeoutError):
            self._pools.pop(num_ranks).close()  # its process group may be out of step
            raise

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


class Pool:
    """`num_ranks` processes in one gloo group that run functions on demand."""

    def __init__(self, num_ranks: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "hemostat.train"])
        port = _free_port()
        self._links: list[Connection] = []
        self._processes = []
        for rank in range(num_ranks):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, num_ranks, port, theirs), daemon=True)
            process.start()
            theirs.close()
            self._links.append(ours)
            self._processes.append(process)

    def run(self, function: Any, *args: Any) -> list[Any]:
        job = (function.__code__.co_filename, function.__name__, args)
        for link in self._links:
            link.send(job)
        answers: dict[int, Any] = {}
        waiting = dict(enumerate(self._links))
        while waiting:
            ready = wait(list(waiting.values()), JOB_TIMEOUT_S)
            if not ready:
                said = "\n".join(f"rank {rank}:\n{text}" for rank, (ok, text) in answers.items() if not ok)
                raise TimeoutError(f"ranks {sorted(waiting)} did not answer within {JOB_TIMEOUT_S} s\n{said}")
            for rank in [rank for rank, link in waiting.items() if link in ready]:
                answers[rank] = waiting.pop(rank).recv()
        failed = [f"rank {rank}:\n{text}" for rank, (ok, text) in sorted(answers.items()) if not ok]
        if failed:
            raise RankFailedError("\n".join(failed))
        return [answers[rank][1] for rank in sorted(answers)]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _serve(rank: int, num_ranks: int, port: int, link: Connection) -> None:
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(num_ranks),
        LOCAL_RANK=str(rank),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    while True:
        try:
            file, name, args = link.recv()
        except EOFError:
            return
        try:
            link.send((True, getattr(_module(file), name)(*args)))
        except BaseException:  # noqa: BLE001 - told to the test, which fails with it
            link.send((False, traceback.format_exc()))


def _module(file: str) -> Any:
    name = f"pooled_{Path(file).stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
