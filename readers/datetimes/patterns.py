"""Patterns of dates and times, such as ``dd/MM/yyyy HH:mm``, and the fields of a text by a pattern.

The letters and their meaning are those of Java's DateTimeFormatter in Spark's set-up for reading: names
in any case, fractions up to the pattern's length, and only ASCII digits. ``fields`` resolves the fields of
a text to a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

Fields: TypeAlias = "dict[str, int]"

YEAR, MONTH, DAY, DAY_OF_YEAR = "year", "month", "day", "day of year"
HOUR, CLOCK_HOUR, HALF_HOUR, CLOCK_HALF_HOUR = "hour", "hour 1-24", "hour 0-11", "hour 1-12"
HALF, MINUTE, SECOND, NANO, OFFSET = "half of the day", "minute", "second", "nanosecond", "offset"

LETTERS = "y M L d D H k h K a m s S X x Z"
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip

_MOST_DIGITS = 19
_DAYS_OF_YEAR_DIGITS = 3
_MOST_FRACTION_DIGITS = 9
_MOST_YEAR_LETTERS = 6
_CENTURY = 2000
_LAST_HOUR, _LAST_MINUTE = 23, 59
_TWO_DIGITS: Mapping[str, str] = {
    "d": DAY, "H": HOUR, "k": CLOCK_HOUR, "K": HALF_HOUR, "h": CLOCK_HALF_HOUR, "m": MINUTE, "s": SECOND,
}  # fmt: skip
_PIECES = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)
_OFFSETS = {
    "X": ("+HHmm", "+HHMM", "+HH:MM", "+HHMMss", "+HH:MM:ss"),
    "x": ("+HHmm", "+HHMM", "+HH:MM", "+HHMMss", "+HH:MM:ss"),
    "Z": ("+HHMM", "+HHMM", "+HHMM", "", "+HH:MM:ss"),
}
_UTC_OFFSETS = {
    "X": ("Z", "Z", "Z", "Z", "Z"),
    "x": ("+00", "+0000", "+00:00", "+0000", "+00:00"),
    "Z": ("+0000", "+0000", "+0000", "", "Z"),
}


class UnreadableError(Exception):
    """The text does not match the pattern, even without its optional sections."""


class _MismatchError(UnreadableError):
    """The text does not match this part of the pattern, which may be optional."""


@dataclass(frozen=True, slots=True)
class Literal:
    """One character; letters match in any case."""

    char: str

    def read(self, text: str, at: int, fields: Fields) -> int:
        """The position after this element."""
        one, other = self.char, text[at : at + 1]
        if not (one == other or one.upper() == other.upper() or one.lower() == other.lower()):
            raise _MismatchError
        return at + 1


@dataclass(frozen=True, slots=True)
class Number:
    """A number of ``least`` to ``most`` digits.

    Attributes:
        grows: more than ``least`` digits need a plus sign. signed: a minus sign is allowed.
        after: the number of digits that belong to the adjacent numbers after this one.
        base: an offset that is added to the number.
    """

    field: str
    least: int
    most: int
    signed: bool = False
    grows: bool = False
    after: int = 0
    base: int = 0

    @property
    def is_fixed(self) -> bool:
        """True if the number always has the same number of digits."""
        return self.least == self.most and not self.signed

    def read(self, text: str, at: int, fields: Fields) -> int:
        sign = text[at : at + 1]
        negative = sign == "-" and self.signed
        positive = sign == "+" and self.grows
        start = at + (negative or positive)
        end = _end_of_digits(text, start, self.most + self.after)
        if end - start < self.least:
            raise _MismatchError
        if self.after:
            end = start + max(self.least, end - start - self.after)
        number, digits = int(text[start:end]), end - start
        if negative and number == 0:
            raise _MismatchError
        if self.grows and not negative and positive != (digits > self.least):
            raise _MismatchError
        return _stored(fields, self.field, self.base + (-number if negative else number), end)


@dataclass(frozen=True, slots=True)
class Fraction:
    """The digits after the decimal point of a second, one to ``most``."""

    most: int

    def read(self, text: str, at: int, fields: Fields) -> int:
        end = _end_of_digits(text, at, self.most)
        if end == at:
            raise _MismatchError
        return _stored(fields, NANO, int(text[at:end].ljust(_MOST_FRACTION_DIGITS, "0")), end)


@dataclass(frozen=True, slots=True)
class Name:
    """One of several names; its value is its index plus ``first``."""

    field: str
    names: tuple[str, ...]
    first: int

    def read(self, text: str, at: int, fields: Fields) -> int:
        for number, name in enumerate(self.names, self.first):
            if text[at : at + len(name)].lower() == name.lower():
                return _stored(fields, self.field, number, at + len(name))
        raise _MismatchError


@dataclass(frozen=True, slots=True)
class Offset:
    """The offset from UTC: a sign and digits as in ``form`` (lower-case parts are optional), or ``utc``."""

    form: str
    utc: str

    def read(self, text: str, at: int, fields: Fields) -> int:
        if text[at : at + len(self.utc)].lower() == self.utc.lower():
            return _stored(fields, OFFSET, 0, at + len(self.utc))
        match = _offset_form(self.form).match(text, at)
        if match is None:
            raise _MismatchError
        hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
        if hours > _LAST_HOUR:
            raise UnreadableError
        total = hours * 3600 + minutes * 60 + seconds
        return _stored(fields, OFFSET, -total if match[1] == "-" else total, match.end())


@dataclass(frozen=True, slots=True)
class Section:
    """An optional part in brackets."""

    elements: tuple[Element, ...]

    def read(self, text: str, at: int, fields: Fields) -> int:
        """The position after the part, or ``at`` if the part is missing."""
        section_fields = dict(fields)
        try:
            end = _read_all(self.elements, text, at, section_fields)
        except _MismatchError:
            return at
        fields.update(section_fields)
        return end


Element: TypeAlias = Literal | Number | Fraction | Name | Offset | Section


@dataclass(frozen=True, slots=True)
class DateTimePattern:
    """A pattern as its elements."""

    text: str
    elements: tuple[Element, ...]

    def fields(self, text: str) -> Fields:
        """The fields of ``text``.

        Raises:
            UnreadableError: the text does not match the pattern.
        """
        values: Fields = {}
        if not text or _read_all(self.elements, text, 0, values) != len(text):
            raise UnreadableError
        return values


@lru_cache(maxsize=64)
def datetime_pattern(pattern: str) -> DateTimePattern:
    levels: list[list[Element]] = [[]]
    for kind, text in _pieces(pattern):
        if kind == "literal":
            levels[-1] += map(Literal, text)
        elif text == "[":
            levels.append([])
        elif text == "]":
            if len(levels) == 1:
                raise ValueError("a closing bracket has no opening bracket")
            section = Section(tuple(_with_neighbours(levels.pop())))
            levels[-1].append(section)
        else:
            levels[-1].append(_element(text))
    while len(levels) > 1:
        section = Section(tuple(_with_neighbours(levels.pop())))
        levels[-1].append(section)
    return DateTimePattern(pattern, tuple(_with_neighbours(levels[0])))


def _pieces(pattern: str) -> list[tuple[str, str]]:
    """The pattern as literals, runs of one letter, and brackets."""
    if not pattern:
        raise ValueError("a pattern such as dd/MM/yyyy is expected")
    if pattern.count("'") % 2 or pattern.endswith("''"):
        raise ValueError("a quote is not closed; two quotes mean one quote character, but not at the end")
    pieces = []
    for match in _PIECES.finditer(pattern):
        quoted, letter, other = match.groups()
        if quoted is not None:
            pieces.append(("literal", quoted.replace("''", "'") or "'"))
        elif letter is not None:
            pieces.append(("letters", match[0]))
        elif other in "[]":
            pieces.append(("bracket", other))
        elif other in "{}#":
            raise ValueError(f"{other} is reserved: put it in quotes")
        else:
            pieces.append(("literal", other))
    return pieces


def _element(letters: str) -> Element:
    letter, count = letters[0], len(letters)
    element: Element | None = None
    if letter == "y" and count <= _MOST_YEAR_LETTERS:
        element = Number(YEAR, 2, 2, base=_CENTURY) if count == 2 else _year(count)
    elif letter in "ML" and count <= 2:
        element = _number(MONTH, count)
    elif letter == "M" and count <= 4:
        names = MONTHS if count == 4 else tuple(name[:3] for name in MONTHS)
        element = Name(MONTH, names, 1)
    elif letter in _TWO_DIGITS and count <= 2:
        element = _number(_TWO_DIGITS[letter], count)
    elif letter == "D" and count <= _DAYS_OF_YEAR_DIGITS:
        element = _number(DAY_OF_YEAR, 1) if count == 1 else Number(DAY_OF_YEAR, count, _DAYS_OF_YEAR_DIGITS)
    elif letter == "S" and count <= _MOST_FRACTION_DIGITS:
        element = Fraction(count)
    elif letters == "a":
        element = Name(HALF, ("AM", "PM"), 0)
    elif letter in _OFFSETS and count <= len(_OFFSETS[letter]) and _OFFSETS[letter][count - 1]:
        element = Offset(_OFFSETS[letter][count - 1], _UTC_OFFSETS[letter][count - 1])
    if element is None:
        raise ValueError(f"{letters} is not supported in a pattern; supported letters: {LETTERS}")
    return element


def _year(count: int) -> Number:
    return Number(YEAR, count, _MOST_DIGITS, signed=True, grows=count > 3)


def _number(field: str, count: int) -> Number:
    return Number(field, 2, 2) if count == 2 else Number(field, 1, _MOST_DIGITS, signed=True)


def _with_neighbours(elements: list[Element]) -> list[Element]:
    """Set in the first number of each run how many digits the other numbers take."""
    result: list[Element] = []
    for _, group in groupby(elements, _joins_a_run):
        run = list(group)
        result += _run_with_neighbours(run) if _joins_a_run(run[0]) else run
    return result


def _joins_a_run(element: Element) -> bool:
    return isinstance(element, Number) or element == Fraction(1)


def _run_with_neighbours(run: list[Element]) -> list[Element]:
    result: list[Element] = []
    first = 0
    for number, element in enumerate(run):
        result.append(element)
        is_fixed = not isinstance(element, Number) or element.is_fixed
        base = result[first]
        if number > first and isinstance(base, Number):
            width = element.most if isinstance(element, Number) else 1
            result[first] = replace(base, after=base.after + width if is_fixed else 0)
        if not is_fixed:
            first = number
    return result


def _read_all(elements: tuple[Element, ...], text: str, at: int, fields: Fields) -> int:
    for element in elements:
        at = element.read(text, at, fields)
    return at


def _stored(fields: Fields, field: str, value: int, end: int) -> int:
    if fields.setdefault(field, value) != value:
        raise _MismatchError
    return end


def _end_of_digits(text: str, start: int, most: int) -> int:
    end = start
    limit = min(len(text), start + most)
    while end < limit and "0" <= text[end] <= "9":
        end += 1
    return end


@lru_cache(maxsize=16)
def _offset_form(form: str) -> re.Pattern[str]:
    colon = ":" if ":" in form else ""
    two = f"{colon}([0-5][0-9])"
    minutes = two if "MM" in form else f"(?:{two})?"
    seconds = f"(?:{two})?" if "ss" in form else "()"
    return re.compile(rf"([+-])([0-5][0-9]){minutes}{seconds}")
