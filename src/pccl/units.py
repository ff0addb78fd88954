"""Sizes, times and bandwidths: text with a unit on the outside, exact integers inside.

Bytes, picoseconds and bytes per second are plain integers that remember their unit, so ``Bytes(1024)`` is accepted
wherever ``"1KiB"`` is, while a bare ``1024`` is refused: a number without a unit is how factors of 1,000 get lost.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, TypeAlias, TypeVar

from pccl.errors import UnitError

__all__ = [
    "Bandwidth",
    "Bytes",
    "BytesPerSecond",
    "Picoseconds",
    "Size",
    "Time",
    "counted",
    "largest_unit",
    "parse",
    "size_text",
    "time_text",
    "truth",
    "whole",
]

Q = TypeVar("Q", bound="Quantity")

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIXES = _BINARY | {
    "": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
}  # fmt: skip
# Leaves room to add two quantities in an int64.
_LIMIT = 2**62
# From here on a bare number is more likely to count bytes than the largest unit.
_LARGE = 1000
_MOST_DIGITS = 50
# How truth values are written: by us, and in files of others.
YES_NO = {"yes": True, "no": False}
ANY_WORDS = YES_NO | {"true": True, "false": False, "1": True, "0": False}
_NUMBER_AND_UNIT = re.compile(
    r"\s*([0-9][0-9_]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([A-Za-zµμ/]*)\s*"
)


class Quantity(int):
    """An integer that knows its unit."""

    word: ClassVar[str]
    units: ClassVar[dict[str, int | Fraction]]
    suggestion: ClassVar[str]
    shown: ClassVar[tuple[str, ...]]

    def __str__(self) -> str:
        """Exact text that reads back as the same quantity: in the largest unit that takes at most six decimals.

        Of 1,024 and 1,000 the unit counts in whichever takes fewer.
        """
        # From the largest unit down, the first that is exact: 1.5GiB says more than 1536MiB.
        for units in self.shown:
            exact = []
            for unit in units.split():
                scaled = int(self) / Fraction(self.units[unit])
                # Rounded, and then compared with the exact value: what got lost is not shown.
                text = f"{float(scaled):.6f}".rstrip("0").rstrip(".")
                if scaled >= 1 and Fraction(text) == scaled:
                    exact.append((len(text.partition(".")[2]), text + unit))
            if exact:
                return min(exact, key=lambda found: found[0])[1]
        return f"{int(self)}{self.shown[-1]}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"


class Bytes(Quantity):
    """A size in bytes.

    Examples
    --------
    >>> str(Bytes(8 * 2**20)), str(Bytes(10**9)), str(Bytes(1000))
    ('8MiB', '1GB', '1kB')
    """

    word = "size"
    # nccl-tests counts 128M as 128 * 2**20, and so do we; 128MB is 128 * 10**6.
    units: ClassVar[dict[str, int | Fraction]] = {
        **{f"{prefix}B": factor for prefix, factor in _PREFIXES.items()},
        **{letter: _BINARY[f"{letter.upper()}i"] for letter in "KMGTPkmg"},
    }
    suggestion = "B, KiB or MiB"
    shown = ("TiB TB", "GiB GB", "MiB MB", "KiB kB", "B")


class Picoseconds(Quantity):
    """A time in picoseconds.

    Examples
    --------
    >>> str(Picoseconds(500_000)), str(Picoseconds(19_531_250))
    ('500ns', '19.53125us')
    """

    word = "time"
    units: ClassVar[dict[str, int | Fraction]] = {
        "ps": 1,
        "ns": 10**3,
        **dict.fromkeys(("us", "µs", "μs"), 10**6),
        "ms": 10**9,
        "s": 10**12,
    }
    suggestion = "ns or us"
    shown = ("s", "ms", "us", "ns", "ps")


class BytesPerSecond(Quantity):
    """A bandwidth in bytes per second.

    Examples
    --------
    >>> str(BytesPerSecond(50 * 10**9)), str(BytesPerSecond(50 * 2**30))
    ('50GB/s', '50GiB/s')
    """

    word = "bandwidth"
    units: ClassVar[dict[str, int | Fraction]] = {
        f"{prefix}{unit}": Fraction(factor, divisor)
        for prefix, factor in _PREFIXES.items()
        for unit, divisor in (("B/s", 1), ("bps", 8), ("b/s", 8))
    }
    suggestion = "GB/s, GiB/s or Gbps"
    shown = ("GB/s GiB/s", "MB/s MiB/s", "B/s")


Size: TypeAlias = str | Bytes
Time: TypeAlias = str | Picoseconds
Bandwidth: TypeAlias = str | BytesPerSecond


def parse(kind: type[Q], value: object, what: str | None = None) -> Q:
    """Read a quantity; ``what`` names it in the error message.

    Examples
    --------
    >>> parse(Bytes, "128M") == parse(Bytes, "128MiB") == 128 * 2**20
    True
    >>> parse(BytesPerSecond, "400Gbps")
    BytesPerSecond(50000000000)
    >>> parse(Picoseconds, "0.5us")
    Picoseconds(500000)
    >>> parse(Bytes, "128")
    Traceback (most recent call last):
        ...
    pccl.errors.UnitError: size '128' has no unit: write for example '128MiB' (units: B, KiB or MiB)
    """
    what = what or kind.word
    if isinstance(value, kind):
        # Quantities are integers that anybody can make, also negative ones.
        if not 0 <= int(value) < _LIMIT:
            raise UnitError(f"{what} {value!r} is {'negative' if value < 0 else 'too large'}")
        return value
    if not isinstance(value, str):
        # A quantity of another kind is no bare number, and a truth value is a slip of another sort.
        is_number = isinstance(value, int | float) and not isinstance(value, bool | Quantity)
        # By way of its text, because a large integer may not fit a float.
        if is_number and math.isfinite(float(str(value))):
            raise _no_unit(kind, str(value), repr(value), what)
        raise UnitError(f"{what} must be text with a unit ({kind.suggestion}), not {value!r}")
    match = _NUMBER_AND_UNIT.fullmatch(value)
    if match is None:
        why = "; it must not be negative" if value.strip().startswith("-") else ""
        raise UnitError(
            f"{what} {value!r} is not a number followed by a unit ({kind.suggestion}){why}"
        )
    number, unit = match.groups()
    if not unit:
        raise _no_unit(kind, number, repr(value), what)
    if unit not in kind.units:
        raise UnitError(f"{what} {value!r} has unknown unit {unit!r}; use {kind.suggestion}")
    # Looked at as text: '1e999999999B' must not become a number of a billion digits.
    exponent = abs(int(number.lower().partition("e")[2] or 0))
    if max(len(number), exponent) > _MOST_DIGITS:
        # Not computed: it might take for ever.
        raise UnitError(f"{what} {value[:20]!r}… is too large")
    # Exact, since 0.1 is no binary fraction, and 0.1us is a whole number of picoseconds.
    exact = Fraction(number.replace("_", "")) * kind.units[unit]
    if exact.denominator != 1:
        raise UnitError(f"{what} {value!r} is not a whole number of {kind.__name__.lower()}")
    if exact >= _LIMIT:
        raise UnitError(f"{what} {value!r} is too large")
    return kind(exact.numerator)


def _no_unit(kind: type[Quantity], number: str, shown: str, what: str) -> UnitError:
    # The last unit of the suggestion is the most usual one.
    example = number + kind.suggestion.split()[-1]
    amount = float(number)
    if amount >= _LARGE and amount.is_integer():
        example = str(kind(amount))
    return UnitError(
        f"{what} {shown} has no unit: write for example '{example}' (units: {kind.suggestion})"
    )


def whole(value: object) -> int | None:
    """The value as an integer of Python if it is an integer of any kind, but not a truth value; otherwise None."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def truth(value: object, words: Mapping[str, bool] | None = None) -> bool | None:
    """The value as a truth value of Python if it is one of any kind, or one of these words or numbers; otherwise None.

    Never ask whether such a value is true: "no" is.

    Examples
    --------
    >>> truth(True), truth("no"), truth("No", {"yes": True, "no": False})
    (True, None, False)
    """
    if isinstance(value, bool):
        return value
    # Of NumPy, which is not imported for that.
    if getattr(value, "dtype", None) == "bool" and getattr(value, "shape", None) == ():
        return bool(value)
    written = isinstance(value, str) or whole(value) is not None
    return (words or {}).get(str(value).strip().lower()) if written else None


