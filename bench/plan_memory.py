"""Predicted peaks of memory beside published ones, row by row; writes bench/results/plan_memory.json.

A configuration is a model with its layout, micro-batch, sequence and precision; of each table every third one in
alphabetical order is held out (`held_out`), and no constant is chosen on it. Both errors stand apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from hemostat.plan.allocator import RESERVED_RANGE
from hemostat.plan.families import SOFTWARE, Decoder, decoder_profile
from hemostat.plan.layout import Layout
from hemostat.plan.memory import ALLOCATED_ERROR
from hemostat.plan.parallel.dp import states
from hemostat.plan.parallel.tp import local_bytes
from plan_error_bars import inside_pct, quantile_alike
from plan_rows_memory import (
    BLOCKS,
    DATA,
    GIB,
    REGIME,
    Row,
    held_out,
    litgpt_fits,
    long_context,
    mpt_fits,
    simumax,
    simumax_reserved,
    table,
    torchtitan,
    torchtitan_by_default,
    vramcalc,
)
from result_file import write_result

Figure = dict[str, Any]


def figure(name: str, value: float, unit: str, bar: float | None = None, note: str = "") -> Figure:
    """One figure; a bar is the most that is allowed."""
    meets = None if bar is None else value <= bar
    return {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "meets": meets, "note": note}


def show(title: str, rows: Sequence[Row]) -> None:
    """One line for each row: fit or held out, measured, predicted, error, where and when the peak is."""
    held = held_out(rows)
    print(f"\n{title}")
    for row in rows:
        if row.forecast is None:
            print(f"  left out  {row.config}")
            continue
        top = row.forecast.peak
        part = "held out" if row.config in held else "fit"
        print(
            f"  {part:<9} {row.measured_bytes / GIB:8.2f} {row.predicted_bytes / GIB:8.2f} GiB "
            f"{row.error_pct:+6.2f} %  stage {top.stage}, {top.phase:<21} {row.config}"
        )


def errors_of(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Signed errors in percent of the configurations that constants may be chosen on, and of the others."""
    held = held_out(rows)
    known = [row for row in rows if row.forecast is not None]
    return (
        [row.error_pct for row in known if row.config not in held],
        [row.error_pct for row in known if row.config in held],
    )


def simumax_figures(rows: Sequence[Row]) -> list[Figure]:
    """Mean and largest error, all rows and apart."""
    fit, held = errors_of(rows)
    sizes = [abs(error) for error in (*fit, *held)]
    found = [
        figure(
            "simumax_allocated_mean_error_pct", statistics.mean(sizes), "%", 2, f"{len(sizes)} configurations"
        ),
        figure("simumax_allocated_max_error_pct", max(sizes), "%", 5, "dense and context-parallel, B200"),
    ]
    return found + apart("simumax_allocated", fit, held)


def ratio_figures(rows: Sequence[Row]) -> list[Figure]:
    """Reserved over allocated of the configurations that are not held out."""
    held = held_out(rows)
    published = {row["case"]: row for row in table("simumax_b200_measured_vs_predicted.csv")}
    ratios = [
        float(published[row.name]["real_peak_reserved_GiB"])
        / float(published[row.name]["real_peak_alloc_GiB"])
        for row in rows
        if row.config not in held
    ]
    note = "median of reserved over allocated, fit rows; RESERVED_RATIO"
    return [figure("reserved_ratio_median", statistics.median(ratios), "", note=note)]


