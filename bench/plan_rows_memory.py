"""Published peaks of memory as profiles, layouts and workloads: one function per table of ../shared/data/plan."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from hemostat.plan.families import LOSSES, SOFTWARE, Decoder, decoder_profile, lora_profile
from hemostat.plan.families.software import Loss
from hemostat.plan.layout import Layout
from hemostat.plan.memory import Forecast, peak
from hemostat.plan.workload import REGIMES, Workload

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "plan"
GIB = 2**30
REGIME = {regime.name: regime for regime in REGIMES}


class Row(NamedTuple):
    """One published figure beside the forecast of its configuration.

    Attributes:
        name: as the table has it.
        config: what a configuration is told apart by.
        measured_bytes: published.
        forecast: None where the table does not say enough.
        predicted_bytes: of the same kind as the measured ones.
    """

    name: str
    config: str
    measured_bytes: float
    forecast: Forecast | None
    predicted_bytes: float

    @property
    def error_pct(self) -> float:
        """Above 0: predicted too much."""
        return 100 * (self.predicted_bytes / self.measured_bytes - 1)


def held_out(rows: Iterable[Row]) -> set[str]:
    """Every third configuration in alphabetical order; no constant is chosen on those."""
    return set(sorted({row.config for row in rows})[2::3])


def table(name: str) -> list[dict[str, str]]:
    """Rows of one of the tables."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def simumax() -> Iterator[Row]:
    """Dense and context-parallel rows, allocated; the three micro-batch counts of a configuration are one."""
    seen = set()
    for row in table("simumax_b200_measured_vs_predicted.csv"):
        sizes = {name: int(row[name]) for name in ("tp", "pp", "cp", "ep", "dp", "seq", "layers", "n_gpus")}
        if sizes["ep"] > 1:
            continue
        config = "-".join((row["model"], *(f"{name}{sizes[name]}" for name in ("tp", "pp", "cp", "seq"))))
        if config in seen:
            continue
        seen.add(config)
        decoder = Decoder(
            name=row["model"],
            num_layers=sizes["layers"],
            hidden=int(row["hidden"]),
            num_heads=int(row["heads"]),
            num_kv_heads=int(row["kv_heads"]),
            head_width=int(row["hidden"]) // int(row["heads"]),
            ffn=int(row["ffn"]),
            vocab=int(row["vocab"]),
            num_tokens=sizes["seq"] // sizes["cp"],
        )
        shares = sizes["dp"] * sizes["cp"]  # Megatron's distributed optimizer counts both
        forecast = peak(
            decoder_profile(decoder, "megatron"),
            Layout(dp=shares, tp=sizes["tp"], pp=sizes["pp"]),
            Workload(micro_batch=1, accumulation=4, regime=REGIME["megatron"]),
        )
        measured = float(row["real_peak_alloc_GiB"]) * GIB
        yield Row(row["case"], config, measured, forecast, forecast.allocated.num_bytes)


def simumax_reserved() -> Iterator[Row]:
    """The same rows, reserved."""
    published = {row["case"]: row for row in table("simumax_b200_measured_vs_predicted.csv")}
    for row in simumax():
        measured = float(published[row.name]["real_peak_reserved_GiB"]) * GIB
        yield row._replace(measured_bytes=measured, predicted_bytes=row.forecast.reserved.num_bytes)


SCHEDULE = {"": None, "1F1B": "1f1b", "Interleaved1F1B": "interleaved"}
RECOMPUTE = {"none": "none", "full": "full", "selective-op": "selective"}


def torchtitan() -> Iterator[Row]:
    """Reserved rows; those whose recomputation is not stated have no forecast, see `torchtitan_by_default`."""
    for row in _torchtitan_rows():
        if row["activation_ckpt"] in RECOMPUTE:
            yield _torchtitan_row(row, RECOMPUTE[row["activation_ckpt"]])
        else:
            yield Row("", _torchtitan_config(row), 0, None, 0)


def torchtitan_by_default() -> Iterator[Row]:
    """The rows that do not state the recomputation, as if it were selective-op, torchtitan's own default."""
    for row in _torchtitan_rows():
        if row["activation_ckpt"] not in RECOMPUTE:
            yield _torchtitan_row(row, "selective")


