"""Where a model can be split: what the task says, what is found, and what is refused."""

import pytest
import torch
from torch import nn

from hemostat.errors import TaskError
from hemostat.train.parallel.parts import WORDS, find_parts, require_blocks, require_tensor_plan, starred


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Decoder(nn.Module):
    def __init__(self, layers=None):
        super().__init__()
        self.embedding = nn.Embedding(100, 8)
        self.body = nn.ModuleDict(
            {"h": layers or nn.ModuleList(Block() for _ in range(3)), "norm": nn.LayerNorm(8)}
        )
        self.readout = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 100))


def test_the_children_of_a_sequential_are_its_blocks():
    assert find_parts(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))).blocks == ("0", "1", "2")


def test_one_shared_activation_has_all_its_names():
    act = nn.ReLU()
    assert find_parts(nn.Sequential(nn.Linear(2, 2), act, nn.Linear(2, 2), act)).blocks == (
        "0",
        "1",
        "2",
        "3",
    )


def test_the_outermost_module_list_is_found_wherever_it_is():
    parts = find_parts(Decoder())
    assert parts.blocks == ("body.h.0", "body.h.1", "body.h.2")  # neither the experts nor the readout
    assert parts.why == "the nn.ModuleList body.h"
    assert parts.tensor_plan == {}


def test_an_inner_sequential_is_found_where_there_is_no_list():
    model = Decoder(nn.Sequential(*(Block() for _ in range(5))))
    assert find_parts(model).blocks == tuple(f"body.h.{number}" for number in range(5))


def test_two_lists_of_one_size_are_not_guessed_at():
    model = nn.Module()
    model.encoder = nn.ModuleList(Block() for _ in range(2))
    model.decoder = nn.ModuleList(Block() for _ in range(2))
    parts = find_parts(model)
    assert parts.blocks == ()
    with pytest.raises(
        TaskError, match=r"\(encoder, decoder\) outweighs the others\. Write blocks\(self, model\)"
    ):
        require_blocks(model, parts)
    model.decoder.extend(Block() for _ in range(4))
    assert find_parts(model).blocks == tuple(f"decoder.{number}" for number in range(6))


def test_a_model_without_blocks_says_so():
    model = Block()
    del model.experts
    with pytest.raises(
        TaskError, match=r"Block cannot be cut into blocks: it has no nn\.ModuleList.*Write blocks"
    ):
        require_blocks(model, find_parts(model))


def test_the_task_has_the_last_word():
    model = Decoder()
    assert find_parts(model, [model.readout, model.body.h[1]]).blocks == ("readout", "body.h.1")
    assert find_parts(model, model.body.h).modules(model) == list(model.body.h)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (
            lambda m: [m.body.h[0], nn.Linear(3, 3)],
            r"as number 1 a Linear that is no part of Decoder.*Return modules",
        ),
        (lambda m: [m], r"as number 0 a Decoder that is no part"),
        (lambda m: [m.body.h[0], 7], r"as number 1 a int that is no part"),
        (lambda m: [m.body, m.body.h[0]], r"returned body\.h\.0 and body, which share"),
        (lambda m: [m.body.h[0], m.body.h[0]], r"returned body\.h\.0 and body\.h\.0, which share"),
        (lambda m: [], r"returned none"),
    ],
)
def test_wrong_blocks_are_named(blocks, message):
    model = Decoder()
    with pytest.raises(TaskError, match=message):
        find_parts(model, blocks(model))


def test_a_star_stands_for_the_number_of_a_block():
    plan = {"body.h.*.up": "colwise", "body.h.*.down": "rowwise", "embedding": "vocab_in"}
    found = find_parts(Decoder(), tensor_plan=plan).tensor_plan
    assert found["body.h.2.up"] == "colwise" and found["embedding"] == "vocab_in"
    assert len(found) == 7
    assert starred("body.h.12.experts.0") == "body.h.*.experts.*"


def test_a_plan_that_fits_nothing_is_named():
    with pytest.raises(TaskError, match=r"names 'layers\.\*\.up', and Decoder has no such module"):
        find_parts(Decoder(), tensor_plan={"layers.*.up": "colwise"})
    with pytest.raises(
        TaskError, match=r"tensor_plan\(\)\['embedding'\]='columns' is no known word.*colwise"
    ):
        find_parts(Decoder(), tensor_plan={"embedding": "columns"})


def test_a_model_without_a_plan_is_told_its_matrices_and_what_to_write():
    model = Decoder()
    with pytest.raises(
        TaskError, match=r"Decoder has no tensor plan.*\(body\.h\.\*\.up, .*\)\. Write tensor_plan"
    ):
        require_tensor_plan(model, find_parts(model))
    require_tensor_plan(model, find_parts(model, tensor_plan={"embedding": "vocab_in"}))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Llama", {"tie_word_embeddings": True}),
        ("Mistral", {}),
        ("Qwen2", {}),
        ("Qwen3", {"head_dim": 8}),
    ],
)
def test_the_plan_of_a_decoder_names_every_matrix_and_norm(name, options):
    transformers = pytest.importorskip("transformers", reason="pip install 'hemostat[hf]'")
    config = getattr(transformers, f"{name}Config")(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=67,
        intermediate_size=48,
        **options,
    )
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    parts = find_parts(model)
    assert parts.blocks == ("model.layers.0", "model.layers.1")
    own = {
        key for key, module in model.named_modules() if any(True for _ in module.parameters(recurse=False))
    }
    assert set(parts.tensor_plan) == own
    assert set(parts.tensor_plan.values()) <= set(WORDS)


def test_the_attention_of_gpt2_stays_whole():
    transformers = pytest.importorskip("transformers", reason="pip install 'hemostat[hf]'")
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=67, n_positions=16)
    parts = find_parts(transformers.GPT2LMHeadModel(config))
    assert parts.blocks == ("transformer.h.0", "transformer.h.1")
    assert {name.split(".")[-2] for name in parts.tensor_plan if ".h." in name} == {"mlp"}


def test_a_decoder_of_the_users_own_is_searched_like_any_model():
    transformers = pytest.importorskip("transformers", reason="pip install 'hemostat[hf]'")

    class Own(transformers.GPT2LMHeadModel):
        def forward(self, input_ids):
            return super().forward(input_ids).logits

    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=67, n_positions=16)
    parts = find_parts(Own(config))
    assert parts.why == "the nn.ModuleList transformer.h" and parts.tensor_plan == {}


def test_finding_parts_leaves_the_model_alone():
    model = Decoder()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    find_parts(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
