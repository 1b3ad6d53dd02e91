"""How long a part of a model computes on one device: products by their shape, the rest by the bytes it moves."""

from __future__ import annotations

import functools
import math
from typing import Final, NamedTuple

from hemostat.config import Config
from hemostat.plan.hardware import Device
from hemostat.plan.profile import Part, Product

# Tiles of the result that one multiprocessor computes, rows x columns, as cuBLAS has them.
# Source: NVIDIA, Matrix Multiplication Background, section on tile sizes.
_TILES: Final = ((256, 128), (128, 128), (128, 64), (64, 64))
# A tile of m x n computes m n / (m + n) products for each value that it reads, and reaches I / (I + this) of what
# it would without reading: 0.94, 0.84 and 0.76 of the largest tile.
# Source: bench/plan_time.py --fit: on the rows that are not held out 10 and 20 do not differ, 5 and 40 are worse.
_TILE_HALF: Final = 20.0
# A product with few tiles is cut along the inner size into pieces of at least this.
# Source: NVIDIA CUTLASS, media/docs/efficient_gemm.md, "parallelized reductions" (split-K). The size is a guess that
# no published step tells: bench/plan_time.py --fit finds no difference from 128 to 2048, nor without pieces.
_SPLIT_INNER: Final = 512
# The backward pass of what is no product reads the gradient and the kept input and writes a gradient: 3 for 2.
# Source: Ivanov et al. 2021 (arXiv 2007.00072), table of the operators' inputs and outputs.
_BACKWARD_MOVED: Final = 1.5


class Terms(Config, frozen=True, kw_only=True):
    """What no data sheet says; `calibrate` fits it to measured steps.

    Attributes:
        matmul: share of `Device.reached` that large products of a model reach.
        attention: the same of products between activations: their sums are short, or a softmax is in their kernel.
        memory: share of the memory bandwidth that the kernels between the products reach.
        launch_s: seconds in which the host starts one product with the small kernels around it, in one pass.
        link: share of the measured bandwidth of collectives in a node.
        network: the same between nodes.
        overlap: share of the traffic of gradients and gathered weights that passes hide, while they last. The rest
            is what collectives take from the kernels beside them.

    Source: fitted by bench/plan_time.py --fit to three tables at once, each counting alike, two of three
        configurations of each, together with the sustained share of H100: llm-foundry (torch, FSDP, A100 and H100;
        MosaicML, llm-foundry, scripts/train/benchmarking/README.md) and vTrain's two (Megatron-DeepSpeed, A100; Bang
        et al. 2024, arXiv 2312.12391, data/ground_truth_*.csv). `link` and `network` are not fitted: those rows hardly
        depend on them, so they stay at what was measured.
    """

    matmul: float = 0.94
    attention: float = 0.311
    memory: float = 0.72
    launch_s: float = 139e-6
    link: float = 1.0
    network: float = 1.0
    overlap: float = 0.224

    @property
    def shares(self) -> tuple[float, float]:
        """What `traffic.collective_s` takes."""
        return self.link, self.network


class Cut(NamedTuple):
    """How one rank sees a part.

    Attributes:
        micro_batch: samples of one pass.
        tp: ranks that share each matrix.
        sequence_parallel: they share what lies between the matrices, too.
        dtype: of the products: "bf16", "fp16", "tf32", "fp32".
    """

    micro_batch: int
    tp: int = 1
    sequence_parallel: bool = False
    dtype: str = "bf16"


class PassTime(NamedTuple):
    """Seconds of one micro-batch in one part; a pass takes the longer of the device's and the host's.

    Attributes:
        forward_s: forward pass, on the device.
        backward_s: gradients of input and parameters, on the device.
        again_s: what selective recomputation does again: what is no product, and attention that is not fused.
        start_s: in which the host starts all kernels of a forward pass; a backward pass has twice as many.
    """

    forward_s: float
    backward_s: float
    again_s: float
    start_s: float