def _torchtitan_rows() -> Iterator[dict[str, str]]:
    """Without those of nvfp4, whose 4-bit copies are not modelled."""
    for row in table("torchtitan_measured.csv"):
        if row["peak_mem_kind"] == "reserved" and not row["precision"].startswith("nvfp4"):
            yield row


def _torchtitan_sizes(row: dict[str, str]) -> dict[str, int]:
    return {name: int(row[name] or 1) for name in ("tp", "pp", "cp", "vpp", "dp_degree", "seq", "mbs")}


def _torchtitan_config(row: dict[str, str]) -> str:
    words = (row[name] for name in ("model", "gpu", "compile", "precision", "activation_ckpt"))
    sizes = (f"{name}{size}" for name, size in _torchtitan_sizes(row).items())
    return "-".join((*words, *sizes, row["notes"][:2]))


def _torchtitan_loss(row: dict[str, str]) -> str:
    """Compiled since 2025, which is when rows of H200 and B200 begin."""
    if row["notes"].startswith("chunked"):
        return "chunked"
    return "compiled" if row["gpu"].startswith(("H200", "B200")) else "eager"


def _torchtitan_row(row: dict[str, str], recompute: str) -> Row:
    sizes = _torchtitan_sizes(row)
    decoder = Decoder(
        name=row["model"],
        num_layers=int(row["layers"]),
        hidden=int(row["hidden"]),
        num_heads=int(row["heads"]),
        num_kv_heads=int(row["kv_heads"]),
        head_width=128,
        ffn=int(row["ffn"]),
        vocab=int(row["vocab"]),
        num_tokens=sizes["seq"] // sizes["cp"],
        has_head_norms=row["model"].startswith("Qwen3"),
    )
    layout = Layout(
        fsdp=sizes["dp_degree"] * sizes["cp"],
        tp=sizes["tp"],
        pp=sizes["pp"],
        schedule=SCHEDULE[row["schedule"]],
        stages_per_rank=sizes["vpp"],
        reshard=sizes["pp"] == 1,
        recompute=recompute,
        compile=row["compile"] == "1",
    )
    software = msgspec.structs.replace(SOFTWARE["torchtitan"], loss=LOSSES[_torchtitan_loss(row)])
    number = int(row["n_microbatches"])
    work = Workload(micro_batch=sizes["mbs"], accumulation=number, regime=REGIME["fsdp"])
    forecast = peak(decoder_profile(decoder, software), layout, work)
    measured = float(row["peak_mem"]) * GIB
    config = _torchtitan_config(row)
    return Row(row["source_ref"][-12:], config, measured, forecast, forecast.reserved.num_bytes)


