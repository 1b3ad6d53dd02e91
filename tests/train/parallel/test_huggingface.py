"""Stages of Hugging Face decoders against the whole model: logits and gradients."""

import sys

import pytest
import torch

from hemostat.errors import TaskError
from hemostat.train.parallel.huggingface import FAMILIES, family_of
from hemostat.train.parallel.parts import find_parts
from hemostat.train.parallel.stages import build_stages, prune, tied

transformers = pytest.importorskip("transformers", "5", reason="pip install 'hemostat[hf]'")

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "vocab_size": 67,
}
SLIDING = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2}
MODELS = {
    "llama": ("Llama", SMALL),
    "llama uncached": ("Llama", {**SMALL, "use_cache": False}),
    "llama tied": ("Llama", {**SMALL, "tie_word_embeddings": True}),
    "llama eager": ("Llama", {**SMALL, "attn_implementation": "eager", "attention_dropout": 0.1}),
    "mistral": ("Mistral", {**SMALL, "sliding_window": None}),
    "mistral sliding": ("Mistral", {**SMALL, "sliding_window": 5}),
    "qwen2": ("Qwen2", SMALL),
    "qwen2 sliding": ("Qwen2", {**SMALL, **SLIDING}),
    "qwen3": ("Qwen3", {**SMALL, "head_dim": 8}),
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 16, "vocab_size": 67}),
}
CUTS = [(0, 2, 4), (0, 1, 3, 4), (0, 1, 2, 3, 4)]
ROWS, LENGTH = 2, 9


def make(name):
    family, options = MODELS[name]
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0} if family == "GPT2" else {}
    config = getattr(transformers, f"{family}Config")(**options, **ends)
    kind = "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    return getattr(transformers, kind)(config).double().train()


def ids(rows=ROWS):
    return torch.randint(0, 67, (rows, LENGTH), generator=torch.Generator().manual_seed(rows))


def padding(rows=ROWS):
    mask = torch.ones(rows, LENGTH, dtype=torch.int64)
    mask[-1, 6:] = 0
    return mask


INPUTS = {
    "ids": lambda rows: ((ids(rows),), {}),
    "named": lambda rows: ((), {"input_ids": ids(rows)}),
    "mask": lambda rows: ((), {"attention_mask": padding(rows), "input_ids": ids(rows)}),
    "positions": lambda rows: ((ids(rows), None, torch.arange(LENGTH).repeat(rows, 1) + 3), {}),
    "packed": lambda rows: (
        (),
        {"input_ids": ids(rows), "position_ids": torch.arange(LENGTH).repeat(rows, 1) % 4},
    ),
}


def pipelined(stages, args, kwargs):
    values = args
    for stage in stages:
        returned = stage(*values, **kwargs)
        values = returned if isinstance(returned, tuple) else (returned,)
    return stages[-1].wrap(returned)


def gradients(model, output):
    model.zero_grad()
    output.logits.square().sum().backward()
    return {name: param.grad.clone() for name, param in model.named_parameters()}


CASES = [(name, "mask") for name in MODELS] + [
    (name, given)
    for name in ("llama", "llama uncached", "mistral sliding", "gpt2")
    for given in INPUTS
    if given != "mask"
]


