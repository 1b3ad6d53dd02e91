"""Published step times as rows that a plan can predict: the model, the layout, the cluster and what was measured."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hemostat.plan.calibrate import Measured
from hemostat.plan.families import LOSSES, SOFTWARE, Decoder, decoder_profile
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.profile import Profile
from hemostat.plan.workload import REGIMES, Regime, Workload

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data" / "plan"
_REGIMES: Final = {regime.name: regime for regime in REGIMES}
# Megatron before flash attention and fused losses, as in vTrain, Narayanan 2021 and Korthikanti 2022
_MEGATRON_2022: Final = msgspec.structs.replace(
    SOFTWARE["megatron"], name="megatron 2022", is_flash=False, loss=LOSSES["eager"]
)
# weights, gradients and what is reduced in 16 bit, master copy and two moments in fp32, nothing divided; gradients are
# summed when the passes are over ("DDP bucket off" in vTrain's configurations)
FP16: Final = msgspec.structs.replace(_REGIMES["mixed"], name="fp16", engine="megatron", overlaps=False)
_VTRAIN_NETWORK: Final = (
    100e9  # bytes/s of a node: vTrain's 800 Gb/s, half of what nodes of A100 usually have
)
_PURE: Final = msgspec.structs.replace(_REGIMES["bf16"], name="pure", zero_stage=3)
_MICRO_BATCHES: Final = (1, 2, 4, 8, 16)
_STAGES_PER_RANK: Final = (1, 2, 4, 8)


class Row(NamedTuple):
    """One measured configuration.

    Attributes:
        measured: what `calibrate` takes.
        configuration: model and layout without the micro batch; the split is by these.
        group: rows with one model, cluster and global batch, among which a user would choose.
        choices: where micro batch and interleaving were not published, each that is possible, else
            empty; the plan takes the fastest, as who ran it will have.
    """

    measured: Measured
    configuration: tuple[int, ...]
    group: tuple[int, ...]
    choices: tuple[tuple[Layout, Workload], ...] = ()


def split(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Rows to choose constants on, and held-out ones: every third configuration in sorted order."""
    names = sorted({row.configuration for row in rows})
    held = set(names[2::3])
    chosen = [row for row in rows if row.configuration not in held]
    return chosen, [row for row in rows if row.configuration in held]


