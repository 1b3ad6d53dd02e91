"""Terms are found again from steps that were made with them."""

from __future__ import annotations

import msgspec
import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.calibrate import FITTED, Measured, calibrate, error, told_apart
from hemostat.plan.compute import Terms
from hemostat.plan.duration import duration
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.profile import Part, Product, Profile
from hemostat.plan.workload import REGIMES, Workload

TRUE = Terms(matmul=0.7, attention=0.3, memory=0.5, launch_s=3e-4, link=0.6, overlap=0.0)


def profile(hidden: int) -> Profile:
    block = Part(
        name="blocks",
        count=8,
        num_params=8 * hidden**2,
        num_tp_params=8 * hidden**2,
        products=(
            Product(rows=1024, inner=hidden, columns=4 * hidden, cut="columns"),
            Product(rows=1024, inner=64, columns=1024, count=hidden // 64, has_weight=False, cut="count"),
            Product(rows=1024, inner=4 * hidden, columns=hidden, cut="inner"),
        ),
        moved_bytes=1024.0 * hidden * 60,
        input_bytes=2048.0 * hidden,
        is_block=True,
    )
    return Profile(name="small", parts=(block,), num_tokens=1024)


def measured(terms: Terms) -> list[Measured]:
    rows = []
    for hidden in (1024, 4096):
        for tp in (1, 2, 8):
            for micro_batch in (1, 16):
                layout = Layout(dp=8 // tp, tp=tp, sequence_parallel=False)
                work = Workload(micro_batch=micro_batch, accumulation=2, regime=REGIMES[1])
                row = Measured(profile(hidden), layout, work, Cluster.read("8xA100-80GB"), 0.0)
                rows.append(row._replace(step_s=duration(*row[:4], terms).step_s))
    return rows


def test_terms_are_found_again():
    rows = measured(TRUE)
    start = Terms(overlap=0.0)
    found = calibrate(rows, start, FITTED)
    assert error(rows, start) > 0.2
    assert error(rows, found) < 0.03
    assert found.overlap == 0.0
    assert found.launch_s == pytest.approx(TRUE.launch_s, rel=0.15)
    assert found.link == pytest.approx(TRUE.link, rel=0.15)


def test_true_terms_stay():
    assert calibrate(measured(TRUE), TRUE) == TRUE


def test_one_step_moves_one_term_and_explains_the_step():
    row = measured(TRUE)[-1]
    start = Terms(overlap=0.0)
    found = calibrate([row], start)
    changed = [name for name in FITTED if getattr(found, name) != getattr(start, name)]
    assert changed == told_apart([row], start) and len(changed) == 1
    assert error([row], found) < 0.02


def one_device(terms: Terms, micro_batch: int) -> Measured:
    """A step on one device; the small blocks wait for the host at one sample, and not at 64."""
    work = Workload(micro_batch=micro_batch, regime=REGIMES[1])
    row = Measured(profile(1024), Layout(dp=1), work, Cluster.read("1xA100-80GB"), 0.0)
    return row._replace(step_s=duration(*row[:4], terms).step_s)


@pytest.mark.parametrize("truth", [Terms(launch_s=2 * Terms().launch_s), Terms(matmul=0.4)])
@pytest.mark.parametrize("taken", [1, 64])
def test_one_step_makes_no_other_step_worse_than_it_was(truth, taken):
    """The host twice as slow, measured at one sample: matmul takes no blame for what it does not cause."""
    found = calibrate([one_device(truth, taken)])
    for micro_batch in (1, 4, 16, 64):
        other = one_device(truth, micro_batch)
        assert error([other], found) < max(0.03, error([other], Terms()) * 1.001)


def test_two_micro_batches_tell_the_host_from_the_device():
    truth = Terms(launch_s=2 * Terms().launch_s, matmul=0.4)
    found = calibrate([one_device(truth, micro_batch) for micro_batch in (1, 64)])
    assert found.launch_s == pytest.approx(truth.launch_s, rel=0.03)
    assert found.matmul == pytest.approx(truth.matmul, rel=0.03)
    assert error([one_device(truth, 16)], found) < 0.03


def test_no_term_is_moved_by_more_than_a_factor_of_four():
    row = one_device(Terms(), 1)
    found = calibrate([row._replace(step_s=100 * row.step_s)])
    assert (
        found.launch_s <= 4 * Terms().launch_s and error([row._replace(step_s=100 * row.step_s)], found) > 1
    )


def test_one_device_says_nothing_of_links():
    layout, work = Layout(dp=1), Workload(micro_batch=4)
    row = Measured(profile(1024), layout, work, Cluster.read("1xA100-80GB"), 0.1)
    assert calibrate([row], Terms(), FITTED).link == Terms().link


def test_what_cannot_be_fitted_is_refused():
    row = measured(TRUE)[0]
    with pytest.raises(FieldError, match="at least one"):
        calibrate([])
    with pytest.raises(FieldError, match="no time"):
        calibrate([row._replace(step_s=0.0)])
    with pytest.raises(UnknownNameError, match="seeds"):
        calibrate([row], names=["seeds"])


def test_a_fitted_term_stays_within_what_is_possible():
    row = measured(TRUE)[-1]
    found = calibrate([row._replace(step_s=1e-9)], Terms(), FITTED)
    assert found.matmul <= 1.0
    assert msgspec.structs.asdict(found)["memory"] <= 1.0