@pytest.mark.parametrize(("name", "given"), CASES)
def test_a_chain_of_stages_is_the_model(name, given):
    model = make(name)
    cuts = CUTS if given == "mask" else CUTS[1:2]
    for cut in cuts:
        stages = build_stages(model, find_parts(model), cut, INPUTS[given](ROWS))
        for rows in (ROWS, 3):
            args, kwargs = INPUTS[given](rows)
            torch.manual_seed(1)
            expected = model(*args, **kwargs)
            expected_gradients = gradients(model, expected)
            torch.manual_seed(1)
            output = pipelined(stages, args, kwargs)
            assert type(output) is type(expected)
            torch.testing.assert_close(output.logits, expected.logits, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(gradients(model, output), expected_gradients, rtol=1e-12, atol=1e-12)
    assert max(float(grad.abs().max()) for grad in expected_gradients.values()) > 1e-3


def test_packed_sequences_are_told_where_the_model_tells_them():
    """Without a cache the positions say where a sequence begins; with one the model does not look."""
    args, kwargs = INPUTS["packed"](ROWS)
    with torch.no_grad():
        apart, together = (make(name).eval()(*args, **kwargs).logits for name in ("llama uncached", "llama"))
    assert float((apart - together).abs().max()) > 1e-3


def test_recomputation_in_the_blocks_is_heeded():
    model = make("llama")
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    stages = build_stages(model, find_parts(model), (0, 1, 4), INPUTS["packed"](ROWS))
    args, kwargs = INPUTS["packed"](ROWS)
    expected, output = model(*args, **kwargs), pipelined(stages, args, kwargs)
    torch.testing.assert_close(output.logits, expected.logits, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_and_no_sample(name):
    model = make(name)
    stages = build_stages(model, find_parts(model), (0, 1, 4))
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(
            pipelined(stages, (ids(),), {}).logits, model(ids()).logits, rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("name", MODELS)
def test_names_pruning_and_the_tie(name):
    model = make(name)
    keys = model.state_dict().keys()
    stages = build_stages(model, find_parts(model), (0, 1, 3, 4))
    assert set().union(*(stage.state_dict() for stage in stages)) == keys
    params = dict(model.named_parameters(remove_duplicate=False))
    assert all(params[key] is param for stage in stages for key, param in stage.named_parameters())
    pair = {"gpt2": ("transformer.wte.weight", "lm_head.weight")}
    pair["llama tied"] = ("model.embed_tokens.weight", "lm_head.weight")
    assert tied(model, stages) == pair.get(name)
    last = stages[-1].state_dict().keys()
    prune(model, stages[-1:])
    assert model.state_dict().keys() == last < keys


def test_labels_are_the_tasks_affair():
    model = make("llama")
    with pytest.raises(TaskError, match="is given input_ids, labels, and its stages take input_ids"):
        build_stages(model, find_parts(model), (0, 2, 4), ((), {"labels": ids(), "input_ids": ids()}))
    with pytest.raises(TaskError, match="and the labels as the target"):
        build_stages(model, find_parts(model), (0, 2, 4), ((), {"token_type_ids": ids(), "input_ids": ids()}))


def test_types_of_tokens_are_for_gpt2():
    model = make("gpt2").eval()
    kwargs = {"input_ids": ids(), "token_type_ids": ids().flip(0)}
    stages = build_stages(model, find_parts(model), (0, 2, 4), ((), kwargs))
    output, expected = pipelined(stages, (), kwargs).logits, model(**kwargs).logits
    torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("output_hidden_states", True, r"config\.output_hidden_states=True of LlamaForCausalLM"),
        ("return_dict", False, r"config\.return_dict=False"),
    ],
)
def test_what_stages_do_not_do_is_refused(field, value, message):
    model = make("llama")
    setattr(model.config, field, value)
    with pytest.raises(TaskError, match=message):
        build_stages(model, find_parts(model), (0, 2, 4))


def test_an_old_transformers_is_refused(monkeypatch):
    model = make("llama")
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "4.57.1")  # it has replaced itself
    with pytest.raises(
        TaskError, match=r"need transformers 5, found 4\.57\.1\. Install it: pip install -U trans"
    ):
        build_stages(model, find_parts(model), (0, 2, 4))


def test_a_decoder_with_a_forward_of_its_own_is_no_family():
    class Own(transformers.LlamaForCausalLM):
        def forward(self, input_ids):
            return super().forward(input_ids).logits * 2

    class Same(transformers.LlamaForCausalLM):
        """Nothing changed."""

    config = transformers.LlamaConfig(**SMALL)
    assert family_of(Own(config)) is None
    assert family_of(Same(config)) == FAMILIES["llama"]
    model = Own(config)
    with pytest.raises(TaskError, match="Own cannot be cut into stages"):
        build_stages(model, find_parts(model), (0, 2, 4))
