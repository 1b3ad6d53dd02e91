"""Steps of a small model whose terms can be worked out by hand, and published steps of large ones."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import msgspec
import pytest

from hemostat.errors import FieldError
from hemostat.plan.compute import Terms
from hemostat.plan.duration import Duration, duration
from hemostat.plan.families import LOSSES, SOFTWARE, Decoder, decoder_profile
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.parallel.pp import even_pace
from hemostat.plan.pipelines import pipeline_bubble
from hemostat.plan.profile import Part, Product, Profile
from hemostat.plan.traffic import Group, collective_s, group
from hemostat.plan.workload import REGIMES, Workload

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "plan"
AUTOCAST, FSDP, MIXED = (REGIMES[index] for index in (1, 2, 3))
TERMS = Terms(matmul=1.0, attention=1.0, memory=1.0, launch_s=1e-9, link=1.0, overlap=0.0)
NODE = Cluster.read("8xA100-80GB")
SLOW = msgspec.structs.replace(NODE, device=msgspec.structs.replace(NODE.device, link_bytes_per_s=1e9))
HIDDEN, TOKENS = 4096, 2048


def small(num_blocks: int = 8, vocab: int = 0) -> Profile:
    """Blocks of two matrices, and a head where there is a vocabulary."""
    width = 2.0 * TOKENS * HIDDEN
    block = Part(
        name="blocks",
        count=num_blocks,
        num_params=8 * HIDDEN**2,
        num_tp_params=8 * HIDDEN**2,
        products=(
            Product(rows=TOKENS, inner=HIDDEN, columns=4 * HIDDEN, cut="columns"),
            Product(rows=TOKENS, inner=4 * HIDDEN, columns=HIDDEN, cut="inner"),
        ),
        input_bytes=width,
        is_block=True,
    )
    head = Part(
        name="head",
        num_params=vocab * HIDDEN,
        products=(Product(rows=TOKENS, inner=HIDDEN, columns=vocab, cut="columns"),),
        input_bytes=width,
    )
    return Profile(name="small", parts=(block, head) if vocab else (block,), num_tokens=TOKENS)


def predict(layout: Layout, num_devices: int = 8, terms: Terms = TERMS, **work) -> Duration:
    cluster = Cluster.read(f"{num_devices}xA100-80GB")
    workload = Workload(**{"micro_batch": 2, "accumulation": 4, "regime": AUTOCAST, **work})
    return duration(small(), layout.filled(num_devices), workload, cluster, terms)


def test_one_device_computes_at_the_reachable_rate():
    step = predict(Layout(), 1)
    model_s = step.model_flop / NODE.device.reached("bf16")
    assert step.compute_s == pytest.approx(model_s, rel=0.05)
    assert step.mfu == pytest.approx(271.2 / 312, rel=0.08)
    assert step.num_tokens == 2 * 4 * TOKENS
    assert step.tokens_per_s == pytest.approx(step.num_tokens / step.step_s)
    assert [name for name, seconds in step.terms.items() if seconds] == ["compute_s", "optimizer_s"]


def test_the_step_is_the_sum_of_its_terms():
    step = predict(Layout(tp=2, pp=2, recompute="full"))
    assert step.step_s == pytest.approx(sum(step.terms.values()))
    assert min(step.terms.values()) > 0


def test_a_pass_takes_about_the_longer_one_of_device_and_host():
    device_s = predict(Layout(), 1).compute_s
    num_starts = 4 * 8 * 2 * 3  # micro-batches, blocks, products; forward once and backward twice
    for share, more in ((0.1, 1.0), (1.0, 2**0.25), (10.0, 10.0)):  # of the host's time and the device's
        terms = msgspec.structs.replace(TERMS, launch_s=share * device_s / num_starts)
        assert predict(Layout(), 1, terms).compute_s == pytest.approx(more * device_s, rel=0.01)


def test_full_recomputation_is_another_forward_pass():
    plain, again = (predict(Layout(recompute=name), 1) for name in ("none", "full"))
    assert again.recompute_s == pytest.approx(plain.compute_s / 3, rel=0.02)
    assert predict(Layout(recompute="selective"), 1).recompute_s < again.recompute_s / 10


def test_the_update_reads_and_writes_weights_and_moments_once():
    num_bytes = 8 * 8 * HIDDEN**2 * (2 * 4 + 2 * 8 + 4)  # 4 of weights, 8 of moments, 4 of gradients
    assert predict(Layout(), 1).optimizer_s == pytest.approx(num_bytes / 2.039e12)
    assert predict(Layout(fsdp=8), regime=FSDP).optimizer_s == pytest.approx(num_bytes / 8 / 2.039e12)


def test_gradients_of_copies_are_summed_once_a_step():
    at_once = msgspec.structs.replace(AUTOCAST, overlaps=False)
    step = predict(Layout(), regime=at_once)
    grads = 4 * 8 * 8 * HIDDEN**2
    assert step.gradient_s == pytest.approx(collective_s("all_reduce", grads, Group(8, 8), NODE))
    assert predict(Layout(), accumulation=16, regime=at_once).gradient_s == pytest.approx(step.gradient_s)


def test_fsdp_gathers_twice_and_scatters_for_each_micro_batch():
    def seconds(**layout) -> float:
        return predict(Layout(fsdp=8, **layout), regime=FSDP).gradient_s

    block = 8 * HIDDEN**2
    gather_s = collective_s("all_gather", 2 * block, Group(8, 8), NODE)
    scatter_s = collective_s("reduce_scatter", 4 * block, Group(8, 8), NODE)
    assert seconds() == pytest.approx(4 * 8 * (2 * gather_s + scatter_s))
    assert seconds(reshard=False) == pytest.approx(4 * 8 * (gather_s + scatter_s))


def test_passes_hide_a_share_of_the_traffic_while_they_last():
    terms = msgspec.structs.replace(TERMS, overlap=0.3)
    shown, hidden = (predict(Layout(fsdp=8), regime=FSDP, terms=each) for each in (TERMS, terms))
    assert hidden.gradient_s == pytest.approx(0.7 * shown.gradient_s)
    after = predict(Layout(fsdp=8), regime=msgspec.structs.replace(FSDP, overlaps=False), terms=terms)
    assert after.gradient_s == pytest.approx(shown.gradient_s)  # sent when the passes are over
    thin = duration(small(), Layout(dp=1, fsdp=8), Workload(micro_batch=1, regime=FSDP), SLOW, terms)
    whole = duration(small(), Layout(dp=1, fsdp=8), Workload(micro_batch=1, regime=FSDP), SLOW, TERMS)
    assert whole.gradient_s - thin.gradient_s == pytest.approx(thin.compute_s)  # no longer than they compute


def test_ranks_of_megatron_send_their_shares_and_gather_them():
    layout = Layout(tp=4, pp=2, sequence_parallel=False)
    regimes = AUTOCAST, msgspec.structs.replace(AUTOCAST, engine="megatron")
    whole, shares = (predict(layout, 16, regime=regime) for regime in regimes)
    cluster, num_bytes = Cluster.read("16xA100-80GB"), 2 * 2 * TOKENS * HIDDEN
    near, far = (group(layout.filled(16), axis, cluster) for axis in ("tp", "pp"))
    whole_s, share_s = (collective_s("send", size, far, cluster) for size in (num_bytes, num_bytes / 4))
    gathered_s = collective_s("all_gather", num_bytes, near, cluster)
    assert shares.send_s / whole.send_s == pytest.approx((share_s + gathered_s) / whole_s)


def test_zero_1_scatters_gradients_and_gathers_weights():
    regime = msgspec.structs.replace(MIXED, overlaps=False)
    plain, zero = (
        predict(Layout(), regime=msgspec.structs.replace(regime, zero_stage=stage)) for stage in (0, 1)
    )
    assert zero.gradient_s == pytest.approx(plain.gradient_s / 2, rel=0.01)
    gathered_s = collective_s("all_gather", 2 * 8 * 8 * HIDDEN**2, Group(8, 8), NODE)
    assert zero.optimizer_s == pytest.approx(plain.optimizer_s / 8 + gathered_s)


@pytest.mark.parametrize(("recompute", "num_sums"), [("none", 2), ("full", 3)])
def test_tensor_parallelism_sums_behind_each_cut_product(recompute, num_sums):
    step = predict(Layout(tp=8, recompute=recompute, sequence_parallel=False))
    one_s = collective_s("all_reduce", 2 * 2 * TOKENS * HIDDEN, Group(8, 8), NODE)
    assert step.tp_s == pytest.approx(4 * 8 * num_sums * one_s)
    assert step.compute_s == pytest.approx(predict(Layout(), 1).compute_s / 8, rel=0.1)


def test_tensor_parallelism_across_nodes_costs_more_than_it_saves():
    inside, across = predict(Layout(dp=2, tp=8), 16), predict(Layout(dp=1, tp=16), 16, accumulation=8)
    assert across.num_samples == inside.num_samples
    assert across.step_s > 1.5 * inside.step_s


@pytest.mark.parametrize(
    ("schedule", "stages"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zero_bubble", 1)]
)
def test_the_bubble_is_that_of_the_schedule(schedule, stages):
    step = predict(Layout(pp=4, dp=2, schedule=schedule, stages_per_rank=stages), accumulation=8)
    bubble = pipeline_bubble(schedule, 4, 8, stages)
    assert step.bubble_s == pytest.approx(bubble * step.compute_s)


def test_the_stage_with_the_head_sets_the_pace():
    work = Workload(micro_batch=2, accumulation=8, regime=AUTOCAST)
    layout = Layout(pp=4, dp=2, schedule="1f1b")
    plain, headed = (duration(small(8, vocab), layout, work, NODE, TERMS) for vocab in (0, 65536))
    last_flop = 2 * 8 * HIDDEN**2 + 65536 * HIDDEN
    assert headed.compute_s / plain.compute_s == pytest.approx(last_flop / (16 * HIDDEN**2), rel=0.05)
    assert headed.bubble_s < headed.compute_s * 3 / 8  # the others fill and drain faster


def test_stages_of_even_pace_are_faster_than_stages_of_as_many_blocks():
    work = Workload(micro_batch=2, accumulation=8, regime=AUTOCAST)
    layout, profile = Layout(pp=4, dp=2, schedule="1f1b"), small(16, 65536)
    borders = even_pace(profile, 4)
    even, paced = (duration(profile, layout, work, NODE, TERMS, cuts) for cuts in (None, borders))
    assert borders[-1] - borders[-2] < 4
    assert paced.compute_s < even.compute_s
    assert paced.bubble_s == pytest.approx(even.bubble_s)


def test_blocks_that_do_not_go_up_make_the_first_ranks_slower():
    work = Workload(micro_batch=2, accumulation=8, regime=AUTOCAST)
    layout = Layout(pp=4, dp=2, schedule="1f1b")
    eight, nine = (duration(small(count), layout, work, NODE, TERMS) for count in (8, 9))
    assert nine.compute_s == pytest.approx(1.5 * eight.compute_s)


def test_a_tied_head_is_updated_once_on_one_rank():
    part = Part(name="table", num_params=1000)
    work = Workload(micro_batch=1)
    tied, untied = (
        duration(
            Profile(name="x", parts=(part, part), num_tied_params=count),
            Layout(dp=1),
            work,
            Cluster.read("A100-80GB"),
            TERMS,
        )
        for count in (1000, 0)
    )
    assert untied.optimizer_s == pytest.approx(2 * tied.optimizer_s)


def test_a_layout_for_another_number_of_devices_is_refused():
    with pytest.raises(FieldError, match="makes 4 processes, and there are 8"):
        duration(small(), Layout(dp=4), Workload(micro_batch=1), NODE)


def test_a_layout_takes_far_less_than_a_millisecond():
    """A search goes through thousands; the bar here leaves room for a busy machine."""
    cluster, begin = Cluster.read("16384xH100"), time.perf_counter()
    for micro_batch in range(1, 101):
        work = Workload(micro_batch=micro_batch, accumulation=32, regime=FSDP)
        duration(small(128, 128256), Layout(dp=1, fsdp=64, tp=8, pp=32, schedule="1f1b"), work, cluster)
    assert time.perf_counter() - begin < 0.1


def gpt(layers: int, hidden: int, heads: int, tokens: int, vocab: int) -> Profile:
    """Megatron's GPT before flash attention and fused losses, with dropout and a head that is the embedding."""
    decoder = Decoder(
        num_layers=layers,
        hidden=hidden,
        num_heads=heads,
        num_kv_heads=heads,
        head_width=hidden // heads,
        ffn=4 * hidden,
        vocab=vocab,
        num_tokens=tokens,
        is_gated=False,
        has_norm_bias=True,
        has_bias=True,
        num_positions=tokens,
        is_tied=True,
        dropout=0.1,
    )
    software = msgspec.structs.replace(SOFTWARE["megatron"], is_flash=False, loss=LOSSES["eager"])
    return decoder_profile(decoder, software)


