"""`World`: who this process is among the ranks, and the few collectives that carry decisions."""

from __future__ import annotations

import copy
import datetime
import os
import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from hemostat.errors import EnvironmentFailure, RankFailureError, UnknownNameError
from hemostat.train.pulse import Pulse

CONTROL_TIMEOUT_S = 600.0
START_TIMEOUT_S = 120.0


class World:
    """The ranks of one job, as seen from one of them.

    One rank needs no process group, so every method works without one. Decisions travel on a gloo group of
    their own, because a time-out there must not disturb the gradients and NCCL would add a host synchronisation.

    Attributes:
        rank: 0-based rank of this process.
        num_ranks: number of processes.
        local_rank: rank on this host; it picks the device and nothing else.
        device: where the model and its batches live.
        pulse: where this rank stands.
    """

    _num_joined = 0  # groups that this process has opened

    def __init__(
        self, *, rank: int = 0, num_ranks: int = 1, local_rank: int = 0, device: str | None = None
    ) -> None:
        self.rank = rank
        self.num_ranks = num_ranks
        self.local_rank = local_rank
        self.device = _pick_device(device, local_rank)
        self.pulse = Pulse()
        self._control: dist.ProcessGroup | None = None
        self._owns_group = False

    @classmethod
    def from_environment(cls, device: str | None = None) -> World:
        """Join the ranks that torch's elastic launcher describes in the environment; alone without it.

        Args:
            device: "cpu", "cuda" or None to take an accelerator where there is one.

        Raises:
            EnvironmentFailure: the rendezvous failed, as with a port in use.
            RankFailureError: some ranks did not come; they are named.
        """
        world = cls(
            rank=int(os.environ.get("RANK", "0")),
            num_ranks=int(os.environ.get("WORLD_SIZE", "1")),
            local_rank=int(os.environ.get("LOCAL_RANK", "0")),
            device=device,
        )
        if world.num_ranks > 1:
            world._join()
        return world

    @classmethod
    def of_open_group(cls, device: torch.device) -> World:
        """The ranks of a process group that somebody else has opened, alone without one; all of them must ask.

        Args:
            device: where that somebody computes.
        """
        is_open = dist.is_available() and dist.is_initialized()
        world = cls(
            rank=dist.get_rank() if is_open else 0,
            num_ranks=dist.get_world_size() if is_open else 1,
            device="cpu",
        )
        world.device = device
        if world.num_ranks > 1:
            world._open_control()
        return world

    def _open_control(self) -> None:
        self._control = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=CONTROL_TIMEOUT_S))

    def _join(self) -> None:
        backend = "nccl" if self.device.type == "cuda" else "gloo"
        if not dist.is_initialized():
            try:
                timeout = datetime.timedelta(seconds=CONTROL_TIMEOUT_S)
                dist.init_process_group(backend, timeout=timeout, **_meeting_place(World._num_joined))
            except (dist.DistNetworkError, dist.DistStoreError, ValueError) as error:
                where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
                raise EnvironmentFailure(
                    f"rank {self.rank} could not meet the others at {where}: {error}"
                ) from None
            self._owns_group = True
            World._num_joined += 1
        self._open_control()
        self.barrier(START_TIMEOUT_S)

    def barrier(self, timeout_s: float) -> None:
        """Wait for every rank.

        Raises:
            RankFailureError: some did not come within `timeout_s`; they are named.
        """
        if self._control is None:
            return
        try:
            dist.monitored_barrier(self._control, datetime.timedelta(seconds=timeout_s), wait_all_ranks=True)
        except RuntimeError as error:
            # gloo says "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 2000 ms" (rank 0), or names rank 0
            named = re.search(r"Ranks? ([\d, ]+) failed", str(error))
            who = f"rank {named[1].strip(', ')}" if named else "another rank"
            raise RankFailureError(
                f"rank {self.rank} waited {timeout_s:.0f} s, but {who} did not come"
            ) from None

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sum each value over the ranks in float64; all ranks get the same bits.

        Raises:
            RankFailureError: a rank left or did not answer.
        """
        if self._control is None:
            return list(values)
        vector = torch.tensor(values, dtype=torch.float64)
        self._guarded(partial(dist.all_reduce, vector, group=self._control))
        pooled: list[float] = vector.tolist()
        return pooled

    def sum_there(self, values: torch.Tensor) -> torch.Tensor:
        """Sum a vector over the ranks where it lies, in place; nobody waits for the device.

        Raises:
            RankFailureError: a rank left or did not answer, where that is noticed at once.
        """
        if self._control is not None:
            self._guarded(partial(dist.all_reduce, values))
        return values

    def from_rank_zero(self, text: str) -> str:
        """Rank 0's text, on every rank.

        Raises:
            RankFailureError: a rank left or did not answer.
        """
        return self._from(0, text)

    def from_last_rank(self, text: str) -> str:
        """The last rank's text, on every rank.

        Raises:
            RankFailureError: a rank left or did not answer.
        """
        return self._from(self.num_ranks - 1, text)

    def _from(self, source: int, text: str) -> str:
        if self._control is None:
            return text
        box = [text]
        self._guarded(partial(dist.broadcast_object_list, box, src=source, group=self._control))
        return box[0]

    def gather(self, text: str) -> list[str]:
        """Every rank's text, on every rank, in rank order.

        Raises:
            RankFailureError: a rank left or did not answer.
        """
        if self._control is None:
            return [text]
        box: list[Any] = [None] * self.num_ranks
        self._guarded(partial(dist.all_gather_object, box, text, group=self._control))
        return box

    def beside(self) -> World:
        """The same ranks on a group of their own, for a thread; all ranks must ask for it together."""
        other = copy.copy(self)
        other._owns_group, other.pulse = False, Pulse()
        self.pulse.saver = other.pulse
        if self._control is not None:
            timeout = datetime.timedelta(seconds=CONTROL_TIMEOUT_S)
            other._control = dist.new_group(backend="gloo", timeout=timeout)
        return other

    @property
    def group(self) -> dist.ProcessGroup | None:
        """The gloo group of all ranks that carries decisions; None for one rank."""
        return self._control

    def average_(self, tensors: Sequence[torch.Tensor], group: dist.ProcessGroup | None = None) -> None:
        """Replace each floating tensor by its mean over the ranks, or those of a group, in place."""
        if self._control is None:
            return
        for tensor in tensors:
            if tensor.is_floating_point():
                wide = tensor.double()  # so that equal values stay what they are, bit for bit
                self._guarded(partial(dist.all_reduce, wide, group=group))
                tensor.copy_(wide / dist.get_world_size(group))

    def _guarded(self, collective: Callable[[], object]) -> None:
        self.pulse.meet()
        try:
            collective()
        except RuntimeError as error:
            late = "time" in str(error).lower()
            what = f"waited over {CONTROL_TIMEOUT_S:.0f} s for another rank" if late else "lost another rank"
            known = self.pulse.who_is_late() if late else ""
            raise RankFailureError(known or f"rank {self.rank} {what}") from error

    def close(self) -> None:
        """Leave the process group, if this object opened it."""
        if self._owns_group and dist.is_initialized():
            dist.destroy_process_group()
            self._owns_group = False
        self._control = None


def _meeting_place(number: int) -> dict[str, Any]:
    """Where the ranks meet.

    A later session of the same job, and ranks that were started again (torch's agent keeps one store for all
    attempts), would find the addresses of the dead there, so each has a corner of its own.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if number == 0 and attempt == "0":
        return {}  # as the environment says
    store, rank, num_ranks = next(rendezvous("env://"))
    corner = PrefixStore(f"attempt{attempt}/session{number}", store)
    return {"store": corner, "rank": rank, "world_size": num_ranks}


def _pick_device(wanted: str | None, local_rank: int) -> torch.device:
    if wanted not in (None, "cpu", "cuda"):
        raise UnknownNameError("train.device", wanted, ("cpu", "cuda"))
    if wanted == "cpu" or (wanted is None and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise EnvironmentFailure(f"train.device={wanted!r}: this machine has no such device. Write cpu.")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def seed_everything(seed: int) -> None:
    """Seed torch and the standard library; numpy too where the user's code has loaded it."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
