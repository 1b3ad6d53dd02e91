"""Stages run one after the other are the whole model: output, gradients, names, modes, buffers."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from hemostat.errors import TaskError
from hemostat.train.parallel.parts import find_parts
from hemostat.train.parallel.stages import build_stages, prune, tied

WIDTH, VOCABULARY, LENGTH = 8, 11, 6


class Block(nn.Module):
    """Takes more than the stream where it is given more."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norm, self.drop = nn.LayerNorm(WIDTH), nn.Dropout(0.2)

    def forward(self, x, *more):
        return x + self.drop(self.down(self.up(self.norm(x + sum(more))).relu()))


class GPT(nn.Module):
    """Position parameter, buffer, plain tensor and a constant at the root."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.register_buffer("scale", torch.tensor(0.5))
        self.register_buffer("shift", torch.tensor(0.1), persistent=False)
        self.plain = torch.tensor(2.0)
        self.trunk = nn.Module()
        self.trunk.blocks = nn.ModuleList(Block() for _ in range(4))
        self.trunk.gain = nn.Parameter(torch.ones(WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        rows, length = tokens.shape
        x = self.embedding(tokens) + self.position[:length]
        for block in self.trunk.blocks:
            x = block(x)
        x = functional.rms_norm(x, (x.size(-1),)) * self.trunk.gain * self.scale + self.shift * self.plain
        return self.head(x * torch.arange(1, WIDTH + 1)).view(rows, length, -1)


class Tied(GPT):
    def __init__(self):
        super().__init__()
        self.head.weight = self.embedding.weight


class FunctionalTie(GPT):
    """Uses the weight of its embedding without a head."""

    def __init__(self):
        super().__init__()
        del self.head

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.trunk.blocks:
            x = block(x)
        return {"logits": functional.linear(x, self.embedding.weight), "hidden": [x, None]}


class Crossing(nn.Module):
    """The first stream, a mask, and integers made of them are needed by every block and at the end."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.mixer = nn.Linear(WIDTH, 2 * WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, *, mask=None, weight=1.0):
        first = self.embedding(tokens)
        one, two = self.mixer(first).chunk(2, dim=-1)
        x = first
        for number, block in enumerate(self.blocks):
            x = x + block(x, one, two * number)
            if mask is not None:
                x = x * mask.unsqueeze(-1)
        half = tokens.size(1) // 2
        return self.head(x)[:, half:], (first + tokens.unsqueeze(-1)).sum() * weight


class Modes(nn.Module):
    """Asks for its mode in its own forward."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        x = functional.dropout(x, 0.5, training=self.training)
        for block in self.blocks:
            x = block(x)
        return x if self.training else x.tanh()


def tokens(rows=3, length=LENGTH):
    return torch.randint(0, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(rows))


def floats(rows=3):
    return torch.randn(rows, 4, WIDTH, generator=torch.Generator().manual_seed(rows))


def normalized():
    return nn.Sequential(
        nn.Linear(WIDTH, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 5), nn.BatchNorm1d(5)
    )


def byte_gpt():
    examples = str(Path(__file__).resolve().parents[3] / "examples")
    sys.path.insert(0, examples)
    try:
        from bytegpt import GPT as ByteGPT  # noqa: N811
    finally:
        sys.path.remove(examples)
    model = ByteGPT(dim=16, num_layers=4, num_heads=4, window=LENGTH, longest=3)
    for param in model.parameters():
        nn.init.normal_(param, std=0.3)  # as built, every block is the identity
    return model


MODELS = {
    "sequential": (lambda: nn.Sequential(*(Block() for _ in range(4))), lambda rows: ((floats(rows),), {})),
    "batch norm": (normalized, lambda rows: ((floats(rows)[:, 0],), {})),
    "byte gpt": (byte_gpt, lambda rows: ((tokens(rows),), {})),
    "root parameters": (GPT, lambda rows: ((tokens(rows, LENGTH - 1),), {})),
    "tied": (Tied, lambda rows: ((tokens(rows),), {})),
    "functional tie": (FunctionalTie, lambda rows: ((tokens(rows),), {})),
    "crossing": (Crossing, lambda rows: ((tokens(rows),), {"mask": torch.ones(rows, LENGTH)})),
    "crossing without mask": (Crossing, lambda rows: ((tokens(rows),), {})),
    "modes": (Modes, lambda rows: ((floats(rows),), {})),
}
CUTS = {
    3: [(0, 1, 3), (0, 1, 2, 3)],
    4: [(0, 2, 4), (0, 1, 3, 4), (0, 1, 2, 3, 4)],
    5: [(0, 2, 5), (0, 1, 3, 4, 5)],
}
CASES = [(name, cut) for name in MODELS for cut in CUTS[{"batch norm": 5, "modes": 3}.get(name, 4)]]


def make(name):
    torch.manual_seed(0)
    build, inputs = MODELS[name]
    model = build().double()
    for module in model.modules():
        if isinstance(getattr(module, "plain", None), torch.Tensor):
            module.plain = module.plain.double()
    return model, lambda rows=3: torch.utils._pytree.tree_map(doubled, inputs(rows))


def doubled(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


def total(output):
    leaves = torch.utils._pytree.tree_leaves(output)
    return sum((leaf * leaf).sum() for leaf in leaves if isinstance(leaf, torch.Tensor))


def pipelined(stages, args, kwargs):
    """As torch's runtime does it: each stage backward on its own, from the gradients of what it sent."""
    tape, values = [], args
    for stage in stages:
        if stage.number:
            values = tuple(value.detach().requires_grad_(value.requires_grad) for value in values)
        sent = stage(*values, **kwargs)  # the other stages must not mind
        sent = sent if isinstance(sent, tuple) else (sent,)
        if not stage.is_last:  # else torch cannot send it, or not detach it
            assert all(value.is_contiguous() and not value._is_view() for value in sent)
            assert all(value is not other for value in sent for other in values)
        tape.append((values, sent))
        values = sent
    output = stages[-1].wrap(values if len(values) > 1 else values[0])
    if torch.is_grad_enabled():
        total(output).backward()
        for (_, sent), (received, _) in zip(reversed(tape[:-1]), reversed(tape[1:]), strict=True):
            pairs = [
                (value, got.grad) for value, got in zip(sent, received, strict=True) if got.grad is not None
            ]
            torch.autograd.backward([value for value, _ in pairs], [grad for _, grad in pairs])
    return output


