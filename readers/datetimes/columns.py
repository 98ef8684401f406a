"""The fast path for patterns of fixed widths: reads all texts of one length at a time.

The results equal those of ``fields`` for the same text. Other texts, such as those with signs or missing
digits, are left to ``fields``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from flip27_source.readers.datetimes.calendars import DAY_US
from flip27_source.readers.datetimes.patterns import (
    CLOCK_HALF_HOUR,
    DAY,
    HALF,
    HOUR,
    MINUTE,
    MONTH,
    MONTHS,
    NANO,
    OFFSET,
    SECOND,
    YEAR,
    DateTimePattern,
    Element,
    Fraction,
    Literal,
    Name,
    Number,
    Offset,
    Section,
)
from flip27_source.readers.scalars.text_bytes import Bools, Bytes, Int64s, bytes_of

_MOST_LENGTHS = 32
_MOST_SHAPES = 32
_YEAR_DIGITS, _LETTERS_OF_MONTH = 4, 3
_LATEST_OFFSET_HOUR = 17
_ZERO, _SMALL = ord("0"), 0x20
_OFFSET_WIDTHS = {"+HHmm": (3, 5), "+HHMM": (5,), "+HH:MM": (6,)}
_DIGITS = frozenset("0123456789")
_MONTH_CODES = tuple(int.from_bytes(name[:3].lower().encode(), "big") for name in MONTHS)
_DAYS_BEFORE = np.array([0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365], np.int64)
_READ_FIELDS = frozenset((YEAR, MONTH, DAY, HOUR, CLOCK_HALF_HOUR, HALF, MINUTE, SECOND))


@dataclass(frozen=True, slots=True)
class _Part:
    """Consecutive characters of a shape: the digits or the name of a field, or a literal without a field.

    Attributes:
        width: the number of characters; 0 for a fraction, which takes the rest. text: a literal, in lower
            case.
    """

    field: str | None
    width: int
    text: str = ""
    base: int = 0


_Shape: TypeAlias = "tuple[_Part, ...]"


@dataclass(frozen=True, slots=True)
class LocalTimes:
    """The values of the texts that could be read.

    Attributes:
        micros: microseconds since the epoch; in local time if the text has no offset.
        is_read: true for texts that were read. has_offset: true if ``micros`` is an instant.
    """

    micros: Int64s
    is_read: Bools
    has_offset: Bools


def local_times(strings: pa.Array, pattern: DateTimePattern) -> LocalTimes:
    """Read the texts that have one of the shapes of ``pattern``; nulls are not read."""
    count = len(strings)
    times = LocalTimes(np.zeros(count, np.int64), np.zeros(count, np.bool_), np.zeros(count, np.bool_))
    shapes = _shapes(pattern)
    if not shapes or strings.null_count == count:
        return times
    text_bytes = bytes_of(strings)
    content, bounds, lengths = text_bytes.content, text_bytes.bounds, text_bytes.lengths
    if strings.null_count:
        lengths[np.asarray(strings.is_null())] = 0
    present = np.flatnonzero(np.bincount(np.minimum(lengths, 64))[:64])
    for length in filter(None, present[:_MOST_LENGTHS].tolist()):
        rows = np.flatnonzero(lengths == length)
        for shape in shapes:
            laid_out = _laid_out(shape, length)
            if laid_out is not None and len(rows):
                _read_shape(laid_out, content, bounds[rows].astype(np.int64), rows, times)
                rows = rows[~times.is_read[rows]]
    return times


def _laid_out(shape: _Shape, length: int) -> _Shape | None:
    """The shape with its fraction's width in texts of ``length``; None if no width fits."""
    left = length - sum(part.width for part in shape)
    fraction = next((part for part in shape if part.field == NANO), None)
    if fraction is None:
        return shape if not left else None
    if not 1 <= left <= fraction.base:
        return None
    return tuple(_Part(NANO, left) if part is fraction else part for part in shape)


