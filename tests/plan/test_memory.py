"""Peaks against published ones, where they are and of what; and the story of 320 million parameters."""

from __future__ import annotations

import time

import msgspec
import pytest

from hemostat.config import decode
from hemostat.errors import FieldError
from hemostat.plan.allocator import GIB
from hemostat.plan.families import LOSSES, SOFTWARE, Decoder, decoder_from_numbers, decoder_profile
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.memory import Forecast, peak
from hemostat.plan.profile import Part, Profile
from hemostat.plan.search import Goal, choice_of
from hemostat.plan.workload import REGIMES, Workload

REGIME = {regime.name: regime for regime in REGIMES}
A100_40GB = 40960 * 2**20  # nvidia-smi
V100_16GB = 16160 * 2**20


def llama(name: str, num_layers: int, **changes: int) -> Decoder:
    sizes = {
        "8b": {"hidden": 4096, "num_heads": 32, "ffn": 14336},
        "70b": {"hidden": 8192, "num_heads": 64, "ffn": 28672},
        "405b": {"hidden": 16384, "num_heads": 128, "ffn": 53248},
    }[name]
    every = {"num_kv_heads": 8, "head_width": 128, "vocab": 128256, "num_tokens": 8192} | sizes | changes
    return Decoder(num_layers=num_layers, **every)


@pytest.mark.parametrize(
    ("name", "num_layers", "layout", "gibibytes"),
    # SimuMax v1.2, docs/b200: Megatron-LM, distributed optimizer, sequence of 4096, allocated on the fullest rank
    [
        ("70b", 12, Layout(dp=4, tp=2), 60.68),
        ("70b", 12, Layout(dp=2, tp=4), 39.07),
        ("70b", 12, Layout(dp=4, pp=2), 66.55),
        ("405b", 4, Layout(tp=8), 38.57),
        ("405b", 4, Layout(dp=4, pp=2), 87.08),
    ],
)
def test_megatron_on_b200(name, num_layers, layout, gibibytes):
    heads = 16 if name == "405b" else 8
    decoder = llama(name, num_layers, num_tokens=4096, num_kv_heads=heads)
    work = Workload(micro_batch=1, accumulation=4, regime=REGIME["megatron"])
    found = peak(decoder_profile(decoder, "megatron"), layout, work)
    assert found.allocated.num_bytes / GIB == pytest.approx(gibibytes, rel=0.01)


@pytest.mark.parametrize(
    ("num_ranks", "compiled", "loss", "gibibytes"),
    # torchtitan, benchmarks: Llama-3.1-8B, FSDP2, selective-op, local batch 2, reserved
    [(8, False, "eager", 82.4), (128, True, "eager", 62.0), (32, True, "compiled", 47.96)],
)
def test_fsdp_on_hopper(num_ranks, compiled, loss, gibibytes):
    software = msgspec.structs.replace(SOFTWARE["torchtitan"], loss=LOSSES[loss])
    layout = Layout(fsdp=num_ranks, recompute="selective", compile=compiled)
    work = Workload(micro_batch=2, regime=REGIME["fsdp"])
    found = peak(decoder_profile(llama("8b", 32), software), layout, work)
    assert found.reserved.num_bytes / GIB == pytest.approx(gibibytes, rel=0.05)
    assert found.reserved.low_bytes < gibibytes * GIB < found.reserved.high_bytes


def test_adamw_without_fusion_is_fullest_in_its_step():
    """Llama-3.2-3B in bf16 with checkpoints on an A6000: 32.15 GB, ten bytes a parameter (PyPI vramcalc 0.1.2)."""
    decoder = llama("8b", 28, hidden=3072, num_heads=24, ffn=8192, num_tokens=2048)
    decoder = msgspec.structs.replace(decoder, is_tied=True)
    regime = msgspec.structs.replace(REGIME["bf16"], holds_grads=True)
    layout, work = Layout(recompute="full"), Workload(micro_batch=1, regime=regime)
    found = peak(decoder_profile(decoder, "transformers"), layout, work)
    assert found.peak.phase == "optimizer step"
    assert found.allocated.num_bytes / 1e9 == pytest.approx(32.15, rel=0.005)
    assert found.allocated.num_bytes == 10 * decoder.num_params