def part_s(part: Part, cut: Cut, device: Device, terms: Terms) -> PassTime:
    """Seconds of one of the `count` equal parts, without what its ranks tell each other.

    Args:
        part: of a profile.
        cut: how one rank sees it.
        device: that computes.
        terms: what was fitted.

    Source: Korthikanti et al. 2022 (arXiv 2205.05198), section 4, for what tensor and sequence parallelism divide;
        NVIDIA, Matrix Multiplication Background, sections on tile and wave quantisation.

    Examples:
        >>> from hemostat.plan.hardware import device
        >>> mlp = Part(name="mlp", products=(Product(rows=2048, inner=8192, columns=8192),))
        >>> round(part_s(mlp, Cut(8), device("A100-80GB"), Terms(matmul=1.0)).forward_s * 1e3, 1)
        8.1
    """
    forward_s = backward_s = attention_s = 0.0
    for product in part.products:
        ahead_s, back_s = _product_s(product, cut, device, terms)
        forward_s += ahead_s
        backward_s += back_s
        if not product.has_weight and product.density == 1.0:
            attention_s += ahead_s
    moved_bytes = part.moved_bytes * cut.micro_batch * _undivided(part, cut)
    moved_s = moved_bytes / (device.hbm_bytes_per_s * terms.memory)
    num_starts = sum(product.count if product.has_weight else 1 for product in part.products) or 1
    return PassTime(
        forward_s=forward_s + moved_s,
        backward_s=backward_s + _BACKWARD_MOVED * moved_s,
        again_s=attention_s + moved_s,
        start_s=num_starts * terms.launch_s,
    )


def _undivided(part: Part, cut: Cut) -> float:
    """What one rank moves of all that is no product; the kept tensors tell where it lies."""
    if cut.tp == 1 or not part.kept:
        return 1.0
    total = divided = 0.0
    for kept in part.kept:
        total += kept.num_bytes
        if kept.share == "tp" or (kept.share == "sp" and cut.sequence_parallel):
            divided += kept.num_bytes
    return 1.0 - divided / total * (1.0 - 1.0 / cut.tp) if total else 1.0


def _product_s(product: Product, cut: Cut, device: Device, terms: Terms) -> tuple[float, float]:
    """Seconds forward, and backward: one product for each of the two operands' gradients."""
    rows, inner, columns, count = product.rows, product.inner, product.columns, product.count
    if product.has_weight:
        rows *= cut.micro_batch
    else:
        count *= cut.micro_batch
    if product.cut == "columns":
        columns = math.ceil(columns / cut.tp)
    elif product.cut == "inner":
        inner = math.ceil(inner / cut.tp)
    elif product.cut == "count":
        count = math.ceil(count / cut.tp)
    share = terms.matmul if product.has_weight else terms.attention
    # an attention kernel that skips half of the scores does not write them either
    is_fused = product.density < 1.0
    rate = device.reached(cut.dtype) * share / product.density
    speed = _Speed(rate, device.hbm_bytes_per_s * terms.memory, device.num_units)
    value_bytes = 0 if is_fused else 4 if cut.dtype in ("fp32", "tf32") else 2
    sizes = (rows, inner, columns)
    ahead_s = _matmul_s(sizes, count, value_bytes, speed)
    input_s = _matmul_s((rows, columns, inner), count, value_bytes, speed)
    weight_s = _matmul_s((inner, rows, columns), count, value_bytes, speed)
    return ahead_s, input_s + weight_s


class _Speed(NamedTuple):
    """What limits products: FLOP/s with the largest tiles, bytes/s, and multiprocessors."""

    flop_per_s: float
    bytes_per_s: float
    num_units: int


@functools.lru_cache(maxsize=1 << 16)
def _matmul_s(sizes: tuple[int, int, int], count: int, value_bytes: int, speed: _Speed) -> float:
    """Seconds of `count` equal products in one kernel, with the tiles that are fastest.

    The tiles go round on the multiprocessors, and the last round costs as much as a full one; what memory moves is a
    lower limit.

    Source: NVIDIA, Matrix Multiplication Background, sections on tile and wave quantisation; Williams et al. 2009
        (CACM 52, 65), the roofline.
    """
    rows, inner, columns = sizes
    unit_flop_per_s = speed.flop_per_s / speed.num_units
    best_s = math.inf
    for tile_rows, tile_columns in _TILES:
        tile_s = (
            2.0 * tile_rows * tile_columns * inner / (unit_flop_per_s * _tile_share(tile_rows, tile_columns))
        )
        num_tiles = count * math.ceil(rows / tile_rows) * math.ceil(columns / tile_columns)
        pieces = max(1, min(speed.num_units // num_tiles, inner // _SPLIT_INNER))
        best_s = min(best_s, math.ceil(num_tiles * pieces / speed.num_units) * tile_s / pieces)
    moved_bytes = value_bytes * count * (rows * inner + inner * columns + rows * columns)
    return max(best_s, moved_bytes / speed.bytes_per_s)


def _tile_share(rows: int, columns: int) -> float:
    """What a tile reaches against the largest one."""
    largest, own = (m * n / (m + n) for m, n in (_TILES[0], (rows, columns)))
    return (1.0 + _TILE_HALF / largest) / (1.0 + _TILE_HALF / own)
