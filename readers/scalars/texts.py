"""Converts texts to values of a column type with the results of Spark's CSV reader.

Arrow casts the texts that it reads as Java does; other texts are parsed one by one. Dates and timestamps
are in ``datetimes``. What must not live here: files and lines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.errors import SchemaError
from flip27_source.readers.csv_lines.quote_checks import lie_between
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.scalars.decimals import decimal_of, exact_decimal
from flip27_source.schemas.wider_types import MOST_DIGITS

Converter: TypeAlias = Callable[[pa.Array], tuple[pa.Array, pa.Array | None]]
"""Converts texts to values and a mask of malformed texts, whose values are null; None if there are none."""

JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes."""
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_FLOAT_WORDS = {
    "NaN": "nan", "+NaN": "nan", "-NaN": "nan",
    "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf",
}  # fmt: skip
FLOAT_WORDS: Mapping[str, float] = {"NaN": math.nan, "-Inf": -math.inf, "Inf": math.inf}
"""Spark's own words for numbers, in the order in which Spark tries them."""
_NO_FORMATS = DateTimeFormats()


def converter(
    field: pa.Field,
    time_zone: str,
    float_words: Mapping[str, float] = FLOAT_WORDS,
    formats: DateTimeFormats = _NO_FORMATS,
) -> Converter:
    """The function that converts the texts of a column to its values.

    Args:
        float_words: texts that mean numbers in float and double columns, in addition to Java's.
        formats: how texts become dates and timestamps.

    Raises:
        SchemaError: a CSV file cannot hold the type.
    """
    kind = field.type
    if types.is_string(kind):
        return lambda texts: (texts, None)
    if types.is_binary(kind):
        return lambda texts: (texts.view(pa.binary()), None)
    if types.is_date32(kind):
        return lambda texts: _with_mask(*formats.dates(texts))
    if types.is_timestamp(kind):
        zone = time_zone if kind.tz is not None else None
        return lambda texts: _with_mask(*formats.timestamps(texts, zone))
    if types.is_floating(kind) and float_words != FLOAT_WORDS:
        return _Worded(kind, float_words)
    parser = _number_parser(kind)
    if parser is None:
        raise SchemaError(
            f"column {field.name}: a CSV file cannot contain {kind}",
            remedy="read the column as a string and convert it with from_json or from_csv",
        )
    return parser


