"""The schedule is one function: continuous where warm-up meets decay, exact at both ends."""

import itertools
import math
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError
from hemostat.recipe import Schedule

KINDS = st.sampled_from(["cosine", "linear", "wsd", "constant"])


@st.composite
def schedules(draw):
    total = draw(st.integers(4, 3000))
    peak = draw(st.floats(1e-6, 10.0))
    return Schedule(
        kind=draw(KINDS),
        peak_lr=peak,
        start_lr=peak * draw(st.floats(0.0, 1.0)),
        warmup_steps=draw(st.integers(0, total // 2)),
        total_steps=total,
        eta_min=peak * draw(st.floats(0.0, 1.0)),
        decay_steps=draw(st.integers(1, total)),
    )


@given(schedules())
def test_the_peak_is_exact_where_warm_up_ends(run):
    assert run.lr(run.warmup_steps) == run.peak_lr


@given(schedules())
def test_the_floor_is_exact_at_the_last_step_and_stays(run):
    """T003."""
    end = run.peak_lr if run.kind == "constant" else run.eta_min
    assert run.lr(run.total_steps - 1) == end
    assert run.lr(run.total_steps) == run.lr(run.total_steps + 10**6) == end


@given(schedules())
def test_no_jump_is_larger_than_the_steepest_slope(run):
    """T011."""
    rates = [run.lr(step) for step in range(run.total_steps)]
    span = run.peak_lr - run.eta_min
    last = run.total_steps - 1 - run.warmup_steps
    length = min(run.decay_steps, last) if run.kind == "wsd" else last
    decay_slope = span * math.pi / 2 / max(1, length)
    warm_slope = (run.peak_lr - run.start_lr) / (run.warmup_steps + 1)
    limit = max(decay_slope, warm_slope) * (1 + 1e-9) + 1e-15
    assert all(abs(after - before) <= limit for before, after in itertools.pairwise(rates))


@given(schedules())
def test_warm_up_rises_and_decay_falls(run):
    """T014."""
    rates = [run.lr(step) for step in range(run.total_steps)]
    warm, rest = rates[: run.warmup_steps + 1], rates[run.warmup_steps :]
    assert warm == sorted(warm)
    # cos(pi t) is monotone only up to rounding
    assert all(after <= before + 1e-12 * run.peak_lr for before, after in itertools.pairwise(rest))
    assert min(rates) >= min(run.start_lr, run.eta_min) * (1 - 1e-12)


def test_warm_up_by_hand():
    run = Schedule(kind="constant", peak_lr=0.8, start_lr=0.1, warmup_steps=6, total_steps=100)
    assert [run.lr(step) for step in range(8)] == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.8])


def test_warm_up_from_zero_never_wastes_a_step():
    assert Schedule(peak_lr=1.0, warmup_steps=9, total_steps=100).lr(0) == pytest.approx(0.1)


def test_half_way_down_a_cosine_is_the_mean():
    run = Schedule(kind="cosine", peak_lr=1.0, eta_min=0.2, warmup_steps=0, total_steps=101)
    assert run.lr(50) == pytest.approx(0.6)


def test_wsd_is_flat_until_its_decay():
    run = Schedule(kind="wsd", peak_lr=1.0, warmup_steps=10, total_steps=101, decay_steps=20)
    assert run.lr(10) == run.lr(80) == 1.0
    assert run.lr(81) == pytest.approx(0.95)


def test_milestones_multiply_down_to_the_floor():
    run = Schedule(
        kind="step", peak_lr=1.0, total_steps=100, milestones_steps=(30, 60, 80), gamma=0.1, eta_min=0.005
    )
    assert [run.lr(step) for step in (29, 30, 60, 80, 200)] == pytest.approx([1.0, 0.1, 0.01, 0.005, 0.005])


def test_a_run_of_one_step_trains_at_the_peak():
    assert Schedule(peak_lr=0.5, total_steps=1).lr(0) == 0.5


def test_half_of_the_run_is_the_hard_limit_of_warm_up():
    Schedule(peak_lr=1.0, warmup_steps=50, total_steps=100)
    with pytest.raises(
        FieldError, match=r"^warmup_steps=51: is more than half of the run \(100 steps\)\. Use at most 50"
    ):
        Schedule(peak_lr=1.0, warmup_steps=51, total_steps=100)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"peak_lr": 0.0}, r"^peak_lr=0.0: "),
        ({"peak_lr": 0.1, "eta_min": 0.2}, r"^eta_min=0.2: the floor lies above"),
        ({"peak_lr": 0.1, "kind": "poly"}, r"^schedule='poly': is not known"),
        ({"peak_lr": 0.1, "milestones_steps": (5, 3)}, r"^milestones_steps=\[5, 3\]: must rise"),
        (
            {"peak_lr": 0.1, "kind": "step", "warmup_steps": 5, "milestones_steps": (5,)},
            r"^milestones_steps=\[5\]: the first lies within the warm-up of 5 steps",
        ),
    ],
)
def test_impossible_schedules_are_refused(values, message):
    with pytest.raises(FieldError, match=message):
        Schedule(**values)


def test_a_step_costs_little():
    run = Schedule(kind="cosine", peak_lr=1.0, warmup_steps=10, total_steps=1000)
    cost_s = min(timeit.repeat(lambda: run.lr(500), number=2000, repeat=5)) / 2000
    assert cost_s < 5e-6  # 0.3 us measured; the slack is for a busy machine
