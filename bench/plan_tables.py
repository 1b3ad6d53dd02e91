"""Every table of published figures: how many of its rows are compared, by which figures, and why the others are not.

Writes bench/results/plan_tables.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import plan_rows_memory as memory
import plan_rows_more as more
import plan_rows_time as times
from result_file import write_result


class Table(NamedTuple):
    """One file of ../shared/data/plan.

    Attributes:
        num_compared: of its rows, as the readers of the benchmarks have them.
        note: the figures that they are in, and why the others are in none.
    """

    num_compared: Callable[[], int]
    note: str


def _none() -> int:
    return 0


def _forecasts() -> int:
    return sum(row.forecast is not None for row in memory.torchtitan())


def _known(name: str) -> Callable[[], int]:
    return lambda: len(memory.table(f"{name}.csv"))


TABLES: dict[str, Table] = {
    "activation_copies_per_layer": Table(
        lambda: len(memory.BLOCKS), "block_copies_missing; not gemma, whose norms and activation are others"
    ),
    "alloc_default_gpu_prices": Table(_none, "prices of another tool; ours are in instances.csv, with dates"),
    "collectives_measured": Table(
        _known("collectives_measured"), "no forecast: what collectives.csv of the plan was made from"
    ),
    "estimator_published_accuracy": Table(_none, "what others say of themselves; no configuration"),
    "gpu_specs_mamf": Table(
        _known("gpu_specs_mamf"), "no forecast: what devices.csv of the plan was made from"
    ),
    "korthikanti2022_models_time_memory": Table(
        _known("korthikanti2022_models_time_memory"),
        "korthikanti_mape_pct, formula_wrong; columns called NOT_MEASURED are the formula itself",
    ),
    "korthikanti2022_table4_layer_time": Table(lambda: len(more.layer_times()), "korthikanti_layer_mape_pct"),
    "litgpt_resource_tables": Table(
        lambda: len(list(memory.litgpt_fits())), "fit_wrong; not those whose memory is not available"
    ),
    "llama3_paper_mfu": Table(
        lambda: len(times.llama3()), "llama3_paper_mape_pct; not context parallelism, which is not planned"
    ),
    "llm_foundry_mpt_throughput": Table(
        lambda: len(list(memory.mpt_fits())), "fit_wrong; llm_foundry_mape_pct without float8 rows"
    ),
    "longcontext_zero3_h200_b200": Table(
        lambda: len(list(memory.long_context())) // 2,
        "longcontext_mean_error_pct; not its speed, since the optimizer runs on the host",
    ),
    "megatron_lm_h100": Table(
        lambda: len(times.megatron_h100()), "megatron_h100_mape_pct; not float8, which is not modelled"
    ),
    "narayanan2021_table1": Table(lambda: len(times.narayanan()), "narayanan_table1_mape_pct"),
    "narayanan2021_table2_zero3_vs_ptd": Table(
        lambda: len(more.zero_beside_megatron()), "narayanan_table2_mape_pct"
    ),
    "nemo_long_sequence": Table(
        _none, "float8 is not modelled; and the printed layouts make another number of devices in some rows"
    ),
    "pp_vocab_imbalance_peak_memory": Table(_none, "the table says neither layers nor hidden size"),
    "published_runs": Table(
        lambda: len(more.single_runs()), "published_runs_mape_pct; of the others no layout is published"
    ),
    "simumax_a100pcie_errors": Table(
        _none, "errors of another estimator, without what was measured or the sizes of the models"
    ),
    "simumax_b200_measured_vs_predicted": Table(
        lambda: len(memory.table("simumax_b200_measured_vs_predicted.csv")) - _num_experts(),
        "simumax_allocated, reserved, simumax_b200_mape_pct; not mixtures of experts, which are not modelled",
    ),
    "torchtitan_measured": Table(
        _forecasts,
        "torchtitan_reserved, torchtitan_unstated; torchtitan_mape_pct of bf16 without context parallelism; "
        "the others say no reserved memory, or nvfp4",
    ),
    "vramcalc_single_gpu_measured": Table(
        lambda: len(list(memory.vramcalc())), "vramcalc_max_error_pct; not inference"
    ),
    "vtrain_measured_multinode_a100": Table(
        lambda: len(times.vtrain("multinode")), "vtrain_multinode_mape_pct, ranking_spearman"
    ),
    "vtrain_measured_singlenode_a100": Table(
        lambda: len(times.vtrain("singlenode")), "vtrain_singlenode_mape_pct, ranking_spearman"
    ),
    "zero_table1_model_state_memory": Table(_known("zero_table1_model_state_memory"), "formula_wrong"),
    "zero_table2_max_model": Table(
        _known("zero_table2_max_model"), "formula_wrong; its measured columns say no model"
    ),
}


def _num_experts() -> int:
    return sum(int(row["ep"]) > 1 for row in memory.table("simumax_b200_measured_vs_predicted.csv"))


def figures() -> list[dict[str, Any]]:
    """One for each table: the rows that are compared."""
    found = []
    for name, table in TABLES.items():
        note = f"of {len(memory.table(f'{name}.csv'))}; {table.note}"
        row = {
            "name": name,
            "value": table.num_compared(),
            "unit": "rows",
            "bar": None,
            "meets": None,
            "note": note,
        }
        found.append(row)
    return found


def main() -> None:
    """Count, print and write."""
    if not memory.DATA.is_dir():
        print("The published tables are not here, so nothing was counted.")
        return
    rows = figures()
    for row in rows:
        print(f"{row['name']:<38} {row['value']:>5} {row['note']}")
    write_result("plan_tables", rows)


if __name__ == "__main__":
    main()