def _llama(
    name: str, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, **more: object
) -> Decoder:
    sizes = {"vocab": 128256, "num_tokens": 2048, "head_width": hidden // heads, "is_tied": True} | more
    return Decoder(
        name=name, num_layers=layers, hidden=hidden, num_heads=heads, num_kv_heads=kv_heads, ffn=ffn, **sizes
    )


# from the models' own config.json
SMALL = {
    "Llama-3.2-1B": _llama("Llama-3.2-1B", 16, 2048, 32, 8, 8192),
    "Llama-3.2-3B": _llama("Llama-3.2-3B", 28, 3072, 24, 8, 8192),
    "Llama-3.1-8B": _llama("Llama-3.1-8B", 32, 4096, 32, 8, 14336, is_tied=False),
    "Qwen2.5-1.5B": _llama("Qwen2.5-1.5B", 28, 1536, 12, 2, 8960, vocab=151936, has_bias="qkv"),
}

# one block is enough to count what it keeps
BLOCKS = {
    "SmolLM2-360M": _llama("SmolLM2-360M", 1, 960, 15, 5, 2560),
    "Llama-3.1-8B": SMALL["Llama-3.1-8B"],
    "Mistral-7B-v0.3": _llama("Mistral-7B-v0.3", 1, 4096, 32, 8, 14336),
    "DeepSeek-R1-0528-Qwen3-8B": _llama("Qwen3-8B", 1, 4096, 32, 8, 12288, has_head_norms=True),
    "Qwen3-4B": _llama("Qwen3-4B", 1, 2560, 32, 8, 9728, head_width=128, has_head_norms=True),
}


def vramcalc() -> Iterator[Row]:
    """Training rows, allocated; gradients are zeroed in place there, so they are held."""
    for row in table("vramcalc_single_gpu_measured.csv"):
        words = row["setting"].split()
        if row["mode"] != "train":
            continue
        decoder = SMALL[row["model"]]
        is_amp, rank = "amp" in words, [int(word[5:]) for word in words if word.startswith("lora=")]
        software = "transformers autocast" if is_amp else "transformers"
        used = msgspec.structs.replace(SOFTWARE[software], is_flash="eager" not in words)
        profile = lora_profile(decoder, rank[0], software) if rank else decoder_profile(decoder, used)
        regime = REGIME["autocast" if is_amp else "bf16"]
        if rank:  # adapters and their states are in fp32
            regime = msgspec.structs.replace(regime, grad_bytes=4, optimizer_bytes=8, step_bytes=4)
        forecast = peak(
            profile,
            Layout(recompute="full" if "ckpt" in words else "none"),
            Workload(micro_batch=1, regime=msgspec.structs.replace(regime, holds_grads=True)),
        )
        measured = float(row["measured_peak_alloc_GB"]) * 1e9
        name = f"{row['model']} {row['setting']}"
        yield Row(name, name, measured, forecast, forecast.allocated.num_bytes)


def long_context() -> Iterator[Row]:
    """Llama 3.1 8B up to 262,144 tokens, reserved: DeepSpeed's ZeRO-3 on 8 devices with the optimizer on the host.

    Full recomputation, and a loss that makes no logits of all tokens at once (Liger).
    """
    loss = Loss(name="in pieces", kept_bytes=0, forward_passing_bytes=0, passing_bytes=0)
    software = msgspec.structs.replace(SOFTWARE["transformers"], loss=loss)
    regime = msgspec.structs.replace(REGIME["bf16"], zero_stage=3, optimizer_bytes=0, step_bytes=0)
    for row in table("longcontext_zero3_h200_b200.csv"):
        decoder = msgspec.structs.replace(SMALL["Llama-3.1-8B"], num_tokens=int(row["seq"]))
        forecast = peak(
            decoder_profile(decoder, software),
            Layout(fsdp=int(row["n_gpus"]), recompute="full"),
            Workload(micro_batch=int(row["mbs"]), regime=regime),
        )
        for name in ("h200", "b200"):
            measured = float(row[f"{name}_peak_reserved_GiB"]) * GIB
            config = f"{row['seq']} tokens, {name}"
            yield Row(config, config, measured, forecast, forecast.reserved.num_bytes)


class Fit(NamedTuple):
    """A configuration that was published as running or as out of memory, and what the plan says of it.

    Attributes:
        name: of the configuration.
        ran: as published.
        is_predicted_to: by the expected need.
        is_safe: by the upper end of its error bar.
        forecast: of its memory.
    """

    name: str
    ran: bool
    is_predicted_to: bool
    is_safe: bool
    forecast: Forecast


def _fit(name: str, ran: bool, forecast: Forecast, device_bytes: float) -> Fit:
    return Fit(name, ran, forecast.fits(device_bytes), forecast.device.high_bytes <= device_bytes, forecast)


# what the driver offers to a process, in bytes: the nominal size in GiB, less 1 % for itself (39.59 GiB of 40 and
# 79.25 of 80 on an A100)
USABLE = 0.99


def mpt_fits() -> Iterator[Fit]:
    """Every row of llm-foundry's throughput tables ran on its device."""
    for row in table("llm_foundry_mpt_throughput.csv"):
        hidden, tokens = int(row["hidden"]), int(row["seq"])
        decoder = Decoder(
            name=row["model"],
            num_layers=int(row["layers"]),
            hidden=hidden,
            num_heads=int(row["heads"]),
            num_kv_heads=int(row["heads"]),
            head_width=hidden // int(row["heads"]),
            ffn=int(row["ffn"]),
            vocab=int(row["vocab"]),
            num_tokens=tokens,
            is_gated=False,
            num_positions=tokens,
            is_tied=True,
        )
        software = msgspec.structs.replace(SOFTWARE["torch"], loss=LOSSES["separate"])
        layout = Layout(
            fsdp=int(row["dp_degree"]),
            reshard=row["fsdp_or_zero"] == "FULL_SHARD",
            recompute=row["activation_ckpt"],
        )
        reduce_bytes = 2 if row["precision"].endswith("PURE") else 4
        regime = msgspec.structs.replace(REGIME["fsdp"], reduce_bytes=reduce_bytes)
        work = Workload(micro_batch=int(row["mbs"]), accumulation=int(row["n_microbatches"]), regime=regime)
        forecast = peak(decoder_profile(decoder, software), layout, work)
        more = " ".join((row["precision"], row["fsdp_or_zero"], row["activation_ckpt"]))
        name = f"{row['model']} seq {tokens} mbs {row['mbs']} on {row['n_gpus']} x {row['gpu']} {more}"
        yield _fit(name, True, forecast, float(row["gpu_mem_gb"]) * GIB * USABLE)


def _plain(name: str, layers: int, hidden: int, heads: int, vocab: int, **more: object) -> Decoder:
    sizes = {
        "num_kv_heads": heads,
        "head_width": hidden // heads,
        "ffn": 4 * hidden,
        "is_gated": False,
    } | more
    return Decoder(
        name=name, num_layers=layers, hidden=hidden, num_heads=heads, vocab=vocab, num_tokens=1, **sizes
    )


# from the models' own config.json
LITGPT = {
    ("1.3 B", "phi-1.5"): _plain("phi-1.5", 24, 2048, 32, 51200, has_bias=True),
    ("3 B", "StableLM Alpha"): _plain("StableLM Alpha 3B", 16, 4096, 32, 50688, has_bias=True),
    ("7 B", "Llama 2"): _plain("Llama 2 7B", 32, 4096, 32, 32000, is_gated=True, ffn=11008),
    ("13 B", "Llama 2"): _plain("Llama 2 13B", 40, 5120, 40, 32000, is_gated=True, ffn=13824),
    ("40 B", "Falcon"): _plain("Falcon 40B", 60, 8192, 128, 65024, num_kv_heads=8),
}
NF4_BYTES = {
    "None": 2.0,
    "bnb.nf4": 0.5 + 4 / 64,
    "bnb.nf4-dq": 0.5 + 1 / 64 + 4 / (64 * 256),
}  # 4 bits and scales


def litgpt_fits() -> Iterator[Fit]:
    """Adapters on one device of 40 GB, or shared out by FSDP after the whole model was loaded on each."""
    for row in table("litgpt_resource_tables.csv"):
        if row["peak_mem_GB"] == "N/A":
            continue
        num_gpus, quant = int(row["gpus"].split()[0]), row["quant"]
        decoder = msgspec.structs.replace(
            LITGPT[row["size"], row["model"]], num_tokens=int(row["max_seq_tokens"])
        )
        software = msgspec.structs.replace(SOFTWARE["transformers"], repeats_keys=True)
        regime = msgspec.structs.replace(
            REGIME["bf16"], weight_bytes=NF4_BYTES[quant], zero_stage=0, loads_whole=True
        )
        is_quantised = quant != "None"
        table_bytes = (
            decoder.vocab * decoder.hidden * (2 - regime.weight_bytes)
        )  # only products are quantised
        profile = lora_profile(decoder, 8, software, is_cast=False, is_quantised=is_quantised)
        forecast = peak(
            msgspec.structs.replace(profile, num_buffer_bytes=round(table_bytes)),
            Layout(fsdp=num_gpus),
            Workload(micro_batch=int(row["mbs"]), regime=regime),
        )
        name = f"{row['method']}: {row['size']} {row['model']} {quant} mbs {row['mbs']} {row['peak_mem_GB']}"
        yield _fit(name, row["peak_mem_GB"] != "OOM", forecast, 40 * GIB * USABLE)
