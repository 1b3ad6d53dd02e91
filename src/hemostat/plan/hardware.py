"""What devices and clusters can do: memory, peak and reachable FLOP/s, bandwidths, each row with its source."""

from __future__ import annotations

import csv
import functools
import re
from pathlib import Path
from typing import Final

from hemostat.config import Config
from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.prices import known_instances, price_usd_per_hour

_FOLDER: Final = Path(__file__).parent
_COUNTED: Final = re.compile(r"(?:(\d+)\s*(?:[x×*]\s*|\s))?(\S.*)")
# what drivers put around the name of a device: "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB"
_AROUND: Final = re.compile("nvidia|amd|tesla|instinct|sxm[0-9]?|oam|ac|hbm[0-9]e?")
_DTYPES: Final = ("bf16", "fp16", "tf32", "fp32", "fp8")
# The reachable share of the peak where nobody measured it: the median of the eight NVIDIA devices that
# stas00/ml-engineering measured in bf16 (0.73 to 0.87).
_REACHED: Final = 0.80


class Device(Config, frozen=True, kw_only=True):
    """One accelerator, as a process sees it.

    Attributes:
        name: "A100-80GB"; the sort with the fastest link (SXM) has no suffix.
        memory_bytes: that the driver reports; the figure in the name is a marketing one. A process can
            allocate less: its context takes 0.5 to 1 GiB.
        peak_flop_per_s: per dtype ("bf16", "fp16", "tf32", "fp32", "fp8"), dense.
        matmul_flop_per_s: that the best large product reaches in 16 bit.
        is_measured: somebody measured `matmul_flop_per_s`; else it is 0.80 of the peak.
        sustained_share: of that rate which is left under the power limit, hour after hour, and of products as
            models have them; A100 is the 1 that the terms of `compute` were fitted with.
        hbm_bytes_per_s: peak bandwidth of its memory.
        num_units: streaming multiprocessors or compute units, over which the tiles of a product go round.
        link_bytes_per_s: to the other devices of its node, one direction.
        per_node: how many a node usually has.
        node_network_bytes_per_s: between nodes, one direction, all devices of a node together, as usual.
        source: where the figures come from.
    """

    name: str
    memory_bytes: int
    peak_flop_per_s: dict[str, float]
    matmul_flop_per_s: float
    is_measured: bool
    sustained_share: float
    hbm_bytes_per_s: float
    num_units: int
    link_bytes_per_s: float
    per_node: int
    node_network_bytes_per_s: float
    source: str

    def peak(self, dtype: str) -> float:
        """Dense FLOP/s of a dtype; a device without bf16 computes it as fp16 (V100, T4).

        Raises:
            UnknownNameError: a dtype that the device does not multiply.

        Examples:
            >>> device("H100").peak("bf16"), device("V100-16GB").peak("bf16")
            (989000000000000.0, 125000000000000.0)
        """
        known = self.peak_flop_per_s
        if dtype == "bf16" and dtype not in known:
            dtype = "fp16"
        if dtype not in known:
            raise UnknownNameError("dtype", dtype, known)
        return known[dtype]

    @property
    def maker(self) -> str:
        """Who makes it, by the form of its name.

        Examples:
            >>> device("MI300X").maker, device("L40S").maker
            ('AMD', 'NVIDIA')
        """
        return "AMD" if self.name.startswith("MI") else "NVIDIA"

    def reached(self, dtype: str) -> float:
        """FLOP/s that large products reach in a dtype, hour after hour: the share of the peak of 16 bit.

        Source: stas00/ml-engineering, compute/accelerator, table of "maximum achievable matmul FLOPS"; the sustained
            share is fitted to measured steps by bench/plan_time.py --fit.

        Examples:
            >>> round(device("A100-80GB").reached("bf16") / 1e12, 1)
            271.2
        """
        return self.peak(dtype) * self.matmul_flop_per_s / self.peak("bf16") * self.sustained_share


class Cluster(Config, frozen=True, kw_only=True):
    """Equal devices in equal nodes.

    Attributes:
        device: each of them.
        num_devices: all together.
        per_node: devices of one node.
        node_network_bytes_per_s: between nodes, one direction, all devices of a node together.
        instance: name of the machine in the price table, or empty.

    Examples:
        >>> Cluster.read("64xH100-80GB").num_nodes
        8
        >>> Cluster.read("2x ml.p3.16xlarge").num_devices
        16
    """

    device: Device
    num_devices: int
    per_node: int
    node_network_bytes_per_s: float
    instance: str = ""

    @classmethod
    def read(cls, text: str) -> Cluster:
        """Parse what `--cluster` is given: a count and a device, or a count and a machine of the price table.

        Raises:
            UnknownNameError: neither a device nor a machine; the nearest names are listed.
            FieldError: a count of 0, no name, or "A100" and "V100", which come with two sizes of memory.

        Examples:
            >>> Cluster.read("8xA100-40GB").device.memory_bytes
            42949672960
            >>> Cluster.read("p4d.24xlarge").device.name
            'A100-40GB'
        """
        match = _COUNTED.fullmatch(text.strip())
        if match is None or (match[1] and not int(match[1])):
            raise FieldError(
                "cluster", text, "is not a count and a device", 'Write it like --cluster "8xA100-40GB".'
            )
        count, name = int(match[1] or 1), match[2].strip()
        again = _COUNTED.fullmatch(name)
        if again is not None and again[1]:
            raise FieldError(
                "cluster", text, "has two counts", 'Multiply them, as in --cluster "16xA100-40GB".'
            )
        if name in known_instances():
            return _machines(name, count)
        found = device(name, "cluster", known_instances())
        per_node = min(found.per_node, count)
        if count % per_node:
            raise FieldError(
                "cluster",
                text,
                f"is no whole number of nodes of {per_node}",
                f"Give a multiple of {per_node}.",
            )
        return cls(
            device=found,
            num_devices=count,
            per_node=per_node,
            node_network_bytes_per_s=found.node_network_bytes_per_s,
        )

    @property
    def num_nodes(self) -> int:
        """Machines."""
        return self.num_devices // self.per_node

    def __str__(self) -> str:
        """As `--cluster` takes it."""
        return (
            f"{self.num_nodes}x {self.instance}"
            if self.instance
            else f"{self.num_devices}x{self.device.name}"
        )