FP16 = msgspec.structs.replace(MIXED, name="fp16", engine="megatron", overlaps=False)


def test_a_published_step_of_megatron():
    """Korthikanti et al. 2022, table 5: 22B on 8 x A100, tp 8, micro batch 4, full recomputation: 1.42 s."""
    layout = Layout(dp=1, tp=8, recompute="full", sequence_parallel=False)
    work = Workload(micro_batch=4, regime=FP16)
    step = duration(gpt(48, 6144, 64, 2048, 51200), layout, work, NODE)
    assert step.step_s == pytest.approx(1.42, rel=0.06)


def test_vtrains_steps_are_predicted():
    """A sample of each table; bench/plan_time.py takes all rows, and parts held-out ones."""
    if not SHARED.exists():
        pytest.skip("../shared/data/plan is not there")
    for name, most in (("singlenode", 0.15), ("multinode", 0.12)):
        errors = []
        with (SHARED / f"vtrain_measured_{name}_a100.csv").open(newline="") as file:
            for row in list(csv.DictReader(file))[::7]:
                tp, dp, pp, micro = (int(row[key]) for key in ("tp", "dp", "pp", "mbs"))
                layout = Layout(
                    dp=dp,
                    tp=tp,
                    pp=pp,
                    schedule="1f1b" if pp > 1 else None,
                    recompute="full",
                    sequence_parallel=False,
                )
                profile = gpt(*(int(row[key]) for key in ("layers", "hidden", "heads", "seq", "vocab")))
                work = Workload(micro_batch=micro, accumulation=int(row["gbs"]) // micro // dp, regime=FP16)
                # 800 Gb/s for a node of vTrain's
                cluster = msgspec.structs.replace(
                    Cluster.read(f"{row['n_gpus']}xA100-80GB"), node_network_bytes_per_s=100e9
                )
                step = duration(profile, layout, work, cluster)
                errors.append(abs(step.step_s * 1e3 / float(row["measured_step_ms"]) - 1))
        assert sum(errors) / len(errors) < most
