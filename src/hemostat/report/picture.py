"""The loss curve as a PNG; matplotlib is imported here and only when asked for."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hemostat.errors import FieldError, MissingExtraError, RecordError
from hemostat.track import RunRecord

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
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
    path = record.path / "loss.png"
    with picture(path, "the loss curve as PNG", (8, 4.5)) as figure:
        _plot(figure.add_subplot(), record, loss)
    return path


@contextlib.contextmanager
def picture(path: Path, purpose: str, size_inches: tuple[float, float]) -> Iterator[Any]:
    """A figure that is written to a file once it is drawn; nobody ever sees half of it.

    Args:
        path: of the PNG; its folder is made where it is not there.
        purpose: what an error says that matplotlib is for.
        size_inches: width and height.

    Raises:
        FieldError: the path is that of a folder, or of another kind of file.
        MissingExtraError: matplotlib is not installed.
        RecordError: the disk refused the picture.
    """
    if path.is_dir() or path.suffix.lower() != ".png":
        rule = "is a folder" if path.is_dir() else "is no PNG file, which is what is drawn"
        raise FieldError("plot", str(path), rule, "Write it like --plot plan.png.")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", extra="plot", purpose=purpose) from None
    with _DRAWING:
        # no pyplot: it keeps figures for one thread, and chooses a display for the whole process
        figure = Figure(figsize=size_inches, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # nobody sends half a picture
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(beside, dpi=110, format="png")
            beside.replace(path)
        except OSError as error:
            fix = "Free some space." if error.errno in _FULL else "Choose another file."
            raise RecordError(f"cannot draw {path}: {error.strerror or error}. {fix}") from None
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


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