def _read_shape(shape: _Shape, texts: Bytes, starts: Int64s, rows: Int64s, times: LocalTimes) -> None:
    good = np.ones(len(rows), np.bool_)
    fields: dict[str, Int64s] = {}
    at = starts
    for part in shape:
        if part.field is None:
            for char in part.text.encode():
                characters = texts[at]
                good &= (characters | _SMALL if chr(char).isalpha() else characters) == char
                at = at + 1
            continue
        number = _reader(part)(texts, at, part.width, good) + part.base
        if part.field == NANO:
            number = number * 10**6 // 10**part.width
        fields[part.field] = number
        at = at + part.width
    micros = _micros(fields, good, len(rows))
    if OFFSET in fields:
        micros -= fields[OFFSET] * 1_000_000
    chosen = rows[good]
    times.micros[chosen] = micros[good]
    times.is_read[chosen] = True
    times.has_offset[chosen] = OFFSET in fields


def _reader(part: _Part) -> Callable[[Bytes, Int64s, int, Bools], Int64s]:
    if part.field == OFFSET:
        return _offset
    if part.field == HALF:
        return _half
    return _month_name if (part.field, part.width) == (MONTH, _LETTERS_OF_MONTH) else _number


def _number(texts: Bytes, at: Int64s, width: int, good: Bools) -> Int64s:
    number = np.zeros(len(at), np.int64)
    for place in range(width):
        digit = texts[at + place] - np.uint8(_ZERO)
        good &= digit <= 9
        number = number * 10 + digit
    return number


def _month_name(texts: Bytes, at: Int64s, width: int, good: Bools) -> Int64s:
    code = np.zeros(len(at), np.int64)
    for place in range(width):
        code = code << 8 | (texts[at + place] | _SMALL)
    month = np.zeros(len(at), np.int64)
    for number, wanted in enumerate(_MONTH_CODES, 1):
        month[code == wanted] = number
    good &= month > 0
    return month


def _half(texts: Bytes, at: Int64s, _: int, good: Bools) -> Int64s:
    first = texts[at] | _SMALL
    half: Int64s = (first == ord("p")).astype(np.int64)
    good &= ((first == ord("a")) | (half == 1)) & (texts[at + 1] | _SMALL == ord("m"))
    return half


def _offset(texts: Bytes, at: Int64s, width: int, good: Bools) -> Int64s:
    if width == 1:
        good &= texts[at] | _SMALL == ord("z")
        return np.zeros(len(at), np.int64)
    sign = texts[at]
    good &= (sign == ord("+")) | (sign == ord("-"))
    hours = _number(texts, at + 1, 2, good)
    if width == len("+HH:MM"):
        good &= texts[at + 3] == ord(":")
    minutes = _number(texts, at + width - 2, 2, good) if width > len("+HH") else 0 * hours
    good &= (hours <= _LATEST_OFFSET_HOUR) & (minutes < 60)
    seconds = hours * 3600 + minutes * 60
    signed: Int64s = np.where(sign == ord("-"), -seconds, seconds)
    return signed


def _micros(fields: dict[str, Int64s], good: Bools, count: int) -> Int64s:
    year, month, day = (fields.get(field, np.ones(count, np.int64)) for field in (YEAR, MONTH, DAY))
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    good &= (month >= 1) & (month <= 12)
    month = np.clip(month, 1, 12)
    in_month = _DAYS_BEFORE[month + 1] - _DAYS_BEFORE[month] + ((month == 2) & leap)
    good &= (day >= 1) & (day <= in_month)
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400 - 719_162
    days += _DAYS_BEFORE[month] + ((month > 2) & leap) + day - 1
    nothing = np.zeros(count, np.int64)
    hour, minute, second = (fields.get(field, nothing) for field in (HOUR, MINUTE, SECOND))
    good &= (hour < 24) & (minute < 60) & (second < 60)
    if CLOCK_HALF_HOUR in fields:
        clock = fields[CLOCK_HALF_HOUR]
        good &= (clock >= 1) & (clock <= 12)
        hour = clock % 12 + fields.get(HALF, nothing) * 12
    return days * DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + fields.get(NANO, nothing)


@lru_cache(maxsize=64)
def _shapes(pattern: DateTimePattern) -> tuple[_Shape, ...]:
    """All fixed-width forms of texts of the pattern; empty if the pattern does not suit this path."""
    try:
        shapes = [_shape(parts) for parts in _expanded(pattern.elements)]
    except _NotFixedError:
        return ()
    return tuple(shapes) if len(shapes) <= _MOST_SHAPES else ()


