"""From two passes to parts: lines through two points, equal blocks, and what is said of the rest."""

import pytest
import torch
from torch import nn

from hemostat.task import profile_of

WIDTH, ROWS = 8, 4
BYTES = 4 * WIDTH


def squares(model, batch):
    return model(batch).square().sum()


def test_what_grows_with_the_square_of_the_samples_is_noted():
    class Compared(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return (y @ y.t()).sin()

    found = profile_of(Compared(WIDTH, WIDTH), torch.ones(64, WIDTH), squares, ())
    assert any("grows faster than the samples" in note for note in found.notes)
    scores = next(tensor for tensor in found.parts[0].kept if tensor.name == "sin")
    assert scores.num_bytes == 4 * 128  # of one sample, where there are twice 64


def test_equal_blocks_are_one_part_and_others_are_not():
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(5)]
    layers[3] = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU())
    found = profile_of(nn.Sequential(*layers), torch.ones(ROWS, WIDTH), squares)
    # the first one is given the batch, which counts as the batch: it has no input of its own
    named = [(part.name, part.count) for part in found.parts if part.is_block]
    assert named == [("0", 1), ("1 to 2", 2), ("3", 1), ("4", 1)]
    assert found.num_blocks == 5


def test_blocks_that_hold_nothing_stay_so_that_cuts_lie_where_they_do_in_training():
    found = profile_of(nn.Sequential(nn.Flatten(), nn.Linear(WIDTH, 1)), torch.ones(ROWS, WIDTH), squares)
    assert [part.name for part in found.parts] == ["before the blocks", "0", "1", "head and loss"]


@pytest.mark.parametrize("loops", [1, 3])
def test_a_weight_that_is_read_again_counts_once(loops):
    class Again(nn.Linear):
        def forward(self, x):
            for _ in range(loops):
                x = super().forward(x).tanh()
            return x

    found = profile_of(Again(WIDTH, WIDTH), torch.ones(ROWS, WIDTH), squares, ())
    assert (found.num_params, found.num_tied_params) == (WIDTH * WIDTH + WIDTH, 0)
    assert found.parts[0].flop == loops * 2 * WIDTH * WIDTH
    assert [product.count for product in found.parts[0].products] == [loops]
