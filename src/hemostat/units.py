"""Text to number and back for bytes, seconds, counts and dollars; no other file parses or prints a unit."""

from __future__ import annotations

import math
import re

from hemostat.errors import FieldError

_NUMBER = re.compile(r"\s*([0-9][0-9_]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([^\s]*)\s*")
_BYTES = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("KMGTP", start=1)
    for suffix, base in (("iB", 1024), ("B", 1000))
}
_BYTES["kB"] = 1000
_SECONDS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_COUNTS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_USD = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9} | {"USD": 1.0, "usd": 1.0}
_TIMES = ((1e-6, " us"), (1e-3, " ms"), (1.0, " s"), (60.0, " min"), (3600.0, " h"), (86400.0, " d"))
_WHOLE = 1e-9  # a count is whole where floats are as near as this, relative to it


def _split(field: str, text: str, example: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    if match is None and _NUMBER.fullmatch(text.strip().removeprefix("-")):
        raise FieldError(field, text, "must be a number of 0 or more", f"Write it like {example}.")
    if match is None:
        raise FieldError(field, text, "must be a number with a unit", f"Write it like {example}.")
    number = float(match[1].replace("_", ""))
    if math.isinf(number):
        raise FieldError(field, text, "is too large a number", f"Write it like {example}.")
    return number, match[2]


def _scaled(field: str, text: str, table: dict[str, float], example: str) -> float:
    number, unit = _split(field, text, example)
    if unit not in table:
        known = ", ".join(name for name in table if name)
        raise FieldError(field, text, f"unit {unit!r} is not one of {known}", f"Write it like {example}.")
    return number * table[unit]


def parse_bytes(text: str, field: str = "bytes") -> int:
    """Read a size; GiB is 2**30 and GB is 10**9.

    Raises:
        FieldError: no number, or an unknown unit.

    Examples:
        >>> parse_bytes("80GiB"), parse_bytes("80 GB"), parse_bytes("512")
        (85899345920, 80000000000, 512)
    """
    return round(_scaled(field, text, {k: float(v) for k, v in _BYTES.items()}, '"80GiB"'))


def parse_seconds(text: str, field: str = "seconds") -> float:
    """Read a duration in seconds; "1h30m" is allowed.

    Raises:
        FieldError: no number, or an unknown unit.

    Examples:
        >>> parse_seconds("4h"), parse_seconds("1h30m"), parse_seconds("90")
        (14400.0, 5400.0, 90.0)
    """
    parts = re.findall(r"[0-9._]+\s*[a-z]*", text)
    if not parts or "".join(parts).replace(" ", "") != text.replace(" ", ""):
        raise FieldError(field, text, "must be a duration", 'Write it like "4h", "1h30m" or "90s".')
    return sum(_scaled(field, part, _SECONDS, '"4h"') for part in parts)


def parse_usd(text: str, field: str = "usd") -> float:
    """Read an amount of US dollars.

    Raises:
        FieldError: not an amount.

    Examples:
        >>> parse_usd("$40"), parse_usd("12.5 USD"), parse_usd("1,234.50"), parse_usd("1.5k")
        (40.0, 12.5, 1234.5, 1500.0)
    """
    stripped = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.strip().removeprefix("$"))  # "4,50" is not 450
    number, unit = _split(field, stripped, '"$40"')
    if unit not in _USD:
        raise FieldError(field, text, "is not an amount of US dollars", 'Write it like "$40" or "$1.5k".')
    return number * _USD[unit]


def parse_count(text: str, field: str = "count") -> int:
    """Read a count of samples, tokens or parameters; B means 10**9.

    Raises:
        FieldError: no number, no whole one, or an unknown suffix.

    Examples:
        >>> parse_count("320M"), parse_count("1.5k"), parse_count("4Mtok")
        (320000000, 1500, 4000000)
    """
    count = _scaled(field, re.sub(r"tok(ens)?$", "", text.strip()), _COUNTS, '"320M"')
    if abs(count - round(count)) > _WHOLE * count:
        raise FieldError(field, text, "is no whole number", 'Write it like "320M" or "1024".')
    return round(count)


def format_bytes(num_bytes: float) -> str:
    """Print a size with binary units.

    Examples:
        >>> format_bytes(80 * 2**30), format_bytes(1536), format_bytes(12)
        ('80.0 GiB', '1.5 KiB', '12 B')
    """
    if abs(num_bytes) < 1024:
        return f"{num_bytes:.0f} B"
    for power, unit in enumerate(("KiB", "MiB", "GiB"), start=1):
        if abs(num_bytes) < 1023.95 * 1024**power:
            return f"{num_bytes / 1024**power:.1f} {unit}"
    return f"{num_bytes / 1024**4:.1f} TiB"