def device(name: str, field: str = "device", other_names: tuple[str, ...] = ()) -> Device:
    """Find a device.

    Args:
        name: "A100-80GB", "H100"; upper and lower case are one, and it may be as the driver says it.
        field: that an error names.
        other_names: which would do too, for the list of known names.

    Raises:
        UnknownNameError: not in the table.
        FieldError: a device that comes with several sizes of memory, and none was said.

    Examples:
        >>> device("h100-sxm-80gb").name, device("NVIDIA H100 80GB HBM3").name
        ('H100-80GB', 'H100-80GB')
    """
    devices = _devices()
    wanted = _words(name)
    without_memory = []
    for known, found in devices.items():
        memory = f"{_nominal_gb(known)}gb"
        words = _words(known)
        if wanted in (words, words | {memory}) or (wanted == {"h100"} and known == "H100-80GB"):
            return found
        if wanted == words - {memory}:
            without_memory.append(found)
    if len(without_memory) == 1:
        return without_memory[0]
    if without_memory:
        sorts = [found.name for found in without_memory]
        raise FieldError(
            field, name, f"comes as {', '.join(sorts)}, and memory decides what fits", f"Say {sorts[0]}, say."
        )
    raise UnknownNameError(field, name, (*devices, *other_names))


def _words(name: str) -> frozenset[str]:
    """Of a device's name, in whatever order, without those that tell nothing."""
    words = re.split("[ -]+", name.lower().strip())
    return frozenset(word for word in words if not _AROUND.fullmatch(word))


def known_devices() -> tuple[str, ...]:
    """Names of all devices in the table."""
    return tuple(_devices())


def instance_device(instance: str) -> Device | None:
    """The device in a machine of the price table, "ml." or not; None where the table has no such device.

    Examples:
        >>> instance_device("ml.p3.16xlarge").name
        'V100-16GB'
    """
    row = _node(instance)
    return None if row is None else _devices()[row["device"]]


def _machines(instance: str, count: int) -> Cluster:
    row = _node(instance)
    per_node = price_usd_per_hour(instance, given=0.0).num_accelerators
    if row is None:
        raise FieldError(
            "cluster", instance, "has devices that no figures are known for", "Give a device that is known."
        )
    return Cluster(
        device=_devices()[row["device"]],
        num_devices=count * per_node,
        per_node=per_node,
        node_network_bytes_per_s=float(row["network_gbit_per_s"]) * 1e9 / 8,
        instance=instance,
    )


def _node(instance: str) -> dict[str, str] | None:
    plain = instance.removeprefix("ml.")
    fitting = [row for row in _rows("nodes.csv") if plain.startswith(row["begins_with"])]
    return max(fitting, key=lambda row: len(row["begins_with"]), default=None)


@functools.cache
def _rows(name: str) -> tuple[dict[str, str], ...]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def _nominal_gb(name: str) -> str:
    return next(row["memory_gb"] for row in _rows("devices.csv") if row["device"] == name)


@functools.cache
def _devices() -> dict[str, Device]:
    found = {}
    for row in _rows("devices.csv"):
        peaks = {name: float(row[f"{name}_tflops"]) * 1e12 for name in _DTYPES if row[f"{name}_tflops"]}
        measured = row["matmul_tflops"]
        best = peaks.get("bf16", peaks["fp16"])
        found[row["device"]] = Device(
            name=row["device"],
            memory_bytes=int(row["memory_mib"]) * 2**20,
            peak_flop_per_s=peaks,
            matmul_flop_per_s=float(measured) * 1e12 if measured else _REACHED * best,
            is_measured=bool(measured),
            sustained_share=float(row["sustained_share"] or 1.0),
            hbm_bytes_per_s=float(row["hbm_gb_per_s"]) * 1e9,
            num_units=int(row["num_units"]),
            link_bytes_per_s=float(row["link_gb_per_s"]) * 1e9,
            per_node=int(row["per_node"]),
            node_network_bytes_per_s=float(row["network_gbit_per_s"]) * 1e9 / 8,
            source=row["source"],
        )
    return found
