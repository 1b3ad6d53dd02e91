"""One request in, one answer out, without a process around it."""

import multiprocessing
import random

import numpy as np
import torch

from hemostat.data import Source, sample_rng
from hemostat.data.reading import READING
from hemostat.data.ring import Ring, read
from hemostat.data.worker import Desk, Request, _answer


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, index):
        if index == 7:
            raise OSError("no such file")
        if index == 8:
            raise SystemExit
        return index, sample_rng(index).random(), random.random() + np.random.rand() + torch.rand(1).item()


def ask(indices, slot_bytes=4096, epoch=0):
    ring = Ring(1, slot_bytes)
    wanted = np.array(indices)
    ring.slot(0)[: wanted.nbytes] = wanted.view(np.uint8)
    pipe, _ = multiprocessing.Pipe()
    READING.seed = 5
    desk = Desk(pipe, ring, Source(Rows()), 5, [-1], 0, 0)
    answer = _answer(desk, Request(11, 0, len(indices), epoch))
    return answer, read(ring.slot(0), answer.spec) if answer.spec else None


def test_a_batch_stands_in_the_slot():
    answer, (indices, own, _) = ask([4, 2])
    assert answer.number == 11
    assert indices.tolist() == [4, 2]
    assert own.tolist() == [sample_rng(4).random(), sample_rng(2).random()]


def test_the_global_generators_follow_from_the_batch_too():
    assert ask([4, 2])[1][2].tolist() == ask([4, 2])[1][2].tolist()
    assert ask([4, 2])[1][2].tolist() != ask([4, 2], epoch=1)[1][2].tolist()


def test_too_small_a_slot_says_what_would_do():
    answer, _ = ask([1], slot_bytes=64)
    assert answer.spec is None
    assert ask([1], slot_bytes=answer.needed_bytes)[0].spec


def test_what_the_data_set_raises_is_answered():
    message, trace, ours = ask([7])[0].error
    assert "sample 7 raised OSError: no such file at" in message
    assert "OSError: no such file" in trace
    assert ours
    message, _, ours = ask([8])[0].error
    assert message.startswith("SystemExit")
    assert not ours
