"""`Pass`: one traced pass of a model, and in which of its parts things lived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from hemostat.task.batch import num_samples
from hemostat.task.timeline import Event, Held, Timeline

Blocks = Sequence[tuple[str, nn.Module]]


class Pass:
    """One traced pass: what the timeline saw, and which block each of its places lies in.

    Parts are numbered: 0 before the blocks, then the blocks, then what is behind them, the loss included. What is
    computed between two blocks belongs to the first of them.

    Attributes:
        timeline: of the pass.
        num_samples: of its batch.
        weights: name to parameter or buffer, without values.
        batch: without values.
        kept: what lives between the forward and the backward pass, but for copies of weights in another dtype.
        extra: what does not, but selective recomputation keeps it.
        input_bytes: block to the bytes that its first call was given; under `num_blocks` what the last one gave.
    """

    def __init__(
        self, timeline: Timeline, weights: Mapping[str, Tensor], batch: Any, num_blocks: int
    ) -> None:
        self.timeline, self.weights, self.batch = timeline, weights, batch
        self.num_samples, self.num_blocks = num_samples(batch), num_blocks
        self.kept: list[Held] = []
        self.extra: list[Held] = []
        self.input_bytes: dict[int, int] = {}
        self._owners: list[tuple[int, bool]] = [
            (0, True)
        ]  # of each place: its part, and whether it is inside of it

    def enter(self, block: int, given: Any) -> None:
        """A block begins."""
        self.timeline.open_place()
        self._owners.append((block + 1, True))
        self.input_bytes.setdefault(block, self.timeline.new_bytes(_leaves(given)))

    def leave(self, block: int, output: Any) -> None:
        """A block has ended."""
        self.timeline.open_place()
        self._owners.append((block + 1, False))
        self.input_bytes[self.num_blocks] = self.timeline.new_bytes(_leaves(output))

    def end_forward(self) -> None:
        """The loss is there."""
        self.kept = [held for held in self.timeline.living() if not held.from_weights]
        living = set(map(id, self.kept))
        made = {id(event.held): event.held for event in self.timeline.events if not event.held.is_cheap}
        self.extra = [held for key, held in made.items() if key not in living]
        _, inside = self._owners[-1]
        if not inside:  # no block came after this one
            self._owners[-1] = (self.num_blocks + 1, True)

    def part_of(self, place: int) -> int:
        """Number of the part in which a place lies."""
        return self._owners[place][0]

    def kept_bytes(self) -> list[int]:
        """By part."""
        found = [0] * (self.num_blocks + 2)
        for held in self.kept:
            found[self.part_of(held.place)] += held.num_bytes
        return found

    def passing_bytes(self, *, backward: bool) -> list[int]:
        """By part: the most that lived in its pass, beyond what this part and those before it keep."""
        most, now, last = [0] * (self.num_blocks + 2), 0, -1
        for event in filter(_passes, self.timeline.events):
            part = self.part_of(event.place)
            if event.backward == backward:
                most[part] = max(most[part], now + event.num_bytes, now if part != last else 0)
                last = part
            now += event.num_bytes
        below = accumulate(self.kept_bytes())
        return [max(0, peak - kept) for peak, kept in zip(most, below, strict=True)]

    def named(self, blocks: Blocks) -> dict[tuple[int, str, int], Held]:
        """What is kept, by part, by a name that is the same in equal blocks, and by its number of that name."""
        found: dict[tuple[int, str, int], Held] = {}
        seen: Counter[tuple[int, str]] = Counter()
        for held in (*self.kept, *self.extra):
            part, name = self.part_of(held.place), held.name
            if self.part_of(held.made) != part:
                name = "input"
            elif 0 < part <= len(blocks):
                name = _inside(name, blocks[part - 1][0])
            found[part, name, seen[part, name]] = held
            seen[part, name] += 1
        return found


def _passes(event: Event) -> bool:
    """Gradients of parameters and copies of weights are state, which a plan counts by the parameter."""
    return not (event.held.is_gradient or event.held.from_weights)


def _leaves(tree: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def _inside(name: str, block: str) -> str:
    """`gelu of layers.3.up`, of which `layers.3` is the block, is `gelu of up`, and `add of layers.3` is `add`."""
    operation, _, module = name.partition(" of ")
    if module == block:
        return operation
    return f"{operation} of {module.removeprefix(f'{block}.')}" if module else operation
