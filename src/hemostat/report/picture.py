"""The loss curve as a PNG; matplotlib is imported here and only when asked for."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any, Final

from hemostat.errors import MissingExtraError, RecordError
from hemostat.track import RunRecord

_DRAWING: Final = threading.Lock()  # a launching process draws for its messages and at the end


def draw_loss(record: RunRecord) -> Path | None:
    """Draw training and validation loss over samples into `loss.png` of the run directory.

    Args:
        record: a run with metrics.

    Returns:
        The file; None where the run recorded no loss.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RecordError: the disk refused the picture.
    """
    loss = record.metrics("loss")
    if not loss:
        return None
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", extra="plot", purpose="the loss curve as PNG") from None
    with _DRAWING:
        # no pyplot: it keeps figures for one thread, and chooses a display for the whole process
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        _plot(figure.add_subplot(), record, loss)
        path = record.path / "loss.png"
        beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # nobody sends half a picture
        try:
            figure.savefig(beside, dpi=110, format="png")
            beside.replace(path)
        except OSError as error:
            raise RecordError(f"cannot draw {path}: {error.strerror or error}. Free some space.") from None
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
    return path


def _plot(axes: Any, record: RunRecord, loss: list[tuple[int, int, float]]) -> None:
    axes.plot(
        [point[1] for point in loss], [point[2] for point in loss], linewidth=0.6, label="training", alpha=0.7
    )
    judged = record.metrics("val_loss")
    if judged:
        axes.plot(
            [point[1] for point in judged],
            [point[2] for point in judged],
            marker="o",
            markersize=3,
            label="validation",
        )
    axes.set_xlabel("samples")
    axes.set_ylabel("loss")
    axes.set_title(record.id, fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend()
