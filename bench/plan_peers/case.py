"""`Case`: one published training run in the words that estimators ask for, beside hemostat's own forecast of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
import torch
import transformers

from hemostat.plan.families import Decoder
from plan_rows_memory import GIB, SMALL, Row, simumax, table, torchtitan, vramcalc

# the published figures are of decimal gigabytes there
GB = 1e9


class Case(NamedTuple):
    """What an estimator may ask.

    Attributes:
        row: published figure and hemostat's forecast.
        decoder: sizes of the model; its `num_tokens` are those of a whole sample.
        num_data_ranks: devices of the data axis.
        tp: degree of tensor parallelism.
        pp: stages.
        cp: devices that share out a sample.
        zero_stage: which states the data ranks share out, 0 to 3.
        micro_batch: samples at once on a device.
        dtype: of the weights that a device holds, as torch names it.
        lora_rank: of adapters; 0 where all weights are trained.
        own_bytes: what the authors of the table foretold, where it has that.
    """

    row: Row
    decoder: Decoder
    num_data_ranks: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    zero_stage: int = 0
    micro_batch: int = 1
    dtype: str = "bfloat16"
    lora_rank: int = 0
    own_bytes: float | None = None

    @property
    def has_one_axis(self) -> bool:
        """Nothing but data ranks, and all weights are trained."""
        return self.tp == self.pp == self.cp == 1 and not self.lora_rank

    @property
    def shared_stage(self) -> int:
        """`zero_stage` where there is somebody to share with."""
        return self.zero_stage if self.num_data_ranks > 1 else 0


def model_config(decoder: Decoder) -> transformers.PretrainedConfig:
    """The config.json of a decoder, as transformers reads it."""
    kind = transformers.Qwen2Config if decoder.has_bias == "qkv" else transformers.LlamaConfig
    return kind(
        vocab_size=decoder.vocab,
        hidden_size=decoder.hidden,
        intermediate_size=decoder.ffn,
        num_hidden_layers=decoder.num_layers,
        num_attention_heads=decoder.num_heads,
        num_key_value_heads=decoder.num_kv_heads,
        head_dim=decoder.head_width,
        max_position_embeddings=decoder.num_tokens,
        tie_word_embeddings=decoder.is_tied,
    )


def empty_model(case: Case) -> torch.nn.Module:
    """The model of a case on the meta device, in the dtype that the case holds weights in."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(model_config(case.decoder))
        return model.to(getattr(torch, case.dtype))


def published(
    rows: Iterable[Row], name: str, column: str, unit_bytes: float
) -> Iterator[tuple[Row, dict[str, str]]]:
    """Each row that has a forecast, with the line of the table that it was read from; the order is the table's.

    Raises:
        ValueError: no line has the figure of a row.
    """
    lines = iter(table(name))
    for row in rows:
        if row.forecast is None:
            continue
        for line in lines:
            is_same = line[column] and float(line[column]) * unit_bytes == row.measured_bytes
            if is_same and row.config.startswith(line["model"]):
                yield row, line
                break
        else:
            raise ValueError(f"{name}: no line has {row.measured_bytes / unit_bytes:g} for {row.config}")


def _sizes(line: dict[str, str]) -> Decoder:
    heads, hidden = int(line["heads"]), int(line["hidden"])
    return Decoder(
        name=line["model"],
        num_layers=int(line["layers"]),
        hidden=hidden,
        num_heads=heads,
        num_kv_heads=int(line["kv_heads"]),
        head_width=hidden // heads,
        ffn=int(line["ffn"]),
        vocab=int(line["vocab"]),
        num_tokens=int(line["seq"]),
    )


def simumax_cases() -> Iterator[Case]:
    """Megatron, whose optimizer states are shared out (stage 1)."""
    name, column = "simumax_b200_measured_vs_predicted.csv", "real_peak_alloc_GiB"
    for row, line in published(simumax(), name, column, GIB):
        yield Case(
            row,
            _sizes(line),
            num_data_ranks=int(line["dp"]),
            tp=int(line["tp"]),
            pp=int(line["pp"]),
            cp=int(line["cp"]),
            zero_stage=1,
            micro_batch=int(line["mbs"]),
            own_bytes=float(line["simumax_alloc_GiB"]) * GIB,
        )


def torchtitan_cases() -> Iterator[Case]:
    """FSDP2: everything is shared out (stage 3), in float32."""
    for row, line in published(torchtitan(), "torchtitan_measured.csv", "peak_mem", GIB):
        yield Case(
            row,
            _sizes(line),
            num_data_ranks=int(line["dp_degree"]),
            tp=int(line["tp"] or 1),
            pp=int(line["pp"] or 1),
            cp=int(line["cp"] or 1),
            zero_stage=3,
            micro_batch=int(line["mbs"]),
            dtype="float32",
        )


def vramcalc_cases() -> Iterator[Case]:
    """One device; under autocast ("amp") the weights are float32, else everything is bfloat16 ("pure")."""
    name, column = "vramcalc_single_gpu_measured.csv", "measured_peak_alloc_GB"
    for row, line in published(vramcalc(), name, column, GB):
        words = line["setting"].split()
        values = dict(word.split("=") for word in words if "=" in word)
        yield Case(
            row,
            msgspec.structs.replace(SMALL[line["model"]], num_tokens=int(values["s"])),
            micro_batch=int(values["b"]),
            dtype="float32" if "amp" in words else "bfloat16",
            lora_rank=int(values.get("lora", 0)),
            own_bytes=float(line["predicted_GB"]) * GB,
        )


TABLES: dict[str, Callable[[], Iterator[Case]]] = {
    "simumax": simumax_cases,
    "torchtitan": torchtitan_cases,
    "vramcalc": vramcalc_cases,
}