def vtrain(name: str) -> list[Row]:
    """vTrain's measured steps, "singlenode" or "multinode"."""
    rows = []
    for row in read(f"vtrain_measured_{name}_a100.csv"):
        tp, dp, pp, micro = (int(row[key]) for key in ("tp", "dp", "pp", "mbs"))
        profile = gpt(row)
        work = Workload(micro_batch=micro, accumulation=int(row["gbs"]) // micro // dp, regime=FP16)
        cluster = Cluster.read(f"{row['n_gpus']}xA100-80GB")
        model = (int(row["layers"]), int(row["hidden"]), int(row["n_gpus"]))
        rows.append(
            Row(
                Measured(
                    profile,
                    megatron_layout(dp=dp, tp=tp, pp=pp, recompute="full"),
                    work,
                    msgspec.structs.replace(cluster, node_network_bytes_per_s=_VTRAIN_NETWORK),
                    float(row["measured_step_ms"]) / 1e3,
                ),
                configuration=(*model, tp, dp, pp),
                group=(*model, int(row["gbs"])),
            )
        )
    return rows


def narayanan() -> list[Row]:
    """Table 1 of Narayanan et al. 2021; neither micro batch nor interleaving is published."""
    rows = []
    for row in read("narayanan2021_table1.csv"):
        layout = megatron_layout(
            dp=int(row["dp_degree"]), tp=int(row["tp"]), pp=int(row["pp"]), recompute="full"
        )
        cluster = Cluster.read(f"{row['n_gpus']}xA100-80GB")
        rows.append(_without_micro_batch(row, gpt(row), layout, cluster, FP16, float(row["step_time_s"])))
    return rows


def megatron_h100() -> list[Row]:
    """The bf16 rows of Megatron-LM's H100 table, from its FLOP per second; the micro batch is not published."""
    rows = []
    for row in read("megatron_lm_h100.csv"):
        if row["precision"] != "bf16":
            continue
        layout = megatron_layout(
            dp=int(row["dp_degree"]), tp=int(row["tp"]), pp=int(row["pp"]), sequence_parallel=True
        )
        cluster = Cluster.read(f"{row['n_gpus']}xH100-80GB")
        profile = gpt(row, SOFTWARE["megatron"])
        step_s = _step_s(row, profile, float(row["tflops_per_gpu"]))
        rows.append(_without_micro_batch(row, profile, layout, cluster, _REGIMES["megatron"], step_s))
    return rows


def torchtitan() -> list[Row]:
    """The bf16 rows without context parallelism and with a stated recomputation; float8 is not modelled."""
    rows = []
    for row in read("torchtitan_measured.csv"):
        recompute = {"selective-op": "selective", "full": "full", "none": "none"}.get(row["activation_ckpt"])
        known = row["precision"] == "bf16-mixed" and row["cp"] == "1" and row["tokens_per_s_per_gpu"]
        if not known or recompute is None or "power" in row["gpu"] or "not restated" in row["model"]:
            continue
        layout = Layout(
            dp=1,
            fsdp=int(row["dp_degree"]),
            tp=int(row["tp"]),
            pp=int(row["pp"]),
            recompute=recompute,
            compile=row["compile"] == "1",
        )
        device = row["gpu"].removesuffix("-500W").split(" ")[0]
        profile = decoder_profile(_decoder(row, is_gated=True), "torchtitan")
        work = Workload(micro_batch=int(row["mbs"]), regime=_REGIMES["fsdp"])
        step_s = work.micro_batch * profile.num_tokens / layout.tp / float(row["tokens_per_s_per_gpu"])
        rows.append(
            Row(Measured(profile, layout, work, Cluster.read(f"{row['n_gpus']}x{device}"), step_s), (), ())
        )
    return rows


def llm_foundry() -> list[Row]:
    """MPT on A100 and H100 under FSDP, from MFU; float8 rows are left out."""
    rows = []
    devices = {"a100_40gb": "A100-40GB", "a100_80gb": "A100-80GB", "h100_80gb": "H100-80GB"}
    for row in read("llm_foundry_mpt_throughput.csv"):
        if "fp8" in row["precision"]:
            continue
        profile = decoder_profile(_decoder(row, is_gated=False), "torch")
        layout = Layout(
            dp=1,
            fsdp=int(row["n_gpus"]),
            recompute=row["activation_ckpt"],
            reshard=row["fsdp_or_zero"] == "FULL_SHARD",
        )
        regime = _PURE if "PURE" in row["precision"] else _REGIMES["fsdp"]
        work = Workload(micro_batch=int(row["mbs"]), accumulation=int(row["n_microbatches"]), regime=regime)
        num_tokens = work.micro_batch * work.accumulation * profile.num_tokens
        step_s = num_tokens / float(row["tokens_per_s_per_gpu"])
        cluster = Cluster.read(f"{row['n_gpus']}x{devices[row['gpu']]}")
        model = (int(row["layers"]), int(row["hidden"]), profile.num_tokens, cluster.num_devices)
        configuration = (*model, list(devices).index(row["gpu"]))
        rows.append(Row(Measured(profile, layout, work, cluster, step_s), configuration, ()))
    return rows


def simumax() -> list[Row]:
    """Megatron-LM on 8 x B200, the dense rows without context parallelism; their layers are cut down."""
    rows = []
    for row in read("simumax_b200_measured_vs_predicted.csv"):
        if row["cp"] != "1" or row["ep"] != "1":
            continue
        tp, dp, pp = (int(row[key]) for key in ("tp", "dp", "pp"))
        layout = megatron_layout(dp=dp, tp=tp, pp=pp, sequence_parallel=True)
        work = Workload(
            micro_batch=int(row["mbs"]), accumulation=int(row["n_microbatches"]), regime=_REGIMES["megatron"]
        )
        profile = decoder_profile(_decoder(row, is_gated=True), "megatron")
        model = (profile.num_blocks, int(row["hidden"]), tp, dp, pp)
        step_s = float(row["real_step_ms"]) / 1e3
        rows.append(Row(Measured(profile, layout, work, Cluster.read("8xB200"), step_s), model, ()))
    return rows


def korthikanti() -> list[Row]:
    """Four models with full recomputation, and with sequence parallelism and selective recomputation."""
    rows = []
    for row in read("korthikanti2022_models_time_memory.csv"):
        tp, pp, vpp, micro = (int(row[key]) for key in ("tp", "pp", "vpp", "mbs"))
        work = Workload(micro_batch=micro, accumulation=int(row["gbs"]) // micro, regime=FP16)
        cluster = Cluster.read(f"{row['n_gpus']}xA100-80GB")
        for recompute, column in (("full", "step_s_full_recompute"), ("selective", "step_s_sp_selective")):
            layout = megatron_layout(
                dp=1, tp=tp, pp=pp, vpp=vpp, recompute=recompute, sequence_parallel=recompute == "selective"
            )
            rows.append(Row(Measured(gpt(row), layout, work, cluster, float(row[column])), (), ()))
    return rows


def llama3() -> list[Row]:
    """The Llama 3 paper without context parallelism; micro batch and interleaving are not published."""
    rows = []
    for row in read("llama3_paper_mfu.csv"):
        if row["cp"] != "1":
            continue
        layout = Layout(
            dp=1, fsdp=int(row["dp_degree"]), tp=int(row["tp"]), pp=int(row["pp"]), schedule="1f1b"
        )
        cluster = Cluster.read(f"{row['n_gpus']}xH100-80GB")
        profile = decoder_profile(_decoder(row, is_gated=True), "torchtitan")
        step_s = _step_s(row, profile, float(row["tflops_per_gpu"]))
        rows.append(_without_micro_batch(row, profile, layout, cluster, _REGIMES["fsdp"], step_s))
    return rows


def read(name: str) -> Iterator[dict[str, str]]:
    """Rows of one of the tables."""
    path = DATA / name
    if not path.is_file():
        sys.exit(
            f"bench/plan_time.py: {name} is not there: put the published figures into ../shared/data/plan."
        )
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def megatron_layout(
    *, dp: int, tp: int, pp: int, vpp: int = 1, recompute: str = "none", **more: bool
) -> Layout:
    """Megatron's: no FSDP, equal stages, sequence parallelism only where it is said."""
    schedule = "interleaved" if vpp > 1 else "1f1b" if pp > 1 else None
    more.setdefault("sequence_parallel", False)
    return Layout(dp=dp, tp=tp, pp=pp, schedule=schedule, stages_per_rank=vpp, recompute=recompute, **more)


def _decoder(row: dict[str, str], *, is_gated: bool) -> Decoder:
    hidden, heads = int(row["hidden"]), int(row["heads"])
    return Decoder(
        name=row.get("model", "gpt"),
        num_layers=int(row["layers"]),
        hidden=hidden,
        num_heads=heads,
        num_kv_heads=int(row.get("kv_heads") or heads),
        head_width=hidden // heads,
        ffn=int(row.get("ffn") or 4 * hidden),
        vocab=int(row["vocab"]),
        num_tokens=int(row["seq"]),
        is_gated=is_gated,
    )


def gpt(row: dict[str, str], software: object = _MEGATRON_2022) -> Profile:
    """A GPT of Megatron with its dropout, biases and tied table."""
    decoder = msgspec.structs.replace(
        _decoder(row, is_gated=False),
        has_norm_bias=True,
        has_bias=True,
        num_positions=int(row["seq"]),
        is_tied=True,
        dropout=0.1,
    )
    return decoder_profile(decoder, software)


def _step_s(row: dict[str, str], profile: Profile, tflop_per_s: float) -> float:
    """From the FLOP per second of one device, without recomputation, attention as the software counts it: in full."""
    flop = 3.0 * sum(
        part.count * product.flop / product.density for part in profile.parts for product in part.products
    )
    return flop * int(row["gbs"]) / (tflop_per_s * 1e12 * int(row["n_gpus"]))


def _without_micro_batch(
    row: dict[str, str], profile: Profile, layout: Layout, cluster: Cluster, regime: Regime, step_s: float
) -> Row:
    each = int(row["gbs"]) // layout.num_data_ranks
    choices = []
    for micro in _MICRO_BATCHES:
        for num_stages in _STAGES_PER_RANK if layout.pp > 1 else (1,):
            if each % micro or profile.num_blocks < layout.pp * num_stages:
                continue
            schedule = "interleaved" if num_stages > 1 else layout.schedule
            looped = msgspec.structs.replace(layout, schedule=schedule, stages_per_rank=num_stages)
            choices.append((looped, Workload(micro_batch=micro, accumulation=each // micro, regime=regime)))
    return Row(Measured(profile, layout, choices[0][1], cluster, step_s), (), (), tuple(choices))
