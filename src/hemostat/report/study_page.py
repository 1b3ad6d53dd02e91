"""A study as text, as pictures and as one HTML page that can be sent to somebody."""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from hemostat.disk import recording
from hemostat.report.study_pictures import draw_history, draw_importance, draw_parallel
from hemostat.units import format_count, format_number, format_seconds, format_usd

if TYPE_CHECKING:
    from hemostat.tune import Answer, History, Space

_SURE: Final = 0.95
_CHANCE: Final = 0.05  # a p-value below it tells a parameter from chance
_MAX_SHOWN: Final = 3


class StudyPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a person reads of a study.

    Attributes:
        name: of the study.
        metric: name of the objective.
        unit: what positions count: "samples", "steps" or "epochs".
        answer: its sum.
        space: what was chosen from.
        history: all its trials.
    """

    name: str
    metric: str
    unit: str
    answer: Answer
    space: Space
    history: History

    def lines(self, why: bool = False) -> list[str]:
        """The page as text, in at most 12 lines.

        Args:
            why: every trial too.
        """
        answer = self.answer
        lines = [self._head()]
        if answer.best is None:
            return [*lines, "best     no trial has a value yet"]
        place = (
            "" if answer.is_final else f", only at {format_count(answer.at)} {self.unit}: none ran to its end"
        )
        lines.append(
            f"best     {self.metric} {format_number(answer.value or 0.0)}, trial {answer.best.number}{place}"
        )
        lines.append(f"with     {_values(answer.best.config)}")
        lines.append(f"sure     {self._sure()}")
        if answer.importance:
            lines.append(f"matters  {self._matters()}")
        lines.append(f"cost     {self._cost()}")
        if answer.savings is not None:
            lines.append(f"others   {self._others()}")
        return [*lines, *self._trials()] if why else lines

    def write(self, folder: Path) -> Path:
        """Write the pictures and `study.html`, which holds them and needs no other file.

        Args:
            folder: made where it is absent.

        Returns:
            The page.

        Raises:
            MissingExtraError: matplotlib is not installed.
            RecordError: the disk refuses.
        """
        with recording(folder):
            folder.mkdir(parents=True, exist_ok=True)
        pictures = [draw_history(self.history, self.metric, folder / "history.png")]
        pictures.append(draw_parallel(self.space, self.history, folder / "parallel.png"))
        if self.answer.importance:
            pictures.append(draw_importance(self.answer.importance, folder / "importance.png"))
        path = folder / "study.html"
        with recording(path):
            path.write_text(self._html([each for each in pictures if each is not None]), encoding="utf-8")
        return path

    def _head(self) -> str:
        counted = ", ".join(f"{number} {outcome}" for outcome, number in self.answer.outcomes.items())
        end = f"ended: {self.answer.ending}" if self.answer.ending else "goes on"
        return f"study    {self.name}: {len(self.history.trials)} trials ({counted}), {end}"

    def _sure(self) -> str:
        ranking = self.answer.standings
        if self.answer.noise == 0:
            return "unknown: other seeds gave the very same values. Let the run use its seed"
        if not ranking:
            return (
                "unknown: no parameters ran twice, so the winner may be luck. --confirm 3 runs the best again"
            )
        chances = {each.name: each.best_chance for each in ranking}
        best = self.answer.best
        chance = chances[best.number] if best is not None else 0.0
        rivals = [
            f"trial {each.name} {each.best_chance:.0%}"
            for each in ranking
            if best and each.name != best.number
        ]
        noise = format_number(self.answer.noise or 0.0)
        text = f"{chance:.0%} that none of the others is better (seeds differ by {noise})"
        return text if chance >= _SURE else f"{text}; {', '.join(rivals[: _MAX_SHOWN - 1])}"

    def _matters(self) -> str:
        told = [each for each in self.answer.importance if each.p_value < _CHANCE and each.share > 0]
        rest = [each.name for each in self.answer.importance if each not in told]
        parts = [f"{each.name} {each.share:.0%}" for each in told[:_MAX_SHOWN]]
        if rest:
            parts.append(
                f"not told from chance: {', '.join(rest[:_MAX_SHOWN])}{' ...' if rest[_MAX_SHOWN:] else ''}"
            )
        return ", ".join(parts)

    def _cost(self) -> str:
        answer = self.answer
        parts = [f"{format_seconds(answer.busy_s)} of trials in {format_seconds(answer.clock_s)}"]
        if answer.usd:
            parts.append(format_usd(answer.usd))
        if answer.unspent:
            parts.append(f"unspent {answer.unspent}")
        return ", ".join(parts)

    def _others(self) -> str:
        each = self.answer.savings
        if each is None:
            return ""
        return (
            f"of {each.num_configs} runs, on this study's own curves: full grid {format_seconds(each.grid_s)}, "
            f"in random order {format_seconds(each.random_order_s)}, "
            f"random search {format_seconds(each.random_search_s)}"
        )

    def _trials(self) -> list[str]:
        lines = []
        for trial in self.history.trials:
            last = trial.points[-1] if trial.points else None
            value = "no value" if last is None else f"{format_number(last.value)} at {format_count(last.at)}"
            outcome = f"{trial.outcome or 'running'}{', ' + trial.why if trial.why else ''}"
            lines.append(
                f"trial {trial.number:<4} {value}  {_values(trial.config)}  {trial.origin}  {outcome}"
            )
        return lines

    def _html(self, pictures: list[Path]) -> str:
        text = "\n".join(self.lines(why=True))
        images = "\n".join(
            f'<img alt="{path.stem}" src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">'
            for path in pictures
        )
        title = html.escape(f"Study {self.name}")
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
            "<style>body{font-family:sans-serif;max-width:70em;margin:2em auto}img{max-width:100%}"
            "pre{overflow-x:auto;background:#f4f4f4;padding:1em}</style></head>\n"
            f"<body><h1>{title}</h1>\n<pre>{html.escape(text)}</pre>\n{images}\n</body></html>\n"
        )


def _values(config: dict[str, object]) -> str:
    return " ".join(
        f"{name}={format_number(value) if isinstance(value, float) else value}"
        for name, value in config.items()
    )
