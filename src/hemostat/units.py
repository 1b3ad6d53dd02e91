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


def _split(field: str, text: str, example: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
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
        >>> parse_usd("$40"), parse_usd("12.5 USD"), parse_usd("1,234.50")
        (40.0, 12.5, 1234.5)
    """
    stripped = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.strip().removeprefix("$"))  # "4,50" is not 450
    number, unit = _split(field, stripped, '"$40"')
    if unit not in ("", "USD", "usd"):
        raise FieldError(field, text, "is not an amount of US dollars", 'Write it like "$40".')
    return number


def parse_count(text: str, field: str = "count") -> int:
    """Read a count of samples, tokens or parameters; B means 10**9.

    Raises:
        FieldError: no number, or an unknown suffix.

    Examples:
        >>> parse_count("320M"), parse_count("1.5k"), parse_count("4Mtok")
        (320000000, 1500, 4000000)
    """
    return round(_scaled(field, re.sub(r"tok(ens)?$", "", text.strip()), _COUNTS, '"320M"'))


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