def time_text(time: int) -> str:
    """A time in picoseconds, rounded for people.

    Examples
    --------
    >>> time_text(19_531_250), time_text(0)
    ('19.53 us', '0 us')
    """
    if not time:
        return "0 us"
    factor, unit = largest_unit(Picoseconds, time)
    return f"{int(time)} ps" if factor == 1 else f"{time / factor:,.2f} {unit}"


def size_text(size: int) -> str:
    """A number of bytes, rounded for people in units of 1,024.

    Examples
    --------
    >>> size_text(3_900), size_text(12)
    ('3.8 KiB', '12B')
    """
    factor, unit = largest_unit(Bytes, size)
    return str(Bytes(size)) if factor == 1 else f"{size / factor:,.1f} {unit}"


def counted(number: int, word: str) -> str:
    """A number and what it counts, which is one thing or several.

    Examples
    --------
    >>> counted(1, "NPU"), counted(2_000, "link"), counted(0, "switch")
    ('1 NPU', '2,000 links', '0 switches')
    """
    ending = "es" if word.endswith(("ch", "x")) else "s"
    return f"{number:,} {word}{'' if number == 1 else ending}"


def largest_unit(kind: type[Quantity], amount: int) -> tuple[int, str]:
    """Return the largest unit that an amount is at least one of, otherwise the smallest: its factor and its name.

    Examples
    --------
    >>> largest_unit(Picoseconds, 19_531_250), largest_unit(Bytes, 0)
    ((1000000, 'us'), (1, 'B'))
    """
    for units in kind.shown:
        unit = units.split()[0]
        factor = int(kind.units[unit])
        if amount >= factor:
            break
    return factor, unit