def grads(model):
    found = {name: param.grad for name, param in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return found


def assert_equal(one, other):
    ones, spec = torch.utils._pytree.tree_flatten(one)
    others, same = torch.utils._pytree.tree_flatten(other)
    assert spec == same
    for a, b in zip(ones, others, strict=True):
        assert a is b is None or torch.allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "cut"), CASES)
def test_a_chain_of_stages_is_the_model(name, cut):
    model, inputs = make(name)
    stages = build_stages(model, find_parts(model), cut, inputs())
    assert len(stages) == len(cut) - 1
    for rows in (3, 5):  # no size is fixed
        args, kwargs = inputs(rows)
        state = {key: value.clone() for key, value in model.state_dict().items()}
        torch.manual_seed(1)
        expected = model(*args, **kwargs)
        total(expected).backward()
        expected_grads, expected_state = (
            grads(model),
            {key: v.clone() for key, v in model.state_dict().items()},
        )
        model.load_state_dict(state)
        torch.manual_seed(1)
        output = pipelined(stages, args, kwargs)
        assert_equal(output, expected)
        assert_equal(grads(model), expected_grads)
        assert_equal(dict(model.state_dict()), expected_state)  # running statistics
    assert any(grad is not None and grad.abs().max() > 1e-3 for grad in expected_grads.values())


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_is_seen_by_the_stages(name):
    model, inputs = make(name)
    stages = build_stages(model, find_parts(model), (0, 1, len(find_parts(model).blocks)), inputs())
    args, kwargs = inputs()
    for mode in (False, True, False):
        model.train(mode)
        assert all(stage.training is mode for stage in stages)
        with torch.no_grad():
            torch.manual_seed(2)
            expected = model(*args, **kwargs)
            torch.manual_seed(2)
            assert_equal(pipelined(stages, args, kwargs), expected)
    stages[0].train()
    assert model.training and not model.get_submodule(find_parts(model).blocks[-1]).training


@pytest.mark.parametrize(("name", "cut"), CASES)
def test_names_are_those_of_the_model_and_all_are_there(name, cut):
    model, inputs = make(name)
    stages = build_stages(model, find_parts(model), cut, inputs())
    params = dict(model.named_parameters(remove_duplicate=False))
    buffers = dict(model.named_buffers(remove_duplicate=False))
    states = set()
    for stage in stages:
        assert all(params[key] is param for key, param in stage.named_parameters())
        constants = {key for key, _ in stage.named_buffers() if key.startswith("_tensor_constant")}
        assert all(buffers[key] is value for key, value in stage.named_buffers() if key not in constants)
        states |= stage.state_dict().keys()
        assert all(torch.equal(value, model.state_dict()[key]) for key, value in stage.state_dict().items())
    assert states == model.state_dict().keys()
    assert not any(key.startswith("_tensor_constant") for key in vars(model))


@pytest.mark.parametrize(("name", "cut"), CASES)
def test_a_pruned_model_is_what_the_stages_hold(name, cut):
    for kept in ([0], [len(cut) - 2], [0, len(cut) - 2]):
        model, inputs = make(name)
        stages = [
            build_stages(model, find_parts(model), cut, inputs())[number] for number in sorted(set(kept))
        ]
        prune(model, stages)
        held = {
            key: param for stage in stages for key, param in stage.named_parameters(remove_duplicate=False)
        }
        own = dict(model.named_parameters(remove_duplicate=False))
        assert own.keys() == held.keys()
        assert all(own[key] is held[key] for key in own)
        assert model.state_dict().keys() == {key for stage in stages for key in stage.state_dict()}


