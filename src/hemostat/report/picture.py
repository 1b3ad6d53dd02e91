"""The loss curve as a PNG; matplotlib is imported here and only when asked for."""

from __future__ import annotations

from pathlib import Path

from hemostat.errors import MissingExtraError, RecordError
from hemostat.track import RunRecord


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
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", extra="plot", purpose="the loss curve as PNG") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
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
    path = record.path / "loss.png"
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise RecordError(f"cannot draw {path}: {error.strerror or error}. Free some space.") from None
    finally:
        pyplot.close(figure)
    return path
