"""`StorageMeter`: how many bytes of tensors a process holds, now and at most, counted by storage and by kind."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils.hooks import RemovableHandle

KINDS: Final = ("params", "grads", "optimizer", "other")
STATE: Final = ("params", "grads", "optimizer")


class _Held(NamedTuple):
    """One live storage."""

    num_bytes: int
    kind: str
    alive: weakref.ref[UntypedStorage]


class StorageMeter(TorchDispatchMode):
    """Counts every storage once, from the operation that makes it, or first reads it, until its last tensor is gone.

    Views share a storage; of a DTensor the local part counts; a storage that is resized, as FSDP does with gathered
    parameters, counts as what it is now. It sees what this thread does, the backward pass on the CPU included. It does
    not see scratch memory inside of one operation, the 5 kB of a saved random state, nor what an allocator or a
    communication library keeps. On a GPU `torch.cuda.max_memory_allocated` says more.

    `torch.distributed._tools.MemTracker` does the same by module, for one pass of a model only.

    Attributes:
        now: kind to bytes that live.
        at_peak: the same, when all kinds together were largest since the start or `reset_peak`.
        at_step: the same, right after the latest optimizer step, before the gradients are dropped; empty before.

    Examples:
        >>> with StorageMeter() as meter:
        ...     x = torch.zeros(4, 8)
        ...     y = x.view(32) + 1.0
        ...     del x
        >>> meter.now_bytes, meter.peak_bytes
        (128, 256)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now: dict[str, int] = dict.fromkeys(KINDS, 0)
        self.at_peak: dict[str, int] = dict(self.now)
        self.at_step: dict[str, int] = {}
        self._now_bytes = self._peak_bytes = 0
        self._held: dict[
            int, _Held
        ] = {}  # by address, which is not given out again before the callback has run
        self._hooks: list[RemovableHandle] = []
        self._resize: Any = None

    @property
    def now_bytes(self) -> int:
        """Bytes of all live storages."""
        return self._now_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that they were."""
        return self._peak_bytes

    def reset_peak(self) -> None:
        """Look for the largest sum from here on."""
        self._peak_bytes, self.at_peak = self._now_bytes, dict(self.now)

    def add(self, tensors: Iterable[Tensor | None], kind: str = "other") -> None:
        """Count tensors that were made before, or say of what kind those that are counted already are.

        Args:
            tensors: any; None is passed over.
            kind: "params", "grads", "optimizer" or "other".
        """
        for tensor in tensors:
            if tensor is not None:
                for storage in _storages(tensor):
                    self._count(storage, kind)
        self._look_for_peak()

    def follow(self, params: Sequence[Tensor], optimizer: torch.optim.Optimizer | None = None) -> None:
        """Tell parameters, their gradients and the optimizer's state apart from the rest, until the `with` block ends.

        Args:
            params: of this process, as they are trained: after sharding.
            optimizer: over them.
        """

        def arrived(param: Tensor) -> None:
            self.add([param.grad], "grads")

        self.add(params, "params")
        self.add((param.grad for param in params), "grads")
        for param in params:
            if param.requires_grad:
                hook = param.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]
                self._hooks.append(hook)
        if optimizer is not None:
            self._hooks.append(optimizer.register_step_post_hook(self._stepped))
            self.add(_state_of(optimizer), "optimizer")

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """A gradient may be another tensor than it was in backward: where parts were added up over ranks."""
        params = [param for group in optimizer.param_groups for param in group["params"]]
        self.add((param.grad for param in params), "grads")
        self.add(_state_of(optimizer), "optimizer")
        self.at_step = dict(self.now)

    def __enter__(self) -> StorageMeter:
        """Count from here on; resizing a storage is no operation of torch, so its method is watched."""
        meter, original = self, UntypedStorage.resize_
        self._resize = original

        def resize_(storage: UntypedStorage, size: int) -> Any:
            result = original(storage, size)
            if meter._key(storage) in meter._held:
                meter._count(storage)
                meter._look_for_peak()
            return result

        UntypedStorage.resize_ = resize_  # type: ignore[method-assign, assignment]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        """Count nothing new; what is dropped afterwards still leaves `now`."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]
        while self._hooks:
            self._hooks.pop().remove()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation and count what it has read and made."""
        if any(issubclass(kind, Tensor) and hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented  # the wrapper first: the operations inside of it come here again
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors((args, result)):
            for storage in _storages(tensor):
                self._count(storage)
        self._look_for_peak()
        return result

    @staticmethod
    def _key(storage: UntypedStorage) -> int:
        return int(storage._cdata)

    def _count(self, storage: UntypedStorage, kind: str | None = None) -> None:
        key, num_bytes = self._key(storage), storage.nbytes()
        held = self._held.get(key)
        if held is None:
            alive = weakref.ref(storage, partial(self._dropped, key))
            self._held[key] = _Held(num_bytes, kind or "other", alive)
            self._move(kind or "other", num_bytes)
        elif held.num_bytes != num_bytes or kind not in (None, held.kind):
            self._held[key] = changed = held._replace(num_bytes=num_bytes, kind=kind or held.kind)
            self._move(held.kind, -held.num_bytes)
            self._move(changed.kind, num_bytes)

    def _dropped(self, key: int, _: object) -> None:
        held = self._held.pop(key)
        self._move(held.kind, -held.num_bytes)

    def _move(self, kind: str, num_bytes: int) -> None:
        self.now[kind] += num_bytes
        self._now_bytes += num_bytes

    def _look_for_peak(self) -> None:
        if self._now_bytes > self._peak_bytes:
            self.reset_peak()


def _tensors(values: Any) -> Iterator[Tensor]:
    """Those in arguments or results of an operation, which has lists and tuples only."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)


def _storages(tensor: Any) -> Iterator[UntypedStorage]:
    """Where a tensor lies on this process; nowhere on the meta device, where torch works out shapes."""
    if is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            part = getattr(tensor, name)
            if isinstance(part, Tensor):  # a DTensor names its mesh too
                yield from _storages(part)
    elif tensor.layout == torch.strided:
        storage = tensor.untyped_storage()
        if storage.device.type != "meta":
            yield storage


def _state_of(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    for state in optimizer.state.values():
        yield from _tensors(list(state.values()))
