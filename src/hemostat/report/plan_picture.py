"""A plan as a picture: memory through the moments of a step, and what each layout needs of a device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hemostat.errors import FieldError
from hemostat.report.picture import picture
from hemostat.report.plan_command import layout_text

if TYPE_CHECKING:
    from hemostat.plan import Choice, Plan

MAX_LAYOUTS: Final = 8
SMALL: Final = 0.02  # of the peak: less is not worth a colour
_GIB: Final = 2**30
# in the order of a run; a phase that is not named here comes last
_ORDER: Final = (
    "initialisation",
    "checkpoint load",
    "end of forward",
    "loss",
    "first backward block",
    "backward block",
    "last backward block",
    "reduce-scatter",
    "optimizer step",
)


def draw_plan(plan: Plan, path: Path) -> Path:
    """Draw the memory of the best layout over a step, and that of every layout beside the device's.

    Args:
        plan: as it was made; where nothing fits, the layout that comes closest is drawn.
        path: of the PNG.

    Returns:
        The file.

    Raises:
        FieldError: the path is that of a folder or of another kind of file, or no layout is possible.
        MissingExtraError: matplotlib is not installed.
        RecordError: the disk refused the picture.
    """
    shown: Any = plan.best or (plan.found.rejected[0] if plan.found.rejected else plan.wanted)
    if shown is None:
        raise FieldError("plot", str(path), "there is no layout to draw", "See what the plan says.")
    with picture(path, "the plan as PNG", (11, 4.5)) as figure:
        left, right = figure.subplots(1, 2)
        _timeline(left, shown)
        _layouts(right, plan)
    return path


def _timeline(axes: Any, choice: Choice) -> None:
    """The fullest stage, its tensors on top of each other."""
    stage = choice.memory.peak.stage
    moments = moments_of(choice)
    largest: dict[str, float] = {}
    for moment in moments:
        for item in moment.items:
            largest[item.name] = max(largest.get(item.name, 0.0), item.num_bytes)
    names = [name for name, size in largest.items() if size > SMALL * choice.memory.peak.num_bytes]
    below = [0.0] * len(moments)
    for name in (*names, "all else"):
        sizes = [
            sum(
                item.num_bytes
                for item in moment.items
                if (item.name if item.name in names else "all else") == name
            )
            / _GIB
            for moment in moments
        ]
        axes.bar(range(len(moments)), sizes, bottom=below, label=name)
        below = [low + size for low, size in zip(below, sizes, strict=True)]
    axes.set_xticks(range(len(moments)), [moment.phase for moment in moments], rotation=30, ha="right")
    axes.set_ylabel("GiB allocated")
    axes.set_title(f"{choice.layout}, stage {stage}")
    axes.legend(fontsize=7, loc="upper left")


def moments_of(choice: Choice) -> list[Any]:
    """The moments of the fullest stage in the order of a run, each phase at its fullest.

    Args:
        choice: one layout.
    """
    fullest: dict[str, Any] = {}
    for moment in choice.memory.moments:
        known = fullest.get(moment.phase)
        if moment.stage == choice.memory.peak.stage and (known is None or known.num_bytes < moment.num_bytes):
            fullest[moment.phase] = moment
    known_phases = [phase for phase in _ORDER if phase in fullest]
    return [fullest[phase] for phase in (*known_phases, *(each for each in fullest if each not in _ORDER))]


def _layouts(axes: Any, plan: Plan) -> None:
    """Expected need of a device with its error bar, those that do not fit in red."""
    rows: list[Any] = [*plan.found.choices, *plan.found.rejected][:MAX_LAYOUTS]
    places = range(len(rows))
    sizes = [row.memory.device for row in rows]
    errors = [
        [(size.num_bytes - size.low_bytes) / _GIB for size in sizes],
        [(size.high_bytes - size.num_bytes) / _GIB for size in sizes],
    ]
    fits = plan.cluster.device.memory_bytes
    colors = ["tab:blue" if row.memory.device.high_bytes <= fits else "tab:red" for row in rows]
    axes.barh(places, [size.num_bytes / _GIB for size in sizes], xerr=errors, color=colors)
    axes.axvline(fits / _GIB, color="black", linestyle="--", label=f"{plan.cluster.device.name}")
    axes.set_yticks(places, [layout_text(row.layout) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("GiB of a device")
    axes.legend()
