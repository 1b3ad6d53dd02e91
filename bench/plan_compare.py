"""Peak memory foretold by hemostat and by what users would pick instead; writes bench/results/plan_compare.json.

The runs are those of three published tables, and all of them ran. An estimator is compared on the runs that it has
words for (`plan_peers/` has one file each), and hemostat's error on those very runs stands beside it. A size is called
fitting wrongly where the smallest device that the estimator would take for it cannot hold what was measured.

hemostat chose constants on some of these rows, its peers on none; bench/plan_memory.py has the held-out ones apart.

`python bench/plan_compare.py --rows` prints every row and writes no file.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from hemostat.plan.hardware import device, known_devices
from plan_peers.case import TABLES, Case
from plan_rows_memory import DATA, GIB
from result_file import write_result

Figure = dict[str, Any]
Predictor = Callable[[Case], float | None]

# a name in figures: the module, its function, the package, and how it is to be called in notes
PEERS = {
    "hemostat": ("with_hemostat", "predicted_bytes", "hemostat", "hemostat"),
    "table_authors": ("table_authors", "predicted_bytes", "", "what the table's authors foretold"),
    "accelerate": ("with_accelerate", "predicted_bytes", "accelerate", "accelerate estimate-memory"),
    "deepspeed_zero2": ("deepspeed_formulas", "predicted_by_zero2", "", "the formula of DeepSpeed"),
    "deepspeed_zero3": ("deepspeed_formulas", "predicted_by_zero3", "", "the formula of DeepSpeed"),
    "alloc": ("with_alloc", "predicted_bytes", "alloc", "alloc.ghost"),
    "hf_vram_calc": ("with_hf_vram_calc", "predicted_bytes", "hf-vram-calc", "hf-vram-calc, its classes"),
}
OFFERED = {
    "simumax": "B200, allocated",
    "torchtitan": "H100 and H200, reserved",
    "vramcalc": "one A6000, allocated",
}


class Answer(NamedTuple):
    """What one estimator says of one run.

    Attributes:
        case: the run.
        num_bytes: foretold.
    """

    case: Case
    num_bytes: float

    @property
    def error_pct(self) -> float:
        """Above 0: foretold too much."""
        return 100 * (self.num_bytes / self.case.row.measured_bytes - 1)

    @property
    def own_error_pct(self) -> float:
        """hemostat's, of the same run."""
        return self.case.row.error_pct

    @property
    def is_wrong_fit(self) -> bool:
        """The smallest device that it would take is smaller than what was measured."""
        return smallest_device_bytes(self.num_bytes) < self.case.row.measured_bytes


def smallest_device_bytes(num_bytes: float) -> float:
    """Memory of the smallest device of hemostat's table that holds so much; infinite where none does."""
    sizes = [device(name).memory_bytes for name in known_devices()]
    return min((float(size) for size in sizes if size >= num_bytes), default=float("inf"))


def predictor(peer: str) -> Predictor:
    """Load what asks a peer; raises ImportError where it isn't installed."""
    module, function, _, _ = PEERS[peer]
    found: Predictor = getattr(importlib.import_module(f"plan_peers.{module}"), function)
    return found


def title(peer: str) -> str:
    """A peer with its version."""
    _, _, package, words = PEERS[peer]
    return f"{words} {version(package)}" if package else words


def answers(predict: Predictor, cases: Sequence[Case]) -> list[Answer]:
    """Of the runs that a peer has words for."""
    said = ((case, predict(case)) for case in cases)
    return [Answer(case, num_bytes) for case, num_bytes in said if num_bytes is not None]


def figure(name: str, value: float, unit: str, note: str) -> Figure:
    return {"name": name, "value": round(value, 3), "unit": unit, "bar": None, "meets": None, "note": note}


def figures_of(table: str, peer: str, cases: Sequence[Case], found: Sequence[Answer]) -> list[Figure]:
    """Rows, errors, hemostat's on the same rows, the worst row by name, and wrong fits."""
    start = f"{table}_{peer}"
    who = f"{title(peer)}; {OFFERED[table]}"
    rows = figure(
        f"{start}_rows", len(found), "rows", f"of {len(cases)} that {who.partition(';')[0]} has words for"
    )
    if not found:
        return [rows]
    sizes = [abs(answer.error_pct) for answer in found]
    worst = max(found, key=lambda answer: abs(answer.error_pct))
    wrong = sum(answer.is_wrong_fit for answer in found)
    result = [
        rows,
        figure(f"{start}_mean_error_pct", statistics.fmean(sizes), "%", who),
        figure(f"{start}_median_error_pct", statistics.median(sizes), "%", who),
        figure(f"{start}_max_error_pct", max(sizes), "%", f"{described(worst)}; {who}"),
        figure(f"{start}_wrong_fits", wrong, "rows", "the smallest device that it takes is too small"),
    ]
    if peer == "hemostat":
        return result
    own = [abs(answer.own_error_pct) for answer in found]
    return [
        *result,
        figure(f"{start}_hemostat_mean_error_pct", statistics.fmean(own), "%", "hemostat on the same rows"),
        figure(f"{start}_hemostat_max_error_pct", max(own), "%", "hemostat on the same rows"),
    ]


def described(answer: Answer) -> str:
    """The run, what was measured and what was foretold."""
    row = answer.case.row
    return f"{row.config}: {answer.num_bytes / GIB:.1f} GiB, measured {row.measured_bytes / GIB:.1f}"


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", action="store_true", help="print every row, write no file")
    shows_rows = parser.parse_args().rows
    if not DATA.is_dir():
        print("The published tables are not here, so nothing was compared.")
        return
    try:
        predictors = {peer: predictor(peer) for peer in PEERS}
    except (ImportError, PackageNotFoundError) as error:
        raise SystemExit(f"{error}. pip install 'hemostat[bench]'") from error
    figures = []
    for table, read in TABLES.items():
        cases = list(read())
        for peer, predict in predictors.items():
            found = answers(predict, cases)
            figures += figures_of(table, peer, cases, found)
            for answer in found if shows_rows else ():
                print(f"{peer:<16}{answer.error_pct:+8.1f} %  {described(answer)}")
    if shows_rows:
        return
    for each in figures:
        print(f"{each['name']}: {each['value']} {each['unit']}  {each['note']}")
    write_result("plan_compare", figures)


if __name__ == "__main__":
    main()