def format_seconds(seconds: float) -> str:
    """Print a duration with its two largest units.

    Examples:
        >>> [format_seconds(s) for s in (0.0021, 3.26, 75, 5400, 200_000)]
        ['2.1 ms', '3.3 s', '1m15s', '1h30m', '2d07h']
    """
    for scale, unit in ((1e-6, "us"), (1e-3, "ms")):
        if 0 < seconds < 999.95 * scale:
            return f"{seconds / scale:.1f} {unit}"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    total = round(seconds)
    if total < 3600:
        return f"{total // 60}m{total % 60:02d}s"
    if total < 86400:
        return f"{total // 3600}h{total % 3600 // 60:02d}m"
    return f"{total // 86400}d{total % 86400 // 3600:02d}h"


def format_usd(usd: float) -> str:
    """Print dollars; small amounts keep two significant digits.

    Examples:
        >>> format_usd(1234.5), format_usd(0.0042), format_usd(0)
        ('$1,234.50', '$0.0042', '$0.00')
    """
    return f"${usd:.2g}" if 0 < abs(usd) < 0.095 else f"${usd:,.2f}"


def format_count(count: float) -> str:
    """Print a count with a decimal suffix, three significant digits.

    Examples:
        >>> [format_count(n) for n in (12, 1500, 320_000_000, 1.2e12)]
        ['12', '1.5k', '320M', '1.2T']
    """
    for limit, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= (limit if limit == 1e3 else 0.9995 * limit):  # 999,999 is 1M, not 1e+03k
            return f"{count / limit:.3g}{suffix}"
    return f"{count:.4g}"


def format_number(value: float) -> str:
    """Print a hyper-parameter with four significant digits and no trailing zeros.

    Examples:
        >>> [format_number(x) for x in (0.0001, 0.1, 1024.0, 2.82842e-3, 1.25e-7)]
        ['0.0001', '0.1', '1024', '0.002828', '1.25e-07']
    """
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.10g}"


def format_plus_minus(value: float, error: float) -> str:
    """A figure with its standard error, with two digits of the error.

    Examples:
        >>> format_plus_minus(0.97222, 0.00867), format_plus_minus(1234.5, 250.0), format_plus_minus(1.0, 0.0)
        ('0.9722 ± 0.0087', '1234 ± 250', '1 ± 0')
    """
    digits = max(0, 1 - math.floor(math.log10(error))) if 0 < error < math.inf else 0
    if digits > 7 or not 0 < error < math.inf:
        return f"{value:.6g} ± {error:.2g}"
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def format_within(value: float, error: float, kind: str) -> str:
    """A figure with its error bar, in one unit, and no digit that the error leaves open.

    Of an error that begins with 100 to 354 two digits are kept, of a larger one a single digit.

    Args:
        value: a duration in seconds, dollars, or a count.
        error: half of the error bar, in the same unit.
        kind: "s", "usd" or "count".

    Source: Particle Data Group, Review of Particle Physics 2024, introduction, section 5.3, for the digits.

    Examples:
        >>> format_within(2_167_734.54, 260_128, "usd"), format_within(67.2, 8.1, "usd")
        ('$2.17M ±0.26M', '$67 ±8')
        >>> format_within(11_000, 1_318, "s"), format_within(1.83, 0.22, "s"), format_within(581_000, 70_000, "count")
        ('3.1 h ±0.4', '1.83 s ±0.22', '580k ±70k')
    """
    scale, unit = _scale(abs(value), kind)
    mark = "$" if kind == "usd" else ""
    decimals = error_decimals(error / scale) if 0 < error < math.inf else 2
    digits = max(0, decimals)
    repeated = "" if kind == "s" else unit
    return (
        f"{mark}{round(value / scale, decimals):,.{digits}f}{unit} "
        f"±{round(error / scale, decimals):,.{digits}f}{repeated}"
    )


def error_decimals(error: float) -> int:
    """Decimals that a figure with this error is worth; below 0 for tens and hundreds.

    Examples:
        >>> error_decimals(0.12), error_decimals(0.5), error_decimals(260.1)
        (2, 1, -1)
    """
    power = math.floor(math.log10(error))
    return (1 if round(error / 10**power, 2) < 3.55 else 0) - power


def format_usd_range(low_usd: float, high_usd: float) -> str:
    """From so many dollars to so many, with two digits each.

    Examples:
        >>> format_usd_range(52_340, 191_200), format_usd_range(3.21, 9.8)
        ('$52k to $190k', '$3.2 to $9.8')
    """
    said = []
    for usd in (low_usd, high_usd):
        scale, unit = _scale(usd, "usd")
        decimals = 1 - math.floor(math.log10(usd / scale)) if usd > 0 else 0
        said.append(f"${round(usd / scale, decimals):,.{max(0, decimals)}f}{unit}")
    return " to ".join(said)


def _scale(value: float, kind: str) -> tuple[float, str]:
    """The unit in which a figure is printed: its size, and its name behind the figure."""
    if kind == "s":  # two of the next unit are needed, so that one figure after the point says enough
        fitting = [pair for pair in _TIMES if value >= (pair[0] if pair[0] <= 1 else 2 * pair[0])]
        return fitting[-1] if fitting else _TIMES[0]
    if kind == "usd" and value < 1e4:
        return 1.0, ""
    scales = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
    return next(((size, suffix) for size, suffix in scales if value >= size), (1.0, ""))
