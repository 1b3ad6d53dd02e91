"""Published steps on which nothing was chosen: ZeRO-3 beside Megatron, single runs, and the time of one layer."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

import plan_rows_time as tables
from hemostat.plan import Layout, Profile
from hemostat.plan.calibrate import Measured
from hemostat.plan.duration import duration
from hemostat.plan.families import Decoder, decoder_profile
from hemostat.plan.hardware import Cluster
from hemostat.plan.workload import REGIMES, Workload
from plan_rows_time import FP16, Row

_TOKENS = 300e9  # that table 2 of Narayanan et al. gives the days of
_SECONDS = 86400.0
_ZERO_3 = msgspec.structs.replace(FP16, name="ZeRO-3", zero_stage=3, engine="torch", overlaps=True)
_TP = 8  # of Megatron's rows, the devices of a node (Narayanan et al. 2021, section 5.4.1)


def zero_beside_megatron() -> list[Row]:
    """Table 2 of Narayanan et al. 2021, from its days."""
    rows = []
    for row in tables.read("narayanan2021_table2_zero3_vs_ptd.csv"):
        num_devices, batch = int(row["n_gpus"]), int(row["global_batch"])
        parts, micro = int(row["model_parallel_size"]), int(row["mbs"])
        regime = FP16 if parts > 1 else _ZERO_3
        if parts > 1:
            layout = tables.megatron_layout(
                dp=num_devices // parts, tp=_TP, pp=parts // _TP, recompute="full"
            )
        else:
            layout = Layout(dp=1, fsdp=num_devices, recompute="full")
        work = Workload(
            micro_batch=micro, accumulation=max(1, batch // micro // layout.num_data_ranks), regime=regime
        )
        profile = tables.gpt(row)
        step_s = float(row["days_for_300B_tokens"]) * _SECONDS * batch * profile.num_tokens / _TOKENS
        cluster = Cluster.read(f"{num_devices}xA100-80GB")
        rows.append(Row(Measured(profile, layout, work, cluster, step_s), (), ()))
    return rows


def single_runs() -> list[Row]:
    """MT-NLG on three numbers of devices, and IBM's Llama 2 under FSDP; the other runs say no layout."""
    rows = []
    for row in tables.read("published_runs.csv"):
        if row["run"].startswith("MT-NLG"):
            layout = tables.megatron_layout(
                dp=int(row["dp"]), tp=int(row["tp"]), pp=int(row["pp"]), recompute="full"
            )
            work = Workload(micro_batch=1, accumulation=int(row["gbs"]) // layout.num_data_ranks, regime=FP16)
            cluster = Cluster.read(f"{row['n_gpus']}xA100-80GB")
            profile = tables.gpt(row | {"vocab": "51200"})  # Megatron's padded table of GPT-2's words
            rows.append(Row(Measured(profile, layout, work, cluster, float(row["step_s"])), (), ()))
        elif row["run"].startswith("Llama-2-7B IBM"):
            rows.append(_ibm(row))
    return rows


def _ibm(row: dict[str, str]) -> Row:
    """3,700 tokens/s and device; MFU and HFU are one, so that nothing was computed again."""
    decoder = Decoder(
        num_layers=int(row["layers"]),
        hidden=int(row["hidden"]),
        num_heads=int(row["heads"]),
        num_kv_heads=int(row["heads"]),
        head_width=128,
        ffn=11008,
        vocab=32000,
        num_tokens=int(row["seq"]),
    )
    work = Workload(micro_batch=int(row["mbs"]), regime=REGIMES[2])
    step_s = work.micro_batch * decoder.num_tokens / 3700
    num_devices = int(row["n_gpus"])
    layout, cluster = Layout(dp=1, fsdp=num_devices), Cluster.read(f"{num_devices}xA100-80GB")
    return Row(Measured(decoder_profile(decoder, "torch"), layout, work, cluster, step_s), (), ())


class LayerTime(NamedTuple):
    """One layer of 22B under tensor parallelism over 8: published and predicted seconds, both passes."""

    name: str
    measured_s: float
    predicted_s: float

    @property
    def error_pct(self) -> float:
        return 100 * (self.predicted_s / self.measured_s - 1)


def layer_times() -> list[LayerTime]:
    """Table 4 of Korthikanti et al. 2022: what a second layer adds to a model of one."""
    sizes = {"hidden": "6144", "heads": "64", "seq": "2048", "vocab": "51200"}
    one, two = (tables.gpt(sizes | {"layers": str(count)}) for count in (1, 2))
    found = []
    for row in tables.read("korthikanti2022_table4_layer_time.csv"):
        name = row["experiment"]
        recompute = "full" if "full" in name else "selective" if name.startswith("selective") else "none"
        layout = tables.megatron_layout(
            dp=1, tp=8, pp=1, recompute=recompute, sequence_parallel="sequence" in name
        )
        seconds = _passes_s(two, layout) - _passes_s(one, layout)
        found.append(LayerTime(name, float(row["combined_ms"]) / 1e3, seconds))
    return found


def _passes_s(profile: Profile, layout: Layout) -> float:
    work = Workload(micro_batch=4, regime=FP16)
    step = duration(profile, layout, work, Cluster.read("8xA100-80GB"))
    return step.compute_s + step.recompute_s + step.tp_s
