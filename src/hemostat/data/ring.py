"""Batches in shared memory: slots of one anonymous mapping that vanishes with the last process that uses it."""

from __future__ import annotations

import io
import mmap
import pickle
import weakref
from collections import deque
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_ALIGN: Final = 64
Bytes = NDArray[np.uint8]


class Ring:
    """Slots of equal size, shared with the processes that are forked afterwards.

    The mapping has no name: nothing stays in /dev/shm after a kill -9, and the limit that containers set on
    /dev/shm does not apply. Pages that nobody writes cost no memory.

    Args:
        num_slots: how many.
        slot_bytes: size of each.

    Attributes:
        free: numbers of the slots that nobody uses.
    """

    def __init__(self, num_slots: int, slot_bytes: int) -> None:
        self.slot_bytes = _aligned(slot_bytes)
        self._map = mmap.mmap(-1, num_slots * self.slot_bytes)
        self.free: deque[int] = deque(range(num_slots))
        self._lent: dict[int, weakref.ref[Bytes]] = {}

    @property
    def num_lent(self) -> int:
        """Slots whose tensors are still held by somebody."""
        return len(self._lent)

    def slot(self, number: int) -> Bytes:
        """The bytes of one slot."""
        return np.frombuffer(self._map, np.uint8, self.slot_bytes, number * self.slot_bytes)

    def take(self, number: int, spec: tuple[int, int], copy: bool) -> Any:
        """The tree that `write` left in a slot; the slot is free again once its last tensor is gone.

        Args:
            number: of the slot.
            spec: what `write` returned.
            copy: take the bytes out and free the slot at once.
        """
        memory = self.slot(number)
        if copy:
            tree = read(memory[: spec[0] + spec[1]].copy(), spec)
            self.free.append(number)
            return tree

        def give_back(_: object, lent: dict[int, Any] = self._lent, free: deque[int] = self.free) -> None:
            lent.pop(number, None)
            free.append(number)

        self._lent[number] = weakref.ref(memory, give_back)
        return read(memory, spec)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


class _Writer(pickle.Pickler):
    """Pickles a tree, its tensors and arrays going into `memory` instead."""

    def __init__(self, file: io.BytesIO, memory: Bytes) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._memory = memory
        self.end = 0

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is Tensor and obj.layout is torch.strided and obj.device.type == "cpu":
            place = self._reserve(obj.numel() * obj.element_size())
            if place is not None:
                with torch.no_grad():
                    _tensor(place, obj.dtype, obj.shape).copy_(obj)
            return ("tensor", obj.dtype, tuple(obj.shape), self._start)
        if type(obj) is np.ndarray and not obj.dtype.hasobject:
            place = self._reserve(obj.nbytes)
            if place is not None:
                _array(place, obj.dtype, obj.shape)[...] = obj
            return ("array", obj.dtype, obj.shape, self._start)
        return None

    def _reserve(self, size: int) -> Bytes | None:
        self._start = _aligned(self.end)
        self.end = self._start + size
        return self._memory[self._start : self.end] if self.end <= len(self._memory) else None


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, memory: Bytes) -> None:
        super().__init__(file)
        self._memory = memory

    def persistent_load(self, pid: Any) -> Any:
        kind, dtype, shape, start = pid
        if kind == "tensor":
            num = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            return _tensor(self._memory[start : start + num], dtype, shape)
        num = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return _array(self._memory[start : start + num], dtype, shape)


def _tensor(place: Bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if not place.size:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(place).view(dtype).view(shape)


def _array(place: Bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    return place.view(dtype).reshape(shape)


class TooLargeError(Exception):
    """A tree does not fit; `needed_bytes` would do."""

    def __init__(self, needed_bytes: int) -> None:
        super().__init__(needed_bytes)
        self.needed_bytes = needed_bytes


def write(memory: Bytes, tree: Any) -> tuple[int, int]:
    """Put a tree of anything that can be pickled into a slot; returns where its description stands.

    Raises:
        TooLargeError: the slot is too small.

    Examples:
        >>> memory = np.zeros(1024, np.uint8)
        >>> read(memory, write(memory, {"x": torch.arange(3), "name": "a"}))
        {'x': tensor([0, 1, 2]), 'name': 'a'}
    """
    file = io.BytesIO()
    writer = _Writer(file, memory)
    writer.dump(tree)
    spec = file.getbuffer()
    start = _aligned(writer.end)
    if start + len(spec) > len(memory):
        raise TooLargeError(start + len(spec))
    memory[start : start + len(spec)] = np.frombuffer(spec, np.uint8)
    return start, len(spec)


def read(memory: Bytes, spec: tuple[int, int]) -> Any:
    """The tree that `write` put there; its tensors are views that keep `memory` alive."""
    start, length = spec
    return _Reader(io.BytesIO(memory[start : start + length].tobytes()), memory).load()


def num_bytes(tree: Any) -> int:
    """Size of the slot that a tree needs, in bytes."""
    try:
        start, length = write(np.zeros(0, np.uint8), tree)
    except TooLargeError as error:
        return error.needed_bytes
    return start + length
