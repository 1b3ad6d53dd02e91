"""The devices of this machine, shared out among trials that run side by side."""

from __future__ import annotations

import os
import subprocess

from hemostat.errors import FieldError


def accelerators() -> list[str]:
    """The numbers of the NVIDIA devices that this process may use; empty where there are none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name.strip() and name.strip() != "-1"]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(number) for number, line in enumerate(_lines(listed.stdout))]


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("GPU ")]


def share_out(
    parallel: int | None, nproc: int, devices: list[str] | None = None
) -> tuple[dict[str, str], ...]:
    """Variables that give each of several trials its own devices; CPUs count where there is no accelerator.

    Args:
        parallel: trials side by side; None: as many as there is room for.
        nproc: processes of one trial.
        devices: what to share out; None looks.

    Raises:
        FieldError: more than there are devices.

    Examples:
        >>> share_out(2, 2, ["0", "1", "2", "3"])
        ({'CUDA_VISIBLE_DEVICES': '0,1'}, {'CUDA_VISIBLE_DEVICES': '2,3'})
        >>> share_out(3, 2, ["0", "1", "2", "3"])
        Traceback (most recent call last):
        hemostat.errors.FieldError: parallel=3: needs 6 devices, and there are 4. Write --parallel 2, or leave it out.
    """
    found = accelerators() if devices is None else devices
    num_cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    num_devices = len(found) or num_cpus
    most = num_devices // nproc
    if nproc < 1 or most < 1:
        raise FieldError(
            "nproc",
            nproc,
            f"is not among 1 to {num_devices}, the devices here",
            "Write --nproc 1, or leave it out.",
        )
    if parallel is not None and not 1 <= parallel <= most:
        kind = "devices" if found else "CPUs"
        rule = (
            f"needs {parallel * nproc} {kind}, and there are {num_devices}"
            if parallel > 0
            else "must be 1 or more"
        )
        raise FieldError("parallel", parallel, rule, f"Write --parallel {most}, or leave it out.")
    count = parallel or most
    if found:
        return tuple(
            {"CUDA_VISIBLE_DEVICES": ",".join(found[slot * nproc : (slot + 1) * nproc])}
            for slot in range(count)
        )
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, num_cpus // (count * nproc)))
    return ({"OMP_NUM_THREADS": threads},) * count
