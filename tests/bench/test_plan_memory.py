"""The comparison with published peaks: its split, its bars, and its formulas."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "plan"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield importlib.import_module("plan_memory")


@pytest.fixture
def _published() -> None:
    if not PUBLISHED.is_dir():
        pytest.skip("the published tables are not here")


def rows_of(bench, *errors: float, known: bool = True):
    rows = bench.Row
    within = SimpleNamespace(reserved=SimpleNamespace(low_bytes=95, high_bytes=110))
    forecast = within if known else None
    return [
        rows(str(number), f"config {number}", 100.0, forecast, 100.0 + error)
        for number, error in enumerate(errors)
    ]


def test_every_third_configuration_is_held_out_whatever_the_order(bench):
    rows = rows_of(bench, 0, 1, 2, 3, 4, 5)
    assert bench.held_out(rows) == bench.held_out(rows[::-1]) == {"config 2", "config 5"}
    twice = [*rows, *rows]  # two rows of one configuration are on one side
    assert bench.held_out(twice) == {"config 2", "config 5"}


def test_errors_of_both_parts_stand_apart(bench):
    fit, held = bench.errors_of(rows_of(bench, 1, -2, 8))
    assert (fit, held) == (pytest.approx([1, -2]), pytest.approx([8]))
    assert bench.errors_of(rows_of(bench, 1, 2, 3, known=False)) == ([], [])


def test_too_little_is_the_error_that_runs_out_of_memory(bench):
    found = {each["name"]: each for each in bench.torchtitan_figures(rows_of(bench, 12, -4, 3))}
    assert found["torchtitan_reserved_max_error_pct"]["value"] == pytest.approx(12)
    assert not found["torchtitan_reserved_max_error_pct"]["meets"]
    assert found["torchtitan_reserved_max_under_pct"]["value"] == pytest.approx(4)
    assert found["torchtitan_reserved_max_under_pct"]["meets"]
    assert found["torchtitan_reserved_inside_error_bar_pct"]["value"] == 100


@pytest.mark.usefixtures("_published")
def test_allocated_peaks_are_within_the_bars(bench):
    found = {each["name"]: each for each in bench.simumax_figures(list(bench.simumax()))}
    found |= {each["name"]: each for each in bench.vramcalc_figures(list(bench.vramcalc()))}
    for name in (
        "simumax_allocated_mean_error_pct",
        "simumax_allocated_max_error_pct",
        "vramcalc_max_error_pct",
    ):
        assert found[name]["meets"], found[name]


@pytest.mark.usefixtures("_published")
def test_reserved_peaks_are_within_ten_percent(bench):
    found = {each["name"]: each for each in bench.torchtitan_figures(list(bench.torchtitan()))}
    assert found["torchtitan_reserved_max_error_pct"]["meets"]


@pytest.mark.usefixtures("_published")
def test_everything_that_ran_fits_and_nothing_that_did_not(bench, capsys):
    found = {each["name"]: each for each in bench.fit_figures()}
    assert found["fit_wrong"]["value"] == 0, capsys.readouterr().out
    assert found["fit_called_safe_wrongly"]["value"] == 0


def test_a_fit_is_counted_by_the_expected_need_and_by_the_upper_end(bench, monkeypatch):
    said = [(True, True, True), (True, True, False), (False, True, False), (False, False, False)]
    fits = [
        SimpleNamespace(
            ran=ran, is_predicted_to=fits, is_safe=safe, name="", forecast=SimpleNamespace(device=0)
        )
        for ran, fits, safe in said
    ]
    monkeypatch.setattr(bench, "mpt_fits", lambda: fits)
    monkeypatch.setattr(bench, "litgpt_fits", list)
    found = {each["name"]: each["value"] for each in bench.fit_figures()}
    assert found == {"fit_wrong": 1, "fit_wrong_at_upper_end": 1, "fit_called_safe_wrongly": 0}


@pytest.mark.usefixtures("_published")
def test_error_bars_are_the_quantiles_that_they_are_said_to_be(bench):
    tables = {
        name: list(getattr(bench, name)())
        for name in ("simumax", "simumax_reserved", "torchtitan", "vramcalc")
    }
    found = {each["name"]: each["value"] for each in bench.error_bar_figures(tables)}
    assert found["allocated_error_90_pct"] == pytest.approx(100 * bench.ALLOCATED_ERROR, abs=0.05)
    ends = found["reserved_low_5_pct"], found["reserved_high_95_pct"]
    assert ends == pytest.approx(bench.RESERVED_RANGE, abs=0.0005)


@pytest.mark.usefixtures("_published")
def test_formulas_of_papers_come_out_to_rounding(bench):
    assert bench.formula_misses() == []


def test_the_closed_form_has_the_tensors_that_a_hugging_face_block_saves(bench):
    torch, llama = (
        pytest.importorskip("torch"),
        pytest.importorskip("transformers.models.llama.modeling_llama"),
    )
    tokens, hidden = 32, 128
    config = llama.LlamaConfig(
        hidden_size=hidden,
        intermediate_size=352,
        num_attention_heads=4,
        num_key_value_heads=4,  # grouped keys are repeated in some versions only
        num_hidden_layers=1,
    )
    config._attn_implementation = "sdpa"
    layer = llama.LlamaDecoderLayer(config, 0).to(torch.bfloat16)
    x = torch.zeros(1, tokens, hidden, dtype=torch.bfloat16, requires_grad=True)
    places = llama.LlamaRotaryEmbedding(config)(x, torch.arange(tokens)[None])
    known = {each.untyped_storage().data_ptr() for each in (*layer.parameters(), *places)}
    saved = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known and tensor.numel() > tokens * 4:  # not statistics of rows
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = layer(x * 1, position_embeddings=places)
    assert out is not None
    decoder = bench.Decoder(
        num_layers=1,
        hidden=hidden,
        num_heads=4,
        num_kv_heads=4,
        head_width=32,
        ffn=352,
        vocab=1,
        num_tokens=tokens,
    )
    kept = bench.decoder_profile(decoder, "transformers").parts[1].kept
    counted = sum(each.num_bytes for each in kept if not each.is_extra and "statistics" not in each.name)
    assert sum(saved.values()) == counted
