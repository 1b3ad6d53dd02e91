"""What `show()` of a task returns, at each evaluation, as text and PNG files in the run directory."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from hemostat.errors import HemostatError, TaskError
from hemostat.task import Task, call
from hemostat.track import RunRecord

MAX_SAMPLES = 16
MAX_TEXT_CHARS = 65_536


class Samples:
    """Asks the task for a few samples of the first validation batch of each evaluation.

    Args:
        task: the task; one without `show()` is never asked.
        run_dir: the run directory; None (nothing is recorded, or a rank above 0) never asks.
    """

    def __init__(self, task: Task, run_dir: Path | None) -> None:
        self._task = task
        shows = type(task).show is not Task.show
        self._record = RunRecord(run_dir, {}) if run_dir is not None and shows else None
        self._step: int | None = None
        self.trouble = ""

    def begin(self, step: int) -> None:
        """An evaluation starts: its first batch is wanted."""
        self._step = step if self._record is not None else None

    def offer(self, output: Any, batch: Any) -> None:
        """A batch was computed; the first one since `begin` is shown.

        A mistake in `show()` does not end a run: it is kept in `trouble`, and nothing is asked any more. The
        random state is left as it was, so that a run with samples equals one without.

        Args:
            output: what the model returned.
            batch: the batch, on the model's device.
        """
        step, self._step = self._step, None
        if step is None or self._record is None:
            return
        try:
            with torch.random.fork_rng():
                shown = call(self._task, "show", output, batch)
            for name, content in contents(shown, f"{type(self._task).__name__}.show"):
                self._record.add_sample(step, name, content)
        except HemostatError as error:
            self.trouble = f"{error} No more samples are recorded."
            self._record = None


def contents(shown: Any, name: str) -> Iterator[tuple[str, str | bytes]]:
    """Name and text, or bytes of a PNG, of at most 16 samples.

    Args:
        shown: text; a picture: tensor or array of shape (H, W), (C, H, W) or (H, W, C) with 1, 3 or 4
            channels, a stack of them, anything of PIL or matplotlib; a list or dict of these; or None.
        name: the method, for messages.

    Raises:
        TaskError: something else.

    Examples:
        >>> [(name, kind[:4]) for name, kind in contents(["to be", torch.zeros(2, 2)], "Words.show")]
        [('0', 'to b'), ('1', b'\\x89PNG')]
    """
    if shown is None:
        return
    named: list[tuple[str, Any]] = []
    if isinstance(shown, Mapping):
        for key, value in shown.items():
            parts = _parts(value)
            names = [str(key)] if len(parts) == 1 else [f"{key}-{number}" for number in range(len(parts))]
            named += zip(names, parts, strict=True)
    else:
        listed = shown if isinstance(shown, list | tuple) else [shown]
        named += [(str(number), part) for number, part in enumerate(p for v in listed for p in _parts(v))]
    for key, value in named[:MAX_SAMPLES]:
        yield key, _content(value, name)


def _parts(value: Any) -> list[Any]:
    """A stack of pictures as single ones."""
    value = _tensor(value)
    if not isinstance(value, torch.Tensor):
        return [value]
    stacked = value.dim() == 4 or (value.dim() == 3 and not {value.shape[0], value.shape[-1]} & {1, 3, 4})
    return list(value[:MAX_SAMPLES]) if stacked else [value]


def _tensor(value: Any) -> Any:
    """Arrays become tensors; the rest is left as it is."""
    is_array = hasattr(value, "__array_interface__") and not hasattr(value, "save")
    return torch.as_tensor(value) if is_array else value


def _content(value: Any, name: str) -> str | bytes:
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT_CHARS else f"{value[:MAX_TEXT_CHARS]}\n[cut here]"
    if isinstance(value, torch.Tensor) and value.dim() in (2, 3):
        return png(value)
    for method in ("savefig", "save"):  # a figure of matplotlib, a picture of PIL
        if hasattr(value, method):
            buffer = io.BytesIO()
            getattr(value, method)(buffer, format="png")
            return buffer.getvalue()
    got = (
        f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
    )
    raise TaskError(f"{name} returned {got}: return text, a picture (H, W) or (C, H, W), or a list of them.")


def png(picture: torch.Tensor) -> bytes:
    """A picture as PNG.

    Args:
        picture: (H, W), (C, H, W) or (H, W, C); uint8, or floats from 0 to 1. Other values are stretched
            from their smallest to their largest.

    Raises:
        TaskError: neither 1, 3 nor 4 channels.

    Source: PNG specification, third edition (W3C 2025), sections 5 and 11.
    """
    pixels = picture.detach().cpu()
    if pixels.dim() == 2:
        pixels = pixels[..., None]
    elif pixels.shape[0] in (1, 3, 4):
        pixels = pixels.permute(1, 2, 0)
    color_types = {1: 0, 3: 2, 4: 6}  # grey, RGB, RGB and alpha
    height, width, channels = pixels.shape
    if channels not in color_types or not pixels.numel():
        raise TaskError(f"show: a picture of shape {tuple(picture.shape)} has no 1, 3 or 4 channels.")
    if pixels.dtype != torch.uint8:
        pixels = pixels.float().nan_to_num()
        low, high = float(pixels.min()), float(pixels.max())
        if low < 0 or high > 1:
            pixels = (pixels - low) / max(high - low, 1e-12)
        pixels = (pixels * 255).round().to(torch.uint8)
    lines = pixels.contiguous().reshape(height, width * channels).numpy()
    raw = b"".join(b"\0" + line.tobytes() for line in lines)
    head = struct.pack(">IIBBBBB", width, height, 8, color_types[channels], 0, 0, 0)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(raw)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