class _NotFixedError(Exception):
    """The elements cannot be distinguished by their widths."""


def _expanded(elements: tuple[Element, ...]) -> list[list[Element | _Part]]:
    """All variants of the elements, with and without the content of each section."""
    if not elements:
        return [[]]
    first, rest = elements[0], _expanded(elements[1:])
    if not isinstance(first, Section):
        return [[one, *more] for one in _alternatives(first) for more in rest]
    inside = _expanded(first.elements)
    if len(rest) * len(inside) > _MOST_SHAPES:
        raise _NotFixedError
    starts = {char for parts in inside for char in _starts(parts)}
    if any(starts & _starts(parts) for parts in rest):
        raise _NotFixedError  # texts with and without the section may start with the same character
    return [[*parts, *more] for parts in inside for more in rest] + rest


def _alternatives(element: Element) -> list[Element | _Part]:
    """The element once for each of its possible widths."""
    if isinstance(element, Number) and element.least == 1 and element.field != YEAR:
        return [_Part(element.field, 1), _Part(element.field, 2)]
    if not isinstance(element, Offset):
        return [element]
    widths = _OFFSET_WIDTHS.get(element.form)
    if widths is None or element.utc not in ("Z", "+0000", "+00:00"):
        raise _NotFixedError
    return [_Part(OFFSET, width) for width in (1, *widths) if width > 1 or element.utc == "Z"]


def _starts(parts: list[Element | _Part]) -> frozenset[str]:
    if not parts:
        return frozenset()
    first = parts[0]
    if isinstance(first, Literal):
        return frozenset((first.char.lower(), first.char.upper()))
    if isinstance(first, _Part) and first.field == OFFSET:
        return frozenset("zZ" if first.width == 1 else "+-")
    if _is_digits(first):
        return _DIGITS | frozenset("+-")
    raise _NotFixedError


def _shape(parts: list[Element | _Part]) -> _Shape:
    """The parts with their widths."""
    shape = []
    for number, part in enumerate(parts):
        following = parts[number + 1] if number + 1 < len(parts) else None
        if isinstance(part, _Part) and part.field != OFFSET and _is_digits(following):
            raise _NotFixedError
        shape.append(part if isinstance(part, _Part) else _part(part, following))
    fields = [part.field for part in shape if part.field]
    if len(set(fields)) < len(fields) or not set(fields) <= _READ_FIELDS | {NANO, OFFSET}:
        raise _NotFixedError
    if YEAR not in fields or (HOUR in fields and {HALF, CLOCK_HALF_HOUR} & set(fields)):
        raise _NotFixedError
    if HALF in fields and CLOCK_HALF_HOUR not in fields:
        raise _NotFixedError
    _check_after_year(parts)
    return tuple(shape)


def _part(element: Element, following: Element | _Part | None) -> _Part:
    match element:
        case Literal(char) if char.isascii():
            return _Part(None, 1, char.lower())
        case Number(field, least, most, base=base) if element.is_fixed and least == most == 2:
            return _Part(field, 2, base=base)
        case Number(field, least) if field == YEAR and least == _YEAR_DIGITS:
            return _Part(YEAR, _YEAR_DIGITS)
        case Fraction(most) if not _is_digits(following):
            return _Part(NANO, 0, base=most)
        case Name(field, names) if field == HALF or len(names[0]) == _LETTERS_OF_MONTH:
            return _Part(field, len(names[0]))
    raise _NotFixedError


def _is_digits(part: Element | _Part | None) -> bool:
    """True if the part starts with a digit."""
    if isinstance(part, Literal):
        return part.char in _DIGITS
    return isinstance(part, Number | Fraction) or (isinstance(part, _Part) and part.field != OFFSET)


def _check_after_year(parts: list[Element | _Part]) -> None:
    """Refuse a digit after a year and its adjacent numbers, because the year could take the digit."""
    for number, part in enumerate(parts):
        if not isinstance(part, Number) or part.field != YEAR or part.is_fixed:
            continue
        taken = part.after
        for following in parts[number + 1 :]:
            if isinstance(following, Number) and taken:
                taken -= following.most
                continue
            if _is_digits(following):
                raise _NotFixedError
            break
