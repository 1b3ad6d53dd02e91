"""A profile adds up what its parts say, per sample and undivided."""

from __future__ import annotations

import msgspec
import pytest

from hemostat.config import decode
from hemostat.errors import UsageError
from hemostat.plan.profile import Kept, Part, Product, Profile

ATTENTION = Product(rows=16, inner=8, columns=16, count=4, has_weight=False, cut="count", density=0.5)
BLOCK = Part(
    name="blocks",
    count=3,
    num_params=100,
    num_tp_params=80,
    products=(Product(rows=16, inner=32, columns=64, cut="columns"), ATTENTION),
    kept=(Kept(name="input of the norm", num_bytes=10, share="sp"), Kept(name="queries", num_bytes=5)),
    is_block=True,
)
TABLE = Part(name="embedding", num_params=50)
HEAD = Part(name="head and loss", num_params=50, products=(Product(rows=16, inner=32, columns=10),))
TINY = Profile(name="tiny", parts=(TABLE, BLOCK, HEAD), num_tied_params=50)


def test_products_count_multiply_and_add():
    assert BLOCK.products[0].flop == 2 * 16 * 32 * 64
    assert ATTENTION.flop == 2 * 16 * 8 * 16 * 4 / 2


def test_a_profile_is_the_sum_of_its_parts():
    assert (TINY.num_params, TINY.num_blocks, BLOCK.kept_bytes) == (350, 3, 15)
    assert TINY.flop == 3 * (3 * BLOCK.flop + HEAD.flop)


def test_it_can_be_saved_and_read_back():
    assert decode(Profile, msgspec.to_builtins(TINY)) == TINY
    with pytest.raises(UsageError):
        decode(Part, {"name": "head", "num_parms": 3})
