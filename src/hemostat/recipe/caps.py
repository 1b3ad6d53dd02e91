"""The hard caps of one run: what may be spent, and what must be left to go on until the next look."""

from __future__ import annotations

import math

import msgspec

from hemostat.errors import FieldError
from hemostat.units import format_seconds, format_usd, parse_seconds, parse_usd

CLOSING_S = 1.0  # the record, the hashing of the data and the interpreter take about half of it
FIRST_SAVE_S = 0.5
SAVE_BYTES_PER_S = 100e6


def read_hours(value: float | str, field: str) -> float:
    """Seconds of an amount of hours: a bare number is hours, a text may have its own unit.

    Raises:
        FieldError: not above 0, or no duration.

    Examples:
        >>> read_hours(1.5, "train.max_hours"), read_hours("90min", "train.max_hours"), read_hours("2", "max_hours")
        (5400.0, 5400.0, 7200.0)

    Source: an hour has 3600 seconds.
    """
    if isinstance(value, str):
        seconds = parse_seconds(f"{value}h" if _is_number(value) else value, field)
    else:
        seconds = 3600.0 * value
    if not 0 < seconds < math.inf:
        raise FieldError(field, value, "must be above 0", 'Write it like 4, "90min" or "1h30m".')
    return seconds


def read_usd(value: float | str, field: str) -> float:
    """Dollars, from a number or a text.

    Raises:
        FieldError: not above 0, or no amount.

    Examples:
        >>> read_usd("$40", "train.max_usd"), read_usd(2.5, "train.max_usd")
        (40.0, 2.5)
    """
    usd = parse_usd(value, field) if isinstance(value, str) else float(value)
    if not 0 < usd < math.inf:
        raise FieldError(field, value, "must be above 0", 'Write it like "$40".')
    return usd


def _is_number(text: str) -> bool:
    return text.strip().replace(".", "", 1).replace("_", "").isdecimal()


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """The hard caps of one run.

    Attributes:
        max_s: seconds; None for no such cap.
        max_usd: dollars; None for no such cap.
        usd_per_hour: price of all devices together; None where it is not known.
    """

    max_s: float | None = None
    max_usd: float | None = None
    usd_per_hour: float | None = None

    @classmethod
    def read(
        cls, max_hours: float | str | None, max_usd: float | str | None, usd_per_hour: float | None
    ) -> Caps:
        """From what the user wrote.

        Raises:
            FieldError: not an amount, or dollars without a price.

        Examples:
            >>> Caps.read("4h", "$40", 20.0).limit_s
            7200.0
        """
        if max_usd is not None and usd_per_hour is None:
            raise FieldError(
                "train.max_usd",
                max_usd,
                "needs the price of an hour",
                "Add --set train.usd_per_hour=3.2 or --set train.instance=p4d.24xlarge, or cap the time: --max-hours.",
            )
        return cls(
            max_s=None if max_hours is None else read_hours(max_hours, "train.max_hours"),
            max_usd=None if max_usd is None else read_usd(max_usd, "train.max_usd"),
            usd_per_hour=usd_per_hour,
        )

    @property
    def limit_s(self) -> float:
        """Seconds that both caps allow; infinite without one.

        Examples:
            >>> Caps(max_s=60.0, max_usd=1.0, usd_per_hour=36.0).limit_s, Caps().limit_s
            (60.0, inf)
        """
        paid_s = math.inf
        if self.max_usd is not None and self.usd_per_hour:
            paid_s = 3600.0 * self.max_usd / self.usd_per_hour
        return min(paid_s, math.inf if self.max_s is None else self.max_s)

    def name(self) -> str:
        """The cap that binds, as the user wrote it.

        Examples:
            >>> Caps(max_s=60.0, max_usd=1.0, usd_per_hour=36.0).name(), Caps(max_usd=1.0, usd_per_hour=36.0).name()
            ('max_hours=1m00s', 'max_usd=$1.00')
        """
        if self.max_s is not None and self.max_s <= self.limit_s:
            return f"max_hours={format_seconds(self.max_s)}"
        return f"max_usd={format_usd(self.max_usd or 0.0)}"

    def why_stop(self, spent_s: float, needed_s: float, samples: int) -> str:
        """The sentence with which a run stops here; empty while it may go on.

        Args:
            spent_s: so far.
            needed_s: from `Pace.needed_s`.
            samples: where the run is.

        Examples:
            >>> Caps(max_s=60.0).why_stop(50.0, 9.0, 640), Caps(max_s=60.0).why_stop(58.0, 9.0, 640)[:46]
            ('', 'max_hours=1m00s: 58.0 s is spent at 640 sample')
        """
        if spent_s + needed_s <= self.limit_s:
            return ""
        return (
            f"{self.name()}: {self.cost(spent_s)} is spent at {samples:,} samples, and what comes before the next "
            f"look may take {self.cost(needed_s)}"
        )

    def leaves(self, needed_s: float) -> str:
        """The end of a sentence about what comes next; empty where nothing special does.

        Examples:
            >>> Caps(max_s=60.0).leaves(9.0), Caps(max_s=60.0).leaves(0.0)
            (', and what comes next may take 9.0 s', '')
        """
        return f", and what comes next may take {self.cost(needed_s)}" if needed_s else ""

    def cost(self, seconds: float) -> str:
        """A time with its price, where that is known.

        Examples:
            >>> Caps(usd_per_hour=36.0).cost(100), Caps().cost(100)
            ('1m40s ($1.00)', '1m40s')
        """
        if self.usd_per_hour is None:
            return format_seconds(seconds)
        return f"{format_seconds(seconds)} ({format_usd(self.usd_per_hour * seconds / 3600.0)})"


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long the parts of a run take, in seconds: the longest of late."""

    step_s: float
    evaluation_s: float
    checkpoint_s: float

    def needed_s(self, *, evaluates: bool, saves: bool, is_last: bool = False) -> float:
        """Seconds that must be left to go on until the next look: after it, one checkpoint and the closing follow.

        Args:
            evaluates: an evaluation comes first; its weights may be the best, so it may bring a checkpoint.
            saves: a checkpoint comes first.
            is_last: no step comes.

        Examples:
            >>> pace = Pace(step_s=2.0, evaluation_s=30.0, checkpoint_s=5.0)
            >>> pace.needed_s(evaluates=False, saves=False), pace.needed_s(evaluates=True, saves=True)
            (8.0, 48.0)
        """
        before_s = evaluates * (self.evaluation_s + self.checkpoint_s) + saves * self.checkpoint_s
        return before_s + (0.0 if is_last else self.step_s) + self.checkpoint_s + CLOSING_S


def first_save_s(num_bytes: int) -> float:
    """A cautious guess of how long a checkpoint takes before one was written.

    Source: a convention of this project, 100 MB/s and half a second; replaced by what is measured.

    Examples:
        >>> first_save_s(450_000_000)
        5.0
    """
    return FIRST_SAVE_S + num_bytes / SAVE_BYTES_PER_S
