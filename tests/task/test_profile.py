"""Costs of blocks in FLOP: what is counted by hand, on which side it lies, and what a count leaves alone."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from hemostat.task.profile import block_costs

ROWS, LENGTH, WIDTH, HEADS, VOCABULARY = 2, 6, 8, 2, 11
TOKENS = torch.randint(0, VOCABULARY, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))
CALL = ((TOKENS,), {})
N = ROWS * LENGTH


class Block(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)
        self.flop = 2 * N * WIDTH * (4 * WIDTH + 2 * hidden) + 4 * ROWS * LENGTH * LENGTH * WIDTH

    def forward(self, x):
        query, key, value = self.qkv(x).view(ROWS, LENGTH, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(self.up(x).relu())


class GPT(nn.Module):
    def __init__(self, look=False):
        super().__init__()
        self.embedding, self.mixer = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block(hidden) for hidden in (16, 8, 32))
        self.between, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.look = look

    def forward(self, tokens, *, scale=None):
        x = self.mixer(self.embedding(tokens))
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number == 0:
                x = self.between(x)
        if self.look and x.sum() > 0:
            x = -x
        return self.head(x)


def test_every_operation_is_on_its_side():
    model = GPT()
    costs = block_costs(model, list(model.blocks), CALL)
    square = 2 * N * WIDTH * WIDTH
    first, second, third = (block.flop for block in model.blocks)
    assert costs.blocks == (first + square, second, third)
    assert costs.before == square
    assert costs.behind == 2 * N * WIDTH * VOCABULARY
    assert (costs.unit, costs.why) == ("FLOP", "")


def test_the_loss_counts_as_behind():
    model = GPT()
    loss = lambda output: functional.cross_entropy(output.flatten(0, 1), TOKENS.flatten())  # noqa: E731
    with_loss, without = (block_costs(model, list(model.blocks), CALL, given) for given in (loss, None))
    assert with_loss.behind == without.behind + 5 * N * VOCABULARY
    assert with_loss.blocks == without.blocks


def test_a_loss_that_looks_at_values_is_left_out_and_says_so():
    model = GPT()
    costs = block_costs(model, list(model.blocks), CALL, lambda output: output.sum().item())
    assert costs.unit == "FLOP" and costs.behind == 2 * N * WIDTH * VOCABULARY
    assert costs.why.startswith("without the loss, which cannot run without values, DataDependent")


def test_a_forward_that_looks_at_values_is_weighed_by_parameters():
    model = GPT(look=True)
    costs = block_costs(model, list(model.blocks), CALL)
    assert costs.unit == "parameters" and "its forward cannot run without values" in costs.why
    sizes = [sum(param.numel() for param in block.parameters()) for block in model.blocks]
    assert list(costs.blocks) == sizes
    assert costs.before == WIDTH * WIDTH + WIDTH  # the embedding costs nothing
    assert costs.behind == WIDTH * WIDTH + WIDTH + VOCABULARY * (WIDTH + 1)


def test_named_inputs_and_a_block_called_twice():
    linear = nn.Linear(WIDTH, WIDTH)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([linear, nn.Linear(WIDTH, WIDTH)])

        def forward(self, *, x):
            return self.blocks[1](linear(linear(x)))

    model = Twice()
    costs = block_costs(model, list(model.blocks), ((), {"x": torch.ones(3, WIDTH)}))
    assert costs.blocks == (4 * 3 * WIDTH * WIDTH, 2 * 3 * WIDTH * WIDTH)
    assert (costs.before, costs.behind) == (0, 0)


@pytest.mark.parametrize("look", [False, True])
def test_a_count_leaves_weights_statistics_random_numbers_and_hooks_alone(look):
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), GPT(look).blocks[0], nn.Flatten(0, 1))
    norm = nn.BatchNorm1d(WIDTH)
    model.extend([norm, nn.Dropout(), norm, nn.Linear(WIDTH, 3)])  # one module under two names
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tensors, state = dict(model.named_parameters()) | dict(model.named_buffers()), torch.get_rng_state()
    costs = block_costs(model, list(model), CALL)
    assert costs.blocks == (0, model[1].flop, 0, 0, 0, 0, 2 * N * WIDTH * 3)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    after = dict(model.named_parameters()) | dict(model.named_buffers())
    assert all(tensor is after[name] for name, tensor in tensors.items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_tied_head_counts():
    model = GPT()
    model.head.weight = model.embedding.weight
    assert block_costs(model, list(model.blocks), CALL).behind == 2 * N * WIDTH * VOCABULARY


def test_an_lstm_costs_what_its_products_do():
    model = nn.Sequential(nn.LSTM(WIDTH, 5, batch_first=True))
    costs = block_costs(model, list(model), ((torch.ones(ROWS, LENGTH, WIDTH),), {}))
    assert costs.blocks == (2 * N * 4 * 5 * (WIDTH + 5),)