def test_what_replaces_a_parameter_of_a_stage_replaces_it_in_the_model():
    model, inputs = make("root parameters")
    first, last = build_stages(model, find_parts(model), (0, 2, 4), inputs())
    prune(model, [last])
    last.trunk.gain = nn.Parameter(torch.zeros(WIDTH))
    last.trunk.blocks.get_submodule("2").up = nn.Linear(1, 1)
    assert model.trunk.gain is last.trunk.gain
    assert dict(model.named_parameters()).keys() == dict(last.named_parameters()).keys()
    assert not hasattr(first.trunk, "gain")


def test_what_no_forward_uses_belongs_to_the_first_stage():
    model, inputs = make("root parameters")
    model.spare, model.trunk.spare = nn.Linear(2, 2), nn.Parameter(torch.ones(1))
    model.again = model.head
    first, last = build_stages(model, find_parts(model), (0, 2, 4), inputs())
    assert {"spare.weight", "trunk.spare"} <= first.state_dict().keys()
    assert "again.weight" in last.state_dict() and "again.weight" not in first.state_dict()


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("sequential", None),
        ("byte gpt", None),  # its blocks share a module without parameters
        ("root parameters", None),
        ("tied", ("embedding.weight", "head.weight")),
        ("functional tie", ("embedding.weight", "embedding.weight")),
    ],
)
def test_the_tie_of_embedding_and_head_is_found(name, pair):
    model, inputs = make(name)
    for cut in ((0, 2, 4), (0, 1, 2, 4)):
        assert tied(model, build_stages(model, find_parts(model), cut, inputs())) == pair
    assert tied(model, build_stages(model, find_parts(model), (0, 4), inputs())) is None


def test_anything_else_that_stages_share_is_refused_by_name():
    model, inputs = make("root parameters")
    model.trunk.blocks[1].up = model.trunk.blocks[3].up
    stages = build_stages(model, find_parts(model), (0, 1, 2, 4), inputs())
    with pytest.raises(
        TaskError, match=r"share trunk\.blocks\.1\.up\.weight on stage 1 and trunk\.blocks\.3\.up"
    ):
        tied(model, stages)
    assert tied(model, build_stages(model, find_parts(model), (0, 1, 4), inputs())) is None
    model, inputs = make("tied")
    model.trunk.blocks[0].up = model.trunk.blocks[3].up
    with pytest.raises(TaskError, match=r"share trunk\.blocks\.0\.up\.weight on stage 0"):
        tied(model, build_stages(model, find_parts(model), (0, 2, 4), inputs()))


def test_shared_running_statistics_are_refused():
    norm = nn.BatchNorm1d(3, affine=False)
    model = nn.Sequential(nn.Linear(2, 3), norm, nn.Linear(3, 3), norm)
    stages = build_stages(model, find_parts(model), (0, 2, 4))
    with pytest.raises(TaskError, match="share 1 on stage 0 and 3 on stage 1"):
        tied(model, stages)


def test_a_model_without_blocks_is_refused():
    with pytest.raises(TaskError, match="Linear cannot be cut into blocks"):
        build_stages(nn.Linear(1, 1), find_parts(nn.Linear(1, 1)), (0, 1))


def test_what_is_no_tensor_does_not_cross():
    class Named(nn.Linear):
        def forward(self, x):
            return {"x": super().forward(x)}

    class Taker(nn.Linear):
        def forward(self, named):
            return super().forward(named["x"])

    model = nn.Sequential(Named(2, 2), Taker(2, 2))
    message = "Sequential cannot be cut behind stage 0: a dict would have to cross"
    with pytest.raises(TaskError, match=message):
        build_stages(model, find_parts(model), (0, 1, 2), ((torch.ones(1, 2),), {}))
    first, _ = build_stages(model, find_parts(model), (0, 1, 2))
    with pytest.raises(TaskError, match=message):
        first(torch.ones(1, 2))


def test_a_block_that_looks_at_values_is_left_to_the_first_pass():
    class Looking(nn.Linear):
        def forward(self, x):
            return super().forward(x if x.sum().item() > 0 else -x)

    model = nn.Sequential(Looking(2, 2), nn.Linear(2, 2))
    x = torch.ones(1, 2)
    first, last = build_stages(model, find_parts(model), (0, 1, 2), ((x,), {}))
    assert torch.equal(last(first(x)), model(x))


@pytest.mark.parametrize("name", MODELS)
def test_cutting_leaves_weights_statistics_and_random_numbers_alone(name):
    model, inputs = make(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    random_state = torch.get_rng_state()
    num_blocks = len(find_parts(model).blocks)
    build_stages(model, find_parts(model), (0, 2, num_blocks), inputs())
    assert_equal(dict(model.state_dict()), before)
    after = dict(model.named_parameters()) | dict(model.named_buffers())
    assert all(tensor is after[key] for key, tensor in tensors.items())
    assert torch.equal(random_state, torch.get_rng_state())


def test_other_inputs_than_those_it_was_cut_for_are_refused():
    model, inputs = make("crossing")
    first, _ = build_stages(model, find_parts(model), (0, 1, 4), inputs())
    with pytest.raises(TaskError, match="is given Tensor, and was cut into stages for other inputs"):
        first(tokens())
