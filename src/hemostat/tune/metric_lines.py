"""Metric lines: the objective of a script that only prints, read from its output while it grows."""

from __future__ import annotations

import re
from pathlib import Path

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?)(?![\w.])"
_PAIR = re.compile(rf"(?<![\w/.-])([a-z][\w/.-]*)[\"']?\s*[:=]\s*[\"']?{_NUMBER}", re.IGNORECASE)
# of several in one line the first of these counts: an epoch has many steps
_POSITIONS = ("samples", "global_step", "step", "steps", "iteration", "iter", "epoch")
_POSITION = re.compile(
    rf"(?<![\w/.-])({'|'.join(_POSITIONS)})[\"']?\s*[:=]?\s*\[?\s*(\d+(?:\.\d*)?)(?![\w])", re.IGNORECASE
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def value_in(line: str, metric: str) -> float | None:
    """The number that a line gives for a metric; of several the first.

    Examples:
        >>> value_in("epoch 3/10  train_loss: 0.9  loss: 0.5", "loss"), value_in("val_loss=nan step=100", "val_loss")
        (0.5, nan)
        >>> value_in("{'eval_loss': 1.5e-1, 'epoch': 2.0}", "eval_loss"), value_in("no number, no loss: here", "loss")
        (0.15, None)
    """
    pattern = rf"(?<![\w/.-]){re.escape(metric)}[\"']?\s*[:=]?\s*[\"']?({_NUMBER})"
    match = re.search(pattern, line, re.IGNORECASE)
    return float(match[1]) if match else None


def position_in(line: str) -> tuple[str, int] | None:
    """What a line counts in, and where it is; None where it names no whole number.

    Examples:
        >>> position_in("epoch 3 step=1200 loss: 0.5"), position_in("Epoch [4/10] acc 0.9"), position_in("loss 0.5")
        (('step', 1200), ('epoch', 4), None)
    """
    found = {name.lower(): float(text) for name, text in reversed(_POSITION.findall(line))}
    for name in _POSITIONS:
        if name in found and found[name].is_integer():
            return name, int(found[name])
    return None


class MetricLines:
    """The curve that a growing file of output gives.

    A line counts where it has the metric and a number. Its position is its step or epoch, else the number of such
    lines; epochs that are counted from 0 count from 1, for 0 is the untrained model. A position that does not go up
    is left out: a script often prints the same one again.

    Args:
        path: the file; it may not exist yet.
        metric: name as it is printed.
        begin_bytes: what stands before is of an earlier attempt.

    Attributes:
        names: what the lines so far have given numbers for, in the order of their coming.
    """

    def __init__(self, path: Path, metric: str, begin_bytes: int = 0) -> None:
        self._path, self._metric = path, metric
        self._offset_bytes = begin_bytes
        self._points: list[tuple[int, float]] = []
        self._shift = 0
        self.names: dict[str, None] = {}

    def read(self) -> list[tuple[int, float]]:
        """All (position, value) so far; only what is new is read, and whole lines only."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset_bytes)
                text = file.read()
        except FileNotFoundError:
            return self._points
        whole, end, _ = text.rpartition(b"\n")
        self._offset_bytes += len(whole) + len(end)
        for line in re.split(r"[\r\n]+", _COLOUR.sub("", whole.decode(errors="replace"))):
            self._take(line)
        return self._points

    def _take(self, line: str) -> None:
        self.names |= dict.fromkeys(_PAIR.findall(line))
        value = value_in(line, self._metric)
        if value is None:
            return
        name, at = position_in(line) or ("", len(self._points) + 1)
        if not self._points and name == "epoch" and at == 0:
            self._shift = 1
        at += self._shift
        if not self._points or at > self._points[-1][0]:
            self._points.append((at, value))