class TestStory:
    """320M parameters, 24 layers of 1024, devices of 40 GB; samples of 272 tokens; as `hemostat plan` foretells it."""

    profile = decoder_profile(decoder_from_numbers(320e6, 24, 1024, num_tokens=272))

    def find(self, layout: str, micro_batch: int, accumulation: int = 1) -> Forecast:
        axes = Layout.read(layout)
        cluster = Cluster.read(f"{axes.num_ranks}xA100-40GB")
        goal = Goal(global_batch=micro_batch * accumulation * axes.num_data_ranks)
        wanted = axes.filled(cluster.num_devices), micro_batch
        choice = choice_of(self.profile, cluster, goal, wanted)
        assert (choice.workload.micro_batch, choice.workload.accumulation) == (micro_batch, accumulation)
        return choice.memory

    def test_plain_copies_run_out_of_memory_at_128_samples(self):
        found = self.find("dp=8", 128)
        assert not found.fits(A100_40GB)
        assert found.peak.phase == "loss"
        assert self.find("dp=8", 96).fits(A100_40GB)

    @pytest.mark.parametrize(
        ("layout", "micro_batch", "accumulation", "gibibytes"),
        [("dp=8", 128, 1, 38.8), ("pp=2,dp=4", 128, 2, 32.0), ("pp=2,dp=4", 64, 4, 17.9)],
    )
    def test_two_stages_bring_38_to_18_gib_only_with_half_the_samples_at_once(
        self, layout, micro_batch, accumulation, gibibytes
    ):
        """Of 1024 samples, all in allocated GiB: two stages alone save a sixth, as the first holds two passes."""
        found = self.find(layout, micro_batch, accumulation)
        assert found.allocated.num_bytes / GIB == pytest.approx(gibibytes, rel=0.01)
        assert found.fits(A100_40GB) is (gibibytes < 38)

    def test_those_18_gigabytes_do_not_fit_the_devices_of_a_p3_16xlarge(self):
        found = self.find("pp=2,dp=4", 64, accumulation=4)
        assert not found.fits(V100_16GB)
        assert found.allocated.num_bytes > V100_16GB  # no allocator setting helps

    @pytest.mark.parametrize(
        ("layout", "grad_bytes", "percent"), [("dp=8", 4, 12.5), ("dp=1", 4, 14.3), ("fsdp=8", 4 / 8, 3.2)]
    )
    def test_accumulation_makes_1024_out_of_128_for_the_gradients_between_its_passes(
        self, layout, grad_bytes, percent
    ):
        """Without it they are gone at the loss, or lie in DDP's buckets; with it, DDP has them in both places."""
        once, often = (self.find(layout, 16, number).allocated.num_bytes for number in (1, 8))
        assert often - once == pytest.approx(grad_bytes * self.profile.num_params, rel=0.01)
        assert often / once == pytest.approx(1 + percent / 100, abs=0.001)

    @pytest.mark.parametrize("layout", ["dp=8", "dp=1", "fsdp=8"])
    def test_accumulation_costs_less_than_one_percent_where_gradients_are_zeroed_in_place(self, layout):
        name = "fsdp" if layout.startswith("fsdp") else "autocast"
        regime = msgspec.structs.replace(REGIME[name], holds_grads=True)
        once, often = (
            peak(self.profile, Layout.read(layout), Workload(micro_batch=16, accumulation=n, regime=regime))
            for n in (1, 8)
        )
        assert often.allocated.num_bytes / once.allocated.num_bytes < 1.01


