"""A traced profile: what was counted by hand, what a real step counts, and what a trace leaves alone."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from hemostat.errors import TaskError
from hemostat.task.tracing import profile_of
from hemostat.train.storage_meter import StorageMeter

ROWS, LENGTH, WIDTH, HEADS, VOCABULARY = 2, 6, 8, 2, 11
TOKENS = torch.randint(0, VOCABULARY, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))
BATCH = TOKENS, TOKENS
HIDDEN_BYTES = 4 * LENGTH * WIDTH  # of one sample


class Block(nn.Module):
    def __init__(self, width=WIDTH, hidden=32):
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        query, key, value = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(x)))


class GPT(nn.Module):
    def __init__(self, width=WIDTH, num_blocks=3):
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY)
        self.blocks = nn.ModuleList(Block(width, 4 * width) for _ in range(num_blocks))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss(model, batch):
    inputs, target = batch
    output = model(inputs)
    return functional.cross_entropy(output.flatten(0, 1), target.flatten(), reduction="sum")


def squares(model, batch):
    return model(batch).square().sum()


def first_squares(model, batch):
    return model(batch)[0].square().sum()


def blocks_of(model):
    return [(f"blocks.{number}", block) for number, block in enumerate(model.blocks)]


def traced(model, batch=BATCH, **options):
    return profile_of(model, batch, loss, blocks_of(model), **options)


def kept(part):
    return {tensor.name: tensor.num_bytes for tensor in part.kept if not tensor.is_extra}


def test_parts_parameters_and_products():
    model = GPT()
    found = traced(model)
    assert [(part.name, part.count, part.is_block) for part in found.parts] == [
        ("before the blocks", 1, False),
        ("blocks.0 to blocks.2", 3, True),
        ("head and loss", 1, False),
    ]
    assert found.num_params == sum(param.numel() for param in model.parameters())
    assert (found.num_tokens, found.source, found.num_tied_params) == (LENGTH, "traced", 0)
    before, block, last = found.parts
    assert before.num_params == VOCABULARY * WIDTH
    matrices = 2 * LENGTH * WIDTH * (4 * WIDTH + 2 * 32)
    assert block.flop == matrices + 0.5 * 4 * LENGTH * LENGTH * WIDTH
    assert last.flop == 2 * LENGTH * WIDTH * VOCABULARY
    assert block.input_bytes == last.input_bytes == HIDDEN_BYTES


def test_what_a_block_keeps_is_what_its_operations_save_each_storage_once():
    block = traced(GPT()).parts[1]
    statistics, log_sums = 2 * 4 * LENGTH, 4 * HEADS * LENGTH
    assert kept(block) == {
        "input": HIDDEN_BYTES,
        "native_layer_norm of norm": HIDDEN_BYTES + statistics,
        "addmm of qkv": 3 * HIDDEN_BYTES,
        "_scaled_dot_product_flash_attention_for_cpu": HIDDEN_BYTES + log_sums,
        "add": HIDDEN_BYTES,
        "addmm of up": 4 * LENGTH * 32,
        "gelu": 4 * LENGTH * 32,
    }
    extra = {tensor.name: tensor.is_cheap for tensor in block.kept if tensor.is_extra}
    assert extra == {"addmm of out": False, "addmm of down": False}  # backward alone has no use for them
    assert {tensor.name for tensor in block.kept if tensor.is_cheap} == {
        "input",
        "native_layer_norm of norm",
        "add",
        "gelu",
    }


def test_what_a_batch_norm_and_a_shortcut_keep():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
    found = profile_of(model, torch.ones(1, 3, 8, 8), squares)  # one sample: a norm needs two
    picture = 4 * 4 * 64
    by_name = {part.name: sum(kept(part).values()) for part in found.parts}
    # the convolution's input is the batch; the norm keeps its input and the loss what it squares
    assert by_name == {
        "before the blocks": 4 * 3 * 64,
        "0": 0,
        "1": picture,
        "2": picture,
        "head and loss": 0,
    }
    # running statistics, their count, those saved for backward, and the loss itself
    assert found.num_buffer_bytes == 2 * 16 + 8 + 2 * 16 + 4


def test_a_tied_matrix_counts_at_both_ends_and_a_frozen_one_is_named():
    model = GPT()
    model.head.weight = model.embedding.weight
    model.blocks[0].requires_grad_(False)
    found = traced(model)
    assert found.num_tied_params == VOCABULARY * WIDTH
    assert found.num_params == sum(param.numel() for param in model.parameters())
    frozen = sum(param.numel() for param in model.blocks[0].parameters())
    assert [part.num_frozen_params for part in found.parts] == [0, frozen, 0, 0]


def test_autocast_halves_what_is_kept_and_copies_of_weights_are_not_counted():
    model = GPT()
    names = kept(traced(model, precision="bf16").parts[1])
    assert names["addmm of up"] == 2 * LENGTH * 32
    assert names["_to_copy of up"] == 2 * LENGTH * WIDTH  # the input that the product reads, rounded
    assert "_to_copy of down" not in names  # gelu's output is bf16 already, and the weight is state


def test_what_does_not_grow_with_the_samples_counts_as_buffers():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1000))

        def forward(self, x):
            return x * (self.scale * torch.arange(1000.0)).sin()

    found = profile_of(Shifted(), torch.ones(2, 1000), squares, ())
    assert found.num_buffer_bytes >= 4000
    assert any("do not grow with the samples" in note for note in found.notes)


def test_the_meta_device_gives_the_same_profile():
    with torch.device("meta"):
        model = GPT()
    assert traced(model) == traced(GPT())


def test_a_tensor_plan_says_who_divides_what():
    model = GPT()
    words = {"qkv": "colwise", "out": "rowwise", "up": "colwise", "down": "rowwise", "norm": "sequence"}
    plan = {f"blocks.{number}.{name}": word for number in range(3) for name, word in words.items()}
    found = traced(model, tensor_plan=plan | {"embedding": "vocab_in", "head": "vocab_out"})
    block, last = found.parts[1:]
    shares = {tensor.name: tensor.share for tensor in block.kept}
    assert shares["addmm of qkv"] == shares["gelu"] == "tp"
    assert shares["input"] == shares["native_layer_norm of norm"] == shares["add"] == "sp"
    assert {tensor.share for tensor in last.kept if tensor.name == "_log_softmax"} == {"loss"}
    whole = 2 * WIDTH + WIDTH + WIDTH  # the norm, and the biases of out and down
    assert block.num_tp_params == block.num_params - whole
    rounded = {
        tensor.name: tensor.share
        for tensor in traced(model, tensor_plan=plan, precision="bf16").parts[1].kept
    }
    assert rounded["_to_copy of up"] == ""  # the input of a matrix whose columns are cut is whole
    cuts = [(product.has_weight, product.cut) for product in block.products]
    assert cuts == [(True, cut) for cut in ("columns",)] + [(False, "count")] * 2 + [
        (True, cut) for cut in ("inner", "columns", "inner")
    ]


def test_a_loss_that_looks_at_values_is_refused_with_the_operation_and_the_line():
    def looks(model, batch):
        total = loss(model, batch)
        return total if total.item() > 0 else -total

    with pytest.raises(
        TaskError, match=r"GPT cannot be traced: its loss \(.*test_tracing\.py:\d+\)"
    ) as error:
        profile_of(GPT(), BATCH, looks)
    assert "runs the operation aten._local_scalar_dense, whose result Python needs as a value" in str(
        error.value
    )
    assert "plan from a config" in str(error.value)


class Looking(Block):
    """A block that reads what it computes."""

    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x


def test_a_forward_that_looks_at_values_is_told_from_the_loss_with_the_innermost_module():
    model = GPT()
    model.blocks[1] = Looking()
    with pytest.raises(TaskError, match=r"its forward pass, in blocks\.1 ") as error:
        traced(model)
    assert "its loss" not in str(error.value)


def test_an_error_that_is_carried_on_is_told_once_and_without_the_paths_of_others():
    def carried(model, batch):
        try:
            return model(batch).numpy()
        except Exception as error:
            raise TaskError("the loss failed.") from error

    with pytest.raises(TaskError) as error:
        profile_of(nn.Linear(4, 4), torch.ones(2, 4), carried, ())
    text = str(error.value)
    assert "numpy()" in text and "the loss failed" not in text and ".." not in text
    assert "site-packages" not in text and "hemostat/" not in text


class Llama(nn.Module):
    """A decoder that looks at values, with the config of a family that is known."""

    class Config:
        """As transformers has them."""

        def __init__(self, **values):
            self.values = values

        def to_dict(self):
            return self.values

    def __init__(self, **values):
        super().__init__()
        sizes = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
        sizes |= {"model_type": "llama", "vocab_size": VOCABULARY, "max_position_embeddings": 64}
        self.config = self.Config(**(sizes | values))
        self.all = nn.Parameter(torch.zeros(2 * VOCABULARY * 8 + 2 * (4 * 8 * 8 + 3 * 8 * 16 + 2 * 8) + 8))

    def forward(self, tokens):
        if self.all.sum() == 0:
            return self.all[0] * functional.one_hot(tokens, VOCABULARY).float()
        raise AssertionError


def test_a_known_config_gives_the_closed_form_of_what_cannot_be_traced_and_says_so():
    model = Llama()
    found = profile_of(model, BATCH, loss, ())
    assert found.num_params == model.all.numel() and found.num_tokens == LENGTH
    assert found.source.startswith("not traced, but the closed form of its config: Llama cannot be traced")
    assert "aten._local_scalar_dense" in found.source


@pytest.mark.parametrize(
    "values", [{"model_type": "unheard"}, {"num_hidden_layers": 3}, {"hidden_size": "x"}]
)
def test_a_config_of_another_model_is_no_closed_form_of_this_one(values):
    with pytest.raises(TaskError, match="Llama cannot be traced"):
        profile_of(Llama(**values), BATCH, loss, ())


def test_a_forward_may_look_at_what_it_makes_of_nothing():
    class Checked(nn.Linear):
        def forward(self, x):
            places = torch.arange(x.shape[0])
            return super().forward(x) if bool((places >= 0).all()) else x

    assert profile_of(Checked(4, 4), torch.ones(2, 4), squares, ()).num_params == 20


def test_a_trace_leaves_weights_statistics_random_numbers_gradients_and_hooks_alone():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(), nn.Linear(WIDTH, 1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    profile_of(model, torch.ones(4, WIDTH), squares)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(param.grad is None for param in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def peak_bytes(profile, num_samples):
    """Of forward and backward on one process, from the profile alone."""
    parts = [part for part in profile.parts for _ in range(part.count)]
    now = 4 * profile.num_params + profile.num_buffer_bytes
    peaks, below = [], []
    for part in parts:
        now += num_samples * part.kept_bytes
        below.append(now)
        peaks.append(now + num_samples * part.forward_passing_bytes)
    gradients = 0
    for part, kept_bytes in zip(reversed(parts), reversed(below), strict=True):
        gradients += 4 * part.num_params
        peaks.append(kept_bytes + gradients + num_samples * part.passing_bytes)
    return max(peaks)


@pytest.mark.parametrize("num_samples", [16, 48])
@pytest.mark.parametrize("kind", ["gpt", "convolutions", "lstm"])
def test_the_peak_of_a_real_step_is_met(kind, num_samples):
    torch.manual_seed(0)
    tokens = torch.randint(0, VOCABULARY, (num_samples, 32))
    if kind == "gpt":
        model, batch, call = GPT(32), (tokens, tokens), loss
    elif kind == "convolutions":
        widths = (3, 16), (16, 16), (16, 16)
        layers = (nn.Sequential(nn.Conv2d(*pair, 3), nn.BatchNorm2d(pair[1]), nn.ReLU()) for pair in widths)
        model, batch, call = nn.Sequential(*layers), torch.ones(num_samples, 3, 16, 16), squares
    else:
        model, batch, call = (
            nn.LSTM(24, 32, 2, batch_first=True),
            torch.ones(num_samples, 32, 24),
            first_squares,
        )
    blocks = blocks_of(model) if kind == "gpt" else () if kind == "lstm" else None
    profile = profile_of(model, batch, call, blocks)
    with StorageMeter() as meter:
        meter.add([*model.parameters(), *model.buffers()], "params")
        meter.add(batch if isinstance(batch, tuple) else [batch])
        call(model, batch).backward()
    assert peak_bytes(profile, num_samples) == pytest.approx(meter.peak_bytes, rel=0.03)
