"""`Timeline`: what lives when while a model runs forward and backward on tensors without values."""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode

from hemostat.task.products import Multiplied, is_cheap, products_of
from hemostat.task.unseen import unseen_bytes

# of a tensor plan: who divides what a module makes, and along which dim its product is cut
_SHARES: Final = {
    "colwise": "tp",
    "heads": "tp",
    "rowwise": "sp",
    "sequence": "sp",
    "vocab_in": "sp",
    "vocab_out": "loss",
}
_MATRICES: Final = ("colwise", "rowwise", "vocab_out")
_CUTS: Final = {"colwise": "columns", "vocab_out": "columns", "rowwise": "inner", "vocab_in": "inner"}


class Held:
    """One storage that an operation made.

    Attributes:
        num_bytes: of it.
        name: operation and module that made it.
        made: the place where it was made.
        place: where it was first saved for backward; where it was made, if it was not.
        is_saved: for backward.
        is_cheap: selective recomputation drops it.
        from_weights: made of parameters alone, such as their copy in another dtype.
        is_gradient: of a parameter.
        share: who divides it: "tp", "loss", "sp" or "", as in `hemostat.plan.profile.Kept`.
    """

    def __init__(self, num_bytes: int, name: str, place: int, operation: Any) -> None:
        self.num_bytes, self.name, self.made, self.place = num_bytes, name, place, place
        self.is_cheap = is_cheap(operation)
        self.is_saved = self.from_weights = self.is_gradient = False
        self.share = ""


class Event(NamedTuple):
    """A storage came into being or went."""

    held: Held
    num_bytes: int
    place: int
    backward: bool


class Computed(NamedTuple):
    """A product of the forward pass, where, and what tensor parallelism cuts of it."""

    place: int
    product: Multiplied
    cut: str