def test_the_peak_is_the_largest_moment_and_no_sum():
    found = peak(
        decoder_profile(llama("8b", 4)), Layout(fsdp=8), Workload(micro_batch=1, regime=REGIME["fsdp"])
    )
    assert (
        found.peak.num_bytes == max(moment.num_bytes for moment in found.moments) == found.allocated.num_bytes
    )
    phases = {moment.phase for moment in found.moments}
    assert phases >= {"end of forward", "loss", "first backward block", "optimizer step", "checkpoint load"}
    sizes = [item.num_bytes for item in found.peak.items]
    assert sizes == sorted(sizes, reverse=True) and min(sizes) > 0


def test_the_last_stage_is_fullest_where_the_vocabulary_is_large():
    work = Workload(micro_batch=1, accumulation=8, regime=REGIME["mixed"])
    wide = decoder_profile(llama("8b", 8, vocab=1_000_000))
    narrow = decoder_profile(llama("8b", 8, vocab=1_000))
    assert peak(wide, Layout(pp=4), work).peak.stage == 3
    assert peak(narrow, Layout(pp=4), work).peak.stage == 0


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble"])
def test_gpipe_holds_every_micro_batch(schedule):
    work = Workload(micro_batch=1, accumulation=16, regime=REGIME["mixed"])
    found = peak(decoder_profile(llama("8b", 8, vocab=1000)), Layout(pp=4, schedule=schedule), work)
    base = peak(decoder_profile(llama("8b", 8, vocab=1000)), Layout(pp=4), work)
    assert (found.allocated.num_bytes > 2 * base.allocated.num_bytes) == (schedule == "gpipe")


@pytest.mark.parametrize(
    "better",
    [
        Layout(fsdp=8, recompute="selective"),
        Layout(fsdp=8, recompute="full"),
        Layout(fsdp=16),
        Layout(fsdp=8, tp=2),
        Layout(fsdp=8, pp=2),
    ],
)
def test_what_saves_memory_saves_memory(better):
    profile, work = decoder_profile(llama("8b", 32)), Workload(micro_batch=2, regime=REGIME["fsdp"])
    assert (
        peak(profile, better, work).allocated.num_bytes
        < peak(profile, Layout(fsdp=8), work).allocated.num_bytes
    )


def test_memory_grows_with_samples_and_shrinks_without_gathering():
    profile = decoder_profile(llama("8b", 32))
    one, two = (
        peak(profile, Layout(fsdp=8), Workload(micro_batch=number, regime=REGIME["fsdp"]))
        for number in (1, 2)
    )
    assert two.allocated.num_bytes > one.allocated.num_bytes
    kept = peak(profile, Layout(fsdp=8, reshard=False), Workload(micro_batch=1, regime=REGIME["fsdp"]))
    assert kept.allocated.num_bytes > one.allocated.num_bytes


def test_a_model_without_blocks_has_a_peak_too():
    flat = Profile(name="flat", parts=(Part(name="first", num_params=10), Part(name="last", num_params=5)))
    assert peak(flat, Layout(), Workload(micro_batch=1)).allocated.num_bytes == 15 * (4 + 4 + 8 + 4)
    with pytest.raises(FieldError, match="more stages than the 0 blocks"):
        peak(flat, Layout(pp=2), Workload(micro_batch=1))


def test_a_forecast_can_be_saved_and_read_back():
    found = peak(decoder_profile(llama("8b", 2)), Layout(), Workload(micro_batch=1))
    assert decode(Forecast, msgspec.to_builtins(found)) == found


def test_a_layout_of_16384_devices_takes_well_under_a_millisecond():
    profile = decoder_profile(llama("405b", 126))
    layout = Layout(dp=8, fsdp=16, tp=8, pp=16, recompute="full")
    work = Workload(micro_batch=1, accumulation=128, regime=REGIME["fsdp"])
    took_s = []
    for _ in range(30):
        begin_s = time.perf_counter()
        peak(profile, layout, work)
        took_s.append(time.perf_counter() - begin_s)
    assert min(took_s) < 1e-3
