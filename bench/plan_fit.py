"""The constants of the plan's times, from the rows that are not held out: `bench/plan_time.py --fit` prints them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence

import msgspec

import plan_rows_time as tables
from hemostat.plan import compute
from hemostat.plan.calibrate import Measured, calibrate, error
from hemostat.plan.compute import Terms
from plan_rows_time import Row

# not link and network: the rows hardly depend on them, and say nothing that nccl-tests have not measured
NAMES = ("matmul", "attention", "memory", "launch_s", "overlap")
START = Terms(matmul=0.94, attention=0.3, memory=0.77, launch_s=138e-6, overlap=0.2)
SHARES = (1.0, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5)
_TILE_HALVES, _PIECES = (5.0, 10.0, 20.0, 40.0, 80.0), (128, 512, 2048, 10**9)
_EACH = 4  # of vTrain's single-node rows, which are many times as many


def fitted() -> dict[str, tuple[list[Row], list[Row]]]:
    """The tables that constants are chosen on: rows to choose on, and held-out ones."""
    return {
        "vtrain_multinode": tables.split(tables.vtrain("multinode")),
        "vtrain_singlenode": tables.split(tables.vtrain("singlenode")),
        "llm_foundry": tables.split(tables.llm_foundry()),
        "simumax_b200": tables.split(tables.simumax()),
    }


def of_devices(rows: Sequence[Measured], name: str, share: float) -> list[Measured]:
    """The same steps as if a device held another share of its best rate."""
    return [_with_share(row, name, share) for row in rows]


def _with_share(row: Measured, name: str, share: float) -> Measured:
    if row.cluster.device.name != name:
        return row
    device = msgspec.structs.replace(row.cluster.device, sustained_share=share)
    return row._replace(cluster=msgspec.structs.replace(row.cluster, device=device))


def _alike(chosen: dict[str, list[Measured]]) -> list[Measured]:
    """Rows of the three tables, so often that each table weighs about alike."""
    multi, single, foundry = (chosen[name] for name in list(chosen)[:3])
    single = single[::_EACH]
    return single + multi * round(len(single) / len(multi)) + foundry * round(len(single) / len(foundry))


def _tried(name: str, values: Sequence[float], rows: Sequence[Measured], terms: Terms) -> Iterator[str]:
    """The error with each value of a constant of compute.py or duration.py, the terms as they are."""
    module = compute if hasattr(compute, name) else importlib.import_module("hemostat.plan.duration")
    before = getattr(module, name)
    for value in values:
        setattr(module, name, value)
        compute._matmul_s.cache_clear()
        yield f"{value:g}: {error(rows, terms):.4f}"
    setattr(module, name, before)
    compute._matmul_s.cache_clear()


def fit() -> None:
    """Print the default terms, the sustained shares of devices.csv, and what other constants would do.

    The sustained share of A100 is 1 by definition; that of H100 is chosen together with the terms, and that of B200
    with them.
    """
    chosen = {name: [row.measured for row in rows] for name, (rows, _) in fitted().items()}
    rows = _alike(chosen)
    best: tuple[float, float, Terms] | None = None
    for share in SHARES[2:5]:
        these = of_devices(rows, "H100-80GB", share)
        terms = calibrate(these, best[2] if best else START, NAMES)
        found = error(these, terms)
        print(f"H100-80GB sustained_share {share}: {found:.4f} {terms}")
        if best is None or found < best[0]:
            best = (found, share, terms)
    if best is None:
        raise SystemExit("bench/plan_time.py: no share was tried")
    print("Terms", best)
    these = of_devices(rows, "H100-80GB", best[1])
    for name, values in (
        ("_TILE_HALF", _TILE_HALVES),
        ("_SPLIT_INNER", _PIECES),
        ("_BACKWARD_MOVED", (1, 1.5, 2)),
        ("_SOFTNESS", (2, 3, 4, 6)),
    ):
        print(name, *_tried(name, values, these, best[2]))
    simumax = chosen["simumax_b200"]
    errors = {share: error(of_devices(simumax, "B200", share), best[2]) for share in SHARES}
    print("B200 sustained_share", min(errors, key=lambda share: errors[share]), errors)