class Timeline(TorchDispatchMode):
    """Notes births and deaths of storages, matrix products and traffic, by place.

    Places are numbers that grow through the forward pass: the caller opens a new one with `open_place` where a block
    begins or ends. An operation of the backward pass belongs to the place in which its forward was called.

    Args:
        weights: parameters and buffers.
        inputs: tensors of the batch.

    Attributes:
        events: births and deaths in order.
        products: of the forward pass.
        moved_bytes: place to bytes read and written by what is no product, forward.
        failed: the operation that raised, for messages.
        word: what the tensor plan says of the innermost module that it names; the caller keeps it.
        module: name of the innermost module; the caller keeps it.
    """

    def __init__(self, weights: Iterable[Tensor], inputs: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.events: list[Event] = []
        self.products: list[Computed] = []
        self.moved_bytes: dict[int, float] = {}
        self.failed = self.word = self.module = ""
        self._starts: list[int] = [_sequence_number()]
        self._backward_place: int | None = None
        self._live: dict[int, Held] = {}
        self._alive: dict[int, weakref.ref[UntypedStorage]] = {}
        self._readers: dict[int, set[int]] = {_key(tensor): set() for tensor in weights}
        self._inputs = {_key(tensor) for tensor in inputs}

    @property
    def place(self) -> int:
        """Where the pass is."""
        return len(self._starts) - 1 if self._backward_place is None else self._backward_place

    def open_place(self) -> int:
        """What is computed from here on lies in a new place."""
        self._starts.append(_sequence_number())
        return len(self._starts) - 1

    def begin_backward(self) -> None:
        """Operations belong to places of the forward pass from here on."""
        self._backward_place = len(self._starts) - 1

    def saved(self, tensor: Tensor) -> Tensor:
        """Hook of a tensor that is saved for backward; the first place that saves it holds it."""
        held = self._live.get(_key(tensor))
        if held is not None and not held.is_saved:
            held.is_saved, held.place = True, self.place
        return tensor

    def is_gradient(self, tensor: Tensor) -> None:
        """This tensor is the gradient of a parameter now."""
        held = self._live.get(_key(tensor))
        if held is not None:
            held.is_gradient = True

    def readers_of(self, weight: Tensor) -> set[int]:
        """Places of the forward pass that read a parameter or buffer."""
        return self._readers[_key(weight)]

    def living(self) -> list[Held]:
        """What lives now, in the order in which it was made."""
        return list(self._live.values())

    def new_bytes(self, tensors: Iterable[Tensor]) -> int:
        """Of those of some tensors that are neither weights nor the batch, each storage once."""
        found = {_key(tensor): tensor.untyped_storage().nbytes() for tensor in tensors}
        return sum(
            size for key, size in found.items() if key not in self._readers and key not in self._inputs
        )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation and note what it has read and made."""
        self._find_place()
        try:
            result = func(*args, **(kwargs or {}))
        except Exception:
            self.failed = self.failed or str(func)
            raise
        read = list(_tensors((args, tuple((kwargs or {}).values()))))
        made = list(_tensors(result))
        if made:
            self._note(func, args, read, made, result)
        return result

    def _find_place(self) -> None:
        if self._backward_place is None:
            return
        node: Any = torch._C._current_autograd_node()
        # what adds up a parameter's gradient has no place of its own: it runs right behind what made it
        if node is not None and node._sequence_nr() < 1 << 62:
            self._backward_place = max(0, bisect_right(self._starts, node._sequence_nr()) - 1)

    def _note(self, func: Any, args: Any, read: list[Tensor], made: list[Tensor], result: Any) -> None:
        forward = self._backward_place is None
        known = [self._live.get(_key(tensor)) for tensor in read]
        if forward:
            for tensor in read:
                self._readers.get(_key(tensor), set()).add(self.place)
        keys = {_key(tensor) for tensor in read}
        new = [
            tensor for tensor in made if _key(tensor) not in keys | self._live.keys() | self._readers.keys()
        ]
        share = self._share(func, known)
        for tensor in new:
            held = self._born(tensor, func)
            held.share = share
            held.from_weights = bool(read) and all(map(self._is_weight, read))
        hidden = unseen_bytes(func, args)
        if hidden and new:
            self._grown(new[-1], hidden)
        if not forward:
            return
        multiplied = products_of(func, args, result, self._is_weight)
        self.products += [Computed(self.place, product, self._cut(product, known)) for product in multiplied]
        if not multiplied and (new or func._schema.is_mutable):
            moved = sum(tensor.numel() * tensor.element_size() for tensor in (*read, *made))
            self.moved_bytes[self.place] = self.moved_bytes.get(self.place, 0) + moved

    def _is_weight(self, tensor: Tensor) -> bool:
        key = _key(tensor)
        held = self._live.get(key)
        return key in self._readers or (held is not None and held.from_weights)

    def _share(self, func: Any, read: list[Held | None]) -> str:
        """Shared out by the module that makes it, or else as what it is made of is."""
        is_around = self.word in _MATRICES and is_cheap(func)  # a copy of the matrix's input, or its bias
        if self.word and not is_around:
            return _SHARES[self.word]
        shares = {held.share for held in read if held is not None}
        found = next((share for share in ("tp", "loss", "sp") if share in shares), "")
        # a matrix whose columns are cut has all positions of its input
        return "" if found == "sp" and self.word in ("colwise", "vocab_out") else found

    def _cut(self, product: Multiplied, read: list[Held | None]) -> str:
        if product.has_weight:
            return _CUTS.get(self.word, "")
        return "count" if any(held is not None and held.share == "tp" for held in read) else ""

    def _born(self, tensor: Tensor, func: Any) -> Held:
        storage, key = tensor.untyped_storage(), _key(tensor)
        operation = str(func).removeprefix("aten.").partition(".")[0]
        name = f"{operation} of {self.module}" if self.module else operation
        held = Held(storage.nbytes(), name, self.place, func)
        self._live[key] = held
        self._alive[key] = weakref.ref(storage, partial(self._gone, key))
        self._move(held, held.num_bytes)
        return held

    def _grown(self, tensor: Tensor, num_bytes: int) -> None:
        held = self._live[_key(tensor)]
        held.num_bytes += num_bytes
        self._move(held, num_bytes)

    def _gone(self, key: int, _: object) -> None:
        held = self._live.pop(key)
        del self._alive[key]
        self._move(held, -held.num_bytes)

    def _move(self, held: Held, num_bytes: int) -> None:
        self.events.append(Event(held, num_bytes, self.place, self._backward_place is not None))


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _sequence_number() -> int:
    return int(torch._C._autograd._get_sequence_nr())


def _tensors(values: Any) -> Iterator[Tensor]:
    """Those in arguments or results of an operation, which has lists and tuples only."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)
