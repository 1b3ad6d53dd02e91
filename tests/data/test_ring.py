"""Batches in shared memory: any tree comes out as it went in, slots come back, nothing has a name."""

import gc
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from hemostat.data.ring import Ring, TooLargeError, num_bytes, read, write


class Point(NamedTuple):
    x: torch.Tensor
    label: str


TREES = [
    torch.arange(6.0).reshape(2, 3),
    torch.tensor(3),
    torch.zeros(0, 4),
    torch.arange(8).to(torch.bfloat16),
    torch.tensor([True, False]),
    torch.arange(12).reshape(3, 4).T,
    (torch.ones(3, dtype=torch.uint8), [torch.zeros(1), None, "text"]),
    {"x": np.arange(5, dtype=np.int16), "names": ["a", "b"], "deep": {"y": 1.5}},
    Point(torch.zeros(2, 2), "p"),
    np.array(["a", None], dtype=object),
]


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_a_tree_comes_out_as_it_went_in(tree):
    memory = np.zeros(4096, np.uint8)
    assert repr(read(memory, write(memory, tree))) == repr(tree)


def test_the_size_that_is_asked_for_is_enough():
    for tree in TREES:
        needed = num_bytes(tree)
        write(np.zeros(needed, np.uint8), tree)
        with pytest.raises(TooLargeError) as caught:
            write(np.zeros(needed - 1, np.uint8), tree)
        assert caught.value.needed_bytes == needed


def test_a_slot_is_free_again_when_its_last_tensor_is_gone():
    ring = Ring(2, 1000)
    number = ring.free.popleft()
    spec = write(ring.slot(number), (torch.arange(4), torch.arange(4.0)))
    whole, other = ring.take(number, spec, copy=False)
    part = whole[1:2]
    del whole, other
    gc.collect()
    assert (ring.num_lent, len(ring.free)) == (1, 1)
    assert part.item() == 1
    del part
    assert (ring.num_lent, len(ring.free)) == (0, 2)


def test_a_copy_frees_its_slot_at_once_and_outlives_the_next_batch():
    ring = Ring(1, 1000)
    kept = ring.take(0, write(ring.slot(0), torch.arange(4)), copy=True)
    assert (ring.num_lent, len(ring.free)) == (0, 2)  # it was never taken out of the free ones here
    write(ring.slot(0), torch.zeros(4))
    assert kept.tolist() == [0, 1, 2, 3]


def test_a_batch_outlives_its_ring_and_may_be_written_to():
    ring = Ring(1, 1000)
    kept = ring.take(0, write(ring.slot(0), torch.arange(4)), copy=False)
    del ring
    gc.collect()
    assert kept.add_(1).tolist() == [1, 2, 3, 4]


def test_there_is_no_file_in_shared_memory():
    folder = Path("/dev/shm")
    before = set(folder.iterdir()) if folder.exists() else set()
    ring = Ring(4, 1 << 20)
    assert (set(folder.iterdir()) if folder.exists() else set()) <= before
    assert ring.slot_bytes == 1 << 20
