"""Devices and clusters: figures as their sources print them, and names as people write them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.hardware import Cluster, device, instance_device, known_devices
from hemostat.plan.prices import known_instances

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "plan" / "gpu_specs_mamf.csv"


@pytest.mark.parametrize(
    ("text", "name", "num_devices", "per_node"),
    [
        ("8xA100-40GB", "A100-40GB", 8, 8),
        ("64xH100-80GB", "H100-80GB", 64, 8),
        ("16384xH100", "H100-80GB", 16384, 8),
        ("2x ml.p3.16xlarge", "V100-16GB", 16, 8),
        ("p4de.24xlarge", "A100-80GB", 8, 8),
        ("4 x a2-megagpu-16g", "A100-40GB", 64, 16),
        ("2xH200-141GB", "H200", 2, 2),
        ("T4", "T4", 1, 1),
        ("8 x a100-sxm4-80gb", "A100-80GB", 8, 8),
    ],
)
def test_clusters_as_people_write_them(text, name, num_devices, per_node):
    cluster = Cluster.read(text)
    assert (cluster.device.name, cluster.num_devices, cluster.per_node) == (name, num_devices, per_node)
    assert cluster.num_nodes * cluster.per_node == cluster.num_devices


def test_a_cluster_is_written_as_it_is_read():
    for text in ("8xA100-40GB", "2x ml.p3.16xlarge"):
        assert str(Cluster.read(text)) == text
        assert Cluster.read(str(Cluster.read(text))) == Cluster.read(text)


def test_the_network_is_that_of_the_machine():
    assert Cluster.read("2x p4d.24xlarge").node_network_bytes_per_s == 400e9 / 8
    assert Cluster.read("2x Standard_ND96asr_v4").node_network_bytes_per_s == 1600e9 / 8


@pytest.mark.parametrize("text", ["8xA100-44GB", "8xH1000", "p4d.48xlarge"])
def test_an_unknown_name_lists_near_ones(text):
    with pytest.raises(UnknownNameError, match="Did you mean"):
        Cluster.read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8xA100", "A100-40GB, A100-80GB"),
        ("V100", "V100-16GB, V100-32GB"),
        ("0xH100", "count"),
        ("2x8xA100-40GB", "two counts"),
        ("", "count"),
        ("12xH100", "whole number of nodes"),
        ("2x trn1.32xlarge", "no figures"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, words):
    with pytest.raises(FieldError, match=words):
        Cluster.read(text)


def test_memory_is_the_drivers_and_not_the_name():
    assert device("A100-40GB").memory_bytes == 40960 * 2**20  # 42.9 GB
    assert device("H100").memory_bytes == 81559 * 2**20
    for name in ("V100-16GB", "T4"):  # 18 GB do not fit
        assert device(name).memory_bytes < 18e9


def test_every_machine_with_figures_has_the_device_of_the_price_table():
    without = []
    for instance in known_instances():
        found = instance_device(instance)
        if found is None:
            without.append(instance.removeprefix("ml.").partition(".")[0])
    assert set(without) == {"g7", "trn1", "trn1n", "trn2"}


def test_reachable_is_below_the_peak_and_dtypes_keep_their_ratio():
    for name in known_devices():
        found = device(name)
        assert 0.4 < found.matmul_flop_per_s / found.peak("bf16") < 0.9
        assert found.reached("fp32") < found.reached("bf16")
        assert found.source
    assert device("H100").reached("fp8") == pytest.approx(2 * device("H100").reached("bf16"), rel=0.01)
    with pytest.raises(UnknownNameError, match="fp8"):
        device("A100-40GB").peak("fp8")


def test_measured_figures_are_those_that_were_published():
    if not SHARED.exists():
        pytest.skip("../shared/data/plan is not there")
    names = {
        "A100-SXM-80GB": "A100-80GB",
        "A100-PCIe-80GB": "A100-80GB-PCIe",
        "H100-SXM-80GB": "H100-80GB",
        "H200-SXM-141GB": "H200",
        "B200-SXM": "B200",
        "B300-SXM": "B300",
        "GB200": "GB200",
        "MI300X": "MI300X",
        "MI325X": "MI325X",
        "MI355X": "MI355X",
    }
    with SHARED.open(newline="") as file:
        rows = {row["gpu"]: row for row in csv.DictReader(file)}
    for theirs, mine in names.items():
        found = device(mine)
        assert found.is_measured
        assert found.matmul_flop_per_s == float(rows[theirs]["bf16_mamf_tflops"]) * 1e12
        assert found.peak("bf16") == pytest.approx(float(rows[theirs]["bf16_peak_tflops"]) * 1e12, rel=0.01)
        assert found.hbm_bytes_per_s == pytest.approx(float(rows[theirs]["hbm_TBps"]) * 1e12, rel=0.05)


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB-PCIe"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA H100 PCIe", "H100-80GB-PCIe"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("Tesla T4", "T4"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("H100", "H100-80GB"),
    ],
)
def test_a_device_is_found_by_the_name_that_its_driver_says(driver, name):
    assert device(driver) is device(name)


def test_every_device_is_found_by_its_own_name():
    for name in known_devices():
        assert device(name).name == device(name.lower()).name == name