def _with_mask(values: pa.Array, bad: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    return values, bad if bad.true_count else None


def _number_parser(kind: pa.DataType) -> Converter | None:
    if types.is_integer(kind):
        digits = {8: 2, 16: 4, 32: 9, 64: 18}[kind.bit_width]
        limit = 1 << (kind.bit_width - 1)
        plain = rf"\A-?[0-9]{{1,{digits}}}\z"
        return _Numbers(kind, b"-0123456789", plain, lambda text: _integer(text, limit))
    if types.is_floating(kind):
        plain = r"\A-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?\z"
        return _Numbers(kind, b"-+.eE0123456789", plain, lambda text: _floating(text, kind, FLOAT_WORDS))
    if types.is_decimal(kind):
        fraction = rf"(?:\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
        whole = rf"[0-9]{{1,{kind.precision - kind.scale}}}" if kind.precision > kind.scale else "0"
        plain = rf"\A-?{whole}{fraction}\z"
        return _Numbers(kind, b"-.0123456789", plain, lambda text: decimal_of(text.replace(",", ""), kind))
    if types.is_boolean(kind):
        # Only the letters of true and false, because Arrow also reads 0 and 1 as booleans.
        return _Numbers(kind, b"truefalsTRUEFALS", r"\A(?i:true|false)\z", _boolean)
    return None


class _Numbers:
    """Converter for a type that Arrow can cast to.

    Args:
        kind: the type.
        characters: a column that has only these characters is cast by Arrow as a whole. Every text that
            Arrow accepts then has the same value in Java. (With other characters, Arrow also accepts
            hexadecimal numbers, words and blanks that Java does not. A decimal with the exponent -999999999
            crashes the process, so the characters for decimals have no exponent.) Columns of numbers are
            also cast as a whole if they have only digits, minus, point and slash: the codes of these
            characters are adjacent, so a fast range check recognises most columns.
        plain: pattern of single texts that Arrow reads as Java does.
        parse: returns the value of any other text; None if it is malformed.
    """

    def __init__(
        self,
        kind: pa.DataType,
        characters: bytes,
        plain: str,
        parse: Callable[[str], Any],
    ) -> None:
        self._kind = kind
        self._characters = characters
        self._has_digits = b"0" in characters
        self._plain = plain
        self._parse = parse

    def __call__(self, texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        if texts.null_count == len(texts):
            return pa.nulls(len(texts), self._kind), None
        if self._is_for_arrow(texts):
            try:
                return texts.cast(self._kind), None
            except pa.ArrowInvalid:
                pass
        return self._one_by_one(texts)

    def _is_for_arrow(self, texts: pa.Array) -> bool:
        if types.is_decimal(self._kind) and not _arrow_can_scale(texts, self._kind.scale):
            return False
        content = _content_of(texts)
        if self._has_digits and lie_between(content, b"-", b"9"):
            return True
        return not content.to_pybytes().translate(None, self._characters)

    def _one_by_one(self, texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        plain = pc.fill_null(pc.match_substring_regex(texts, self._plain), False)
        odd = pc.and_not(pc.is_valid(texts), plain)
        values = pc.if_else(plain, texts, pa.scalar(None, pa.string())).cast(self._kind)
        parsed = pa.array([self._parse(text) for text in texts.filter(odd).to_pylist()], self._kind)
        values = pc.replace_with_mask(values, odd, parsed)
        return values, pc.and_(odd, pc.is_null(values)) if parsed.null_count else None


def _arrow_can_scale(texts: pa.Array, scale: int) -> bool:
    """True if Arrow's cast of these texts to a decimal of ``scale`` places cannot overflow.

    The cast overflows silently if a text has more digits than a decimal can hold, or if its digits before
    the decimal point and the scale together exceed that limit.
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    lengths = np.diff(offsets[texts.offset : texts.offset + len(texts) + 1])
    most_whole = MOST_DIGITS - scale
    if lengths.max() <= most_whole:
        return True
    if lengths.max() > MOST_DIGITS:
        return False
    points = np.asarray(pc.fill_null(pc.find_substring(texts, "."), 0))
    return int(np.where(points < 0, lengths, points).max()) <= most_whole


def _content_of(texts: pa.Array) -> pa.Buffer:
    """All characters of all texts in one buffer, which may include those of nulls."""
    if texts.offset:
        texts = pa.concat_arrays([texts[:0], texts])
    _, offsets, content = texts.buffers()
    if content is None:
        return pa.py_buffer(b"")
    first, last = (
        int.from_bytes(offsets[at * 4 : at * 4 + 4].to_pybytes(), "little") for at in (0, len(texts))
    )
    return content[first:last]


def _integer(text: str, limit: int) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 1000:
        return None
    number = int(text)
    return number if -limit <= number < limit else None


class _Worded:
    """Converter to float or double with user-defined words, which may look like numbers."""

    def __init__(self, kind: pa.DataType, words: Mapping[str, float]) -> None:
        self._kind = kind
        self._words = words

    def __call__(self, texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        values = pa.array([self._value(text) for text in texts.to_pylist()], self._kind)
        bad = pc.and_not(pc.is_valid(texts), pc.is_valid(values))
        return values, bad if bad.true_count else None

    def _value(self, text: str | None) -> Any:
        return None if text is None else _floating(text, self._kind, self._words)


def _floating(text: str, kind: pa.DataType, spark_words: Mapping[str, float]) -> Any:
    """Java's parseDouble, which trims blanks, and Spark's own words, which must match untrimmed."""
    if text in spark_words:
        return spark_words[text]
    text = text.strip(JAVA_BLANKS)
    number = _FLOAT.fullmatch(text)
    if number is None:
        return _rare_float(text)
    # Round once, to the width of the column; through a double the number would be rounded twice.
    return _float32(number[1]) if types.is_float32(kind) else float(number[1])


def _rare_float(text: str) -> float | None:
    """The value of Java's words and of hexadecimal numbers."""
    if text in _FLOAT_WORDS:
        return float(_FLOAT_WORDS[text])
    number = _HEX_FLOAT.fullmatch(text)
    if number is None:
        return None
    try:
        return float.fromhex(number[1])
    except OverflowError:
        return float("-inf" if text.startswith("-") else "inf")


def _float32(text: str) -> Any:
    plain = text.removeprefix("+")
    return pa.array([plain]).cast(pa.float32())[0].as_py()


def is_whole(text: str, kind: pa.DataType) -> bool:
    """True if Java reads the text as a number of this integer type."""
    return _integer(text, 1 << (kind.bit_width - 1)) is not None


def is_double(text: str, float_words: Mapping[str, float] = FLOAT_WORDS) -> bool:
    """True if Spark reads the text as a double."""
    return _floating(text, pa.float64(), float_words) is not None


def decimal_type_of(text: str) -> pa.DataType | None:
    """The decimal type that Spark infers for a number without a fraction; None if Spark infers none."""
    number = exact_decimal(text)
    if number is None or number.as_tuple().exponent != 0:
        return None
    digits = len(number.as_tuple().digits)
    return pa.decimal128(digits, 0) if digits <= MOST_DIGITS else None


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())
