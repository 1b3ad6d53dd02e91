"""Where nothing fits, something is said that does."""

from __future__ import annotations

import re

import pytest

from hemostat.plan import Plan
from hemostat.report.plan_way_out import ask_again, cluster_of, ways_out


def test_more_devices_that_are_named_do_fit(nothing):
    named = [re.match(r"--cluster (\S+):", way) for way in ways_out(nothing)]
    clusters = [match[1] for match in named if match]
    assert clusters
    for cluster in clusters:
        assert ask_again(nothing, cluster).best is not None
    assert any(cluster.endswith("V100-16GB") for cluster in clusters)


def test_a_change_of_the_layout_goes_before_more_devices(numbers):
    made = Plan.make(
        Plan.profile_of_numbers({"num_params": 7e9, "num_layers": 32, "hidden": 4096}), "2xV100-16GB", {}
    )
    assert made.best is None
    for way in ways_out(made):
        assert "--cluster" in way or " with " in way


def test_too_few_samples_for_the_devices_ask_for_a_larger_batch():
    tiny = Plan.profile_of_numbers({"num_layers": 2, "hidden": 64, "vocab": 1000})
    made = Plan.make(tiny, "64xH100-80GB", {"global_batch": 1})
    ways = list(ways_out(made))
    assert made.best is None and ways[0].startswith("--global-batch ")
    batch = int(ways[0].split()[1].rstrip(":"))
    assert Plan.make(tiny, "64xH100-80GB", {"global_batch": batch}).best is not None


def test_where_nothing_helps_it_is_said():
    huge = Plan.profile_of_numbers({"num_layers": 10, "hidden": 400_000})
    ways = list(ways_out(Plan.make(huge, "V100-16GB", {"global_batch": 8})))
    assert len(ways) == 1 and "smaller model" in ways[0]


@pytest.mark.parametrize(
    ("cluster", "number", "expected"),
    [
        ("8xA100-40GB", 12, "16xA100-40GB"),
        ("A100-40GB", 3, "3xA100-40GB"),
        ("2x p4d.24xlarge", 20, "3x p4d.24xlarge"),
        ("2x p4d.24xlarge", 4, "1x p4d.24xlarge"),
    ],
)
def test_clusters_are_resized_by_whole_machines(numbers, cluster, number, expected):
    made = Plan.make(Plan.profile_of_numbers(numbers), cluster, {})
    assert cluster_of(made, number) == expected