def parts(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Published over predicted, of the configurations that constants may be chosen on, and of the others."""
    fit, held = errors_of(rows)
    return [1 / (1 + error / 100) for error in fit], [1 / (1 + error / 100) for error in held]


def error_bar_figures(tables: dict[str, Sequence[Row]]) -> list[Figure]:
    """The quantiles that the error bars are, and what they cover of rows that nothing was chosen on."""
    allocated = [errors_of(tables[name]) for name in ("simumax", "vramcalc")]
    chosen = [[abs(error) for error in fit] for fit, _ in allocated]
    held = [[abs(error) for error in rest] for _, rest in allocated]
    reserved = [parts(tables[name]) for name in ("simumax_reserved", "torchtitan")]
    fits, rests = [fit for fit, _ in reserved], [rest for _, rest in reserved]
    alike = "fitted rows, both tables counting alike"
    bar = 100 * ALLOCATED_ERROR
    low, high = RESERVED_RANGE
    found = [
        figure(
            "allocated_error_90_pct",
            quantile_alike(chosen, 0.9),
            "%",
            note=f"90 % of the {alike}; ALLOCATED_ERROR",
        ),
        figure(
            "allocated_held_out_inside_error_bar_pct", inside_pct(held, bar), "%", note=f"within {bar:g} %"
        ),
    ]
    for name, share in (("low_5", 0.05), ("high_95", 0.95)):
        value = quantile_alike(fits, share)
        note = f"published over predicted, {100 * share:g} % of the {alike} are below; RESERVED_RANGE"
        found.append(figure(f"reserved_{name}_pct", value, "", note=note))
    note = f"published between {low} and {high} of the predicted"
    return [
        *found,
        figure("reserved_fitted_inside_error_bar_pct", inside_pct(fits, high, low), "%", note=note),
        figure("reserved_held_out_inside_error_bar_pct", inside_pct(rests, high, low), "%", note=note),
    ]


def long_context_figures(rows: Sequence[Row]) -> list[Figure]:
    """ZeRO-3 with the optimizer on the host, which nothing was chosen on."""
    errors = [row.error_pct for row in rows]
    note = (
        f"all {len(rows)} rows held out: DeepSpeed ZeRO-3, H200 and B200, reserved, 8,192 to 262,144 tokens"
    )
    return [
        figure("longcontext_mean_error_pct", statistics.mean(map(abs, errors)), "%", note=note),
        figure("longcontext_max_error_pct", max(map(abs, errors)), "%", note=note),
        figure("longcontext_max_under_pct", max(0.0, -min(errors)), "%", note="predicted too little"),
    ]


def torchtitan_figures(rows: Sequence[Row]) -> list[Figure]:
    """Largest error, and the largest one to the side that runs out of memory."""
    fit, held = errors_of(rows)
    both = [*fit, *held]
    left_out = sum(row.forecast is None for row in rows)
    note = f"{len(both)} rows; left out: {left_out} that do not state the recomputation, and nvfp4"
    return [
        figure("torchtitan_reserved_max_error_pct", max(map(abs, both)), "%", 10, note),
        figure("torchtitan_reserved_max_under_pct", max(0.0, -min(both)), "%", 5, "predicted too little"),
        figure(
            "torchtitan_reserved_upper_end_max_under_pct",
            upper_end_under_pct(rows),
            "%",
            note="the upper end of the error bar, by which the search judges what is safe",
        ),
        figure(
            "torchtitan_reserved_inside_error_bar_pct", within_pct(rows), "%", note="between low and high"
        ),
        figure("torchtitan_reserved_mean_error_pct", statistics.mean(map(abs, both)), "%"),
        *apart("torchtitan_reserved", fit, held),
    ]


def unstated_figures() -> list[Figure]:
    """Rows that leave the recomputation open, as if it were torchtitan's default; without a bar."""
    rows = list(torchtitan_by_default())
    show("torchtitan, reserved, recomputation not stated: as if selective-op", rows)
    errors = [abs(row.error_pct) for row in rows]
    note = f"{len(rows)} rows that do not state the recomputation, as if it were the default"
    return [figure("torchtitan_unstated_max_error_pct", max(errors), "%", note=note)]


def within_pct(rows: Sequence[Row]) -> float:
    """Share of the measured figures that lie within the forecast's own error bar."""
    bars = [(row.measured_bytes, row.forecast.reserved) for row in rows if row.forecast is not None]
    return 100 * statistics.mean(size.low_bytes <= measured <= size.high_bytes for measured, size in bars)


def upper_end_under_pct(rows: Sequence[Row]) -> float:
    """How far the upper end of the forecast's error bar is under what was measured, at most."""
    return max(
        100 * (1 - row.forecast.reserved.high_bytes / row.measured_bytes)
        for row in rows
        if row.forecast is not None
    )


def vramcalc_figures(rows: Sequence[Row]) -> list[Figure]:
    """Largest error of the training rows."""
    fit, held = errors_of(rows)
    both = [*fit, *held]
    return [
        figure(
            "vramcalc_max_error_pct", max(map(abs, both)), "%", 5, f"{len(both)} training rows, one A6000"
        ),
        *apart("vramcalc", fit, held),
    ]


def apart(name: str, fit: Sequence[float], held: Sequence[float]) -> list[Figure]:
    """Mean and largest error of both parts."""
    parts = {"fit": [abs(error) for error in fit], "held_out": [abs(error) for error in held]}
    return [
        figure(f"{name}_{part}_{kind}_error_pct", measure(sizes), "%", note=f"{len(sizes)} rows")
        for part, sizes in parts.items()
        for kind, measure in (("mean", statistics.mean), ("max", max))
    ]


def fit_figures() -> list[Figure]:
    """Configurations that ran and are said not to, or the other way round: by the expected need, at its upper end."""
    every = [*mpt_fits(), *litgpt_fits()]
    wrong = [each for each in every if each.ran != each.is_predicted_to]
    for each in wrong:
        said = "fits" if each.is_predicted_to else "runs out of memory"
        print(f"  WRONG: {each.name}: {said}, {each.forecast.device}")
    num_oom = sum(not each.ran for each in every)
    note = f"of {len(every)}, {num_oom} of them out of memory"
    risky = [each for each in every if each.ran and not each.is_safe]
    unsafe = [each for each in every if not each.ran and each.is_safe]
    return [
        figure("fit_wrong", len(wrong), "rows", 0, f"{note}; by the expected need"),
        figure(
            "fit_wrong_at_upper_end",
            len(risky) + len(unsafe),
            "rows",
            0,
            f"{note}; {len(risky)} ran and are called risky, {len(unsafe)} did not and are called safe",
        ),
        figure("fit_called_safe_wrongly", len(unsafe), "rows", 0, f"of {num_oom} that ran out of memory"),
    ]


def copy_figures() -> list[Figure]:
    """Hidden tensors that a block of a Hugging Face model keeps, published and in closed form."""
    missing = []
    for model, decoder in BLOCKS.items():
        block = decoder_profile(decoder, "transformers").parts[1]
        published = next(
            float(row["copies_of_hidden_states_per_layer"])
            for row in table("activation_copies_per_layer.csv")
            if row["model"] == model
        )
        counted = block.kept_bytes - 4 * decoder.num_heads * decoder.num_tokens  # without log-sum-exp
        missing.append(published - counted / (2 * decoder.num_tokens * decoder.hidden))
    note = (
        f"published less counted from the saved tensors, {len(missing)} models; in hidden tensors of a block"
    )
    return [
        figure("block_copies_missing_mean", statistics.mean(missing), "", 0, note),
        figure("block_copies_missing_most", max(missing), "", 0, note),
    ]


def formula_misses() -> list[str]:
    """Rows of formula tables that do not come out to rounding."""
    return [*zero_misses(), *zero_max_misses(), *layer_misses()]


def zero_misses() -> list[str]:
    """ZeRO table 1: GB of model states per device."""
    missed = []
    for row in table("zero_table1_model_state_memory.csv"):
        num_params = {"7.5B": 7.5e9, "128B": 128e9, "1T": 1e12}[row["model"]]
        for stage, column in ((1, "calc_pos"), (2, "calc_pos_g"), (3, "calc_pos_g_p")):
            regime = msgspec.structs.replace(REGIME["mixed"], zero_stage=stage)
            total = states(regime, Layout(dp=int(row["dp_degree"])), num_params).total / 1e9
            if abs(total - float(row[column])) > 0.001:
                missed.append(f"zero table 1: {row['model']} dp={row['dp_degree']} stage {stage}: {total}")
    return missed


def zero_max_misses() -> list[str]:
    """ZeRO table 2: the largest model that fits 32 GB."""
    missed = []
    columns = (
        "max_theoretical_baseline",
        "max_theoretical_pos",
        "max_theoretical_pos_g",
        "max_theoretical_pos_g_p",
    )
    for row in table("zero_table2_max_model.csv"):
        layout = Layout(dp=int(row["gpus"]) // int(row["mp"]))
        for stage, column in enumerate(columns):
            regime = msgspec.structs.replace(REGIME["mixed"], zero_stage=stage)
            num_parts = int(row["mp"])
            largest = num_parts * 32e9 / states(regime, layout, 1.0).total
            said = float(row[column][:-1]) * {"B": 1e9, "T": 1e12}[row[column][-1]]
            # the table has the figure of one part to a tenth, times the parts; trillions to a tenth
            if abs(largest - said) > (0.05e12 if row[column].endswith("T") else 0.05e9 * num_parts):
                missed.append(f"zero table 2: mp={row['mp']} {column}: {largest:g}")
    return missed


def layer_misses() -> list[str]:
    """Korthikanti: bytes of one layer's activations in five ways."""
    ways = {
        "formula_layer_bytes_tp": (False, False),
        "formula_layer_bytes_tp_sp": (True, False),
        "formula_layer_bytes_tp_sel": (False, True),
        "formula_layer_bytes_tp_sp_sel": (True, True),
    }
    software = msgspec.structs.replace(SOFTWARE["megatron"], is_flash=False)
    missed = []
    for row in table("korthikanti2022_models_time_memory.csv"):
        hidden, heads = int(row["hidden"]), int(row["heads"])
        decoder = Decoder(
            num_layers=int(row["layers"]),
            hidden=hidden,
            num_heads=heads,
            num_kv_heads=heads,
            head_width=hidden // heads,
            ffn=4 * hidden,
            vocab=int(row["vocab"]),
            num_tokens=int(row["seq"]),
            is_gated=False,
            dropout=0.1,
        )
        block = decoder_profile(decoder, software).parts[1]
        samples = int(row["mbs"])
        found = {"formula_layer_bytes_full": samples * block.input_bytes}
        for column, (is_shared, is_selective) in ways.items():
            kept = tuple(each for each in block.kept if not (is_selective and each.is_cheap))
            found[column] = samples * local_bytes(
                kept, Layout(tp=int(row["tp"]), sequence_parallel=is_shared)
            )
        missed += [
            f"{row['model']} {column}: {value:.0f}"
            for column, value in found.items()
            if round(value) != int(row[column])
        ]
    return missed


def main() -> None:
    """Print and write."""
    if not DATA.is_dir():
        print("The published tables are not here, so nothing was compared.")
        return
    tables = {
        "SimuMax, B200, allocated": (list(simumax()), simumax_figures),
        "torchtitan, reserved": (list(torchtitan()), torchtitan_figures),
        "vramcalc, one A6000, allocated": (list(vramcalc()), vramcalc_figures),
    }
    figures: list[Figure] = []
    found = {"simumax_reserved": list(simumax_reserved()), "long_context": list(long_context())}
    for title, (rows, measure) in tables.items():
        show(title, rows)
        figures += measure(rows)
        found[title.partition(",")[0].lower()] = rows
    figures += ratio_figures(found["simumax"])
    figures += error_bar_figures(found)
    show("DeepSpeed ZeRO-3, long context, reserved", found["long_context"])
    figures += long_context_figures(found["long_context"])
    figures += unstated_figures()
    print("\nFits")
    figures += fit_figures()
    figures += copy_figures()
    missed = formula_misses()
    print("\n".join(missed))
    figures.append(
        figure("formula_wrong", len(missed), "cells", 0, "ZeRO tables 1 and 2, Korthikanti's layer")
    )
    print()
    for each in figures:
        bar = "" if each["bar"] is None else f"  bar {each['bar']}: {'met' if each['meets'] else 'MISSED'}"
        print(f"{each['name']}: {each['value']} {each['unit']}{bar}  {each['note']}")
    write_result("plan_memory", figures)


if __name__ == "__main__":
    main()
