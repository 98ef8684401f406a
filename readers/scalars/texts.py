"""Converts texts to values of a column type with the results of Spark's CSV reader.

Arrow casts the texts that it reads as Java does; other texts are parsed one by one. Decimals are those of
all readers: as Java's BigDecimal parses them and Spark rounds them. Dates and timestamps are in
``datetimes``. What must not live here: files and lines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.errors import SchemaError
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.scalars.ordinary_texts import Spelling, read_one_by_one, read_texts, with_odd_texts
from flip27_source.readers.scalars.text_bytes import bytes_of
from flip27_source.schemas.new_columns import MOST_DIGITS

Converter: TypeAlias = Callable[[pa.Array], pa.Array]
"""Converts texts to values; malformed texts become null."""

JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes."""
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?(\d+))?")
_MOST_EXPONENT_DIGITS = 4
_BEYOND_ALL_SCALES = 80
SAFE_DIGITS = {8: 2, 16: 4, 32: 9, 64: 18}
"""The digits of which an integer has all numbers, by its bits."""
_FIRST_GAP = {pa.float32(): 2.0**24, pa.float64(): 2.0**53}
"""From here on, a type of floats does not have every whole number."""
_MANY_DIGITS = Context(prec=200, rounding=ROUND_HALF_UP)
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
    *,
    exact: bool = False,
) -> Converter:
    """The function that converts the texts of a column to its values.

    Args:
        float_words: texts that mean numbers in float and double columns, in addition to Java's.
        exact: a number that the column would change is malformed.
    """
    kind = field.type
    if types.is_string(kind):
        return lambda texts: texts
    if types.is_binary(kind):
        return lambda texts: texts.view(pa.binary())
    if types.is_date32(kind):
        return formats.dates
    if types.is_timestamp(kind):
        return partial(formats.timestamps, time_zone=time_zone if kind.tz is not None else None)
    if types.is_floating(kind) and float_words != FLOAT_WORDS:
        # The words may look like numbers.
        read_one = partial(_floating, kind=kind, spark_words=float_words, exact=exact)
        return lambda texts: read_one_by_one(texts, read_one, kind)
    parser = _number_parser(kind, exact)
    if parser is None:
        raise SchemaError(
            f"column {field.name}: a CSV file cannot contain {kind}",
            remedy="read the column as a string and convert it with from_json or from_csv",
        )
    return parser


def _number_parser(kind: pa.DataType, exact: bool) -> Converter | None:
    if types.is_integer(kind):
        digits = SAFE_DIGITS[kind.bit_width]
        limit = 1 << (kind.bit_width - 1)
        plain = rf"-?[0-9]{{1,{digits}}}"
        return _numbers(kind, b"-0123456789", plain, lambda text: _integer(text, limit))
    if types.is_floating(kind):
        plain = r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?"
        read_one = partial(_floating, kind=kind, spark_words=FLOAT_WORDS, exact=exact)
        parser = _numbers(kind, b"-+.eE0123456789", plain, read_one)
        return partial(_exact_floats, parser, read_one) if exact else parser
    if types.is_decimal(kind):
        return _numbers(
            kind,
            b"-.0123456789",
            plain_decimal(kind),
            lambda text: decimal_of(text.replace(",", ""), kind, exact=exact),
        )
    if types.is_boolean(kind):
        # Only the letters of true and false, because Arrow also reads 0 and 1 as booleans.
        return _numbers(kind, b"truefalsTRUEFALS", r"(?i:true|false)", _boolean)
    return None


def plain_decimal(kind: pa.DataType) -> str:
    """The pattern of decimals, without exponent, that have a place for each digit."""
    whole = rf"[0-9]{{1,{kind.precision - kind.scale}}}" if kind.precision > kind.scale else "0"
    return rf"-?{whole}" + (rf"(?:\.[0-9]{{1,{kind.scale}}})?" if kind.scale else "")


def _numbers(kind: pa.DataType, characters: bytes, plain: str, read_one: Callable[[str], Any]) -> Converter:
    """Converter for a type that Arrow can cast to.

    Args:
        characters: a column that has only these characters is cast by Arrow as a whole. Every text that
            Arrow accepts then has the same value in Java. (With other characters, Arrow also accepts
            hexadecimal numbers, words and blanks that Java does not. A decimal with the exponent -999999999
            crashes the process, so the characters for decimals have no exponent.) Columns of numbers are
            also cast as a whole if they have only digits, minus, point and slash: the codes of these
            characters are adjacent, so a fast range check recognises most columns.
        plain: pattern of single texts that Arrow reads as Java does.
        read_one: returns the value of any other text; None if it is malformed.
    """

    def suits(texts: pa.Array) -> bool:
        if texts.null_count == len(texts):
            return True
        if types.is_decimal(kind) and not arrow_can_scale(texts, kind.scale):
            return False
        text_bytes = bytes_of(texts)
        if b"0" in characters and text_bytes.lie_between("-", "9"):
            return True
        return not text_bytes.content.tobytes().translate(None, characters)

    spelling = Spelling(pattern=plain, suits=suits, read=lambda texts: texts.cast(kind))
    return lambda texts: read_texts(texts, [spelling], read_one, kind)


def arrow_can_scale(texts: pa.Array, scale: int) -> bool:
    """True if Arrow's cast of these texts to a decimal of ``scale`` places cannot overflow.

    The cast overflows silently if a text has more digits than a decimal can hold, or if its digits before
    the decimal point and the scale together exceed that limit.
    """
    lengths = bytes_of(texts).lengths
    most_whole = MOST_DIGITS - scale
    if lengths.max(initial=0) <= most_whole:
        return True
    if lengths.max() > MOST_DIGITS:
        return False
    points = np.asarray(pc.fill_null(pc.find_substring(texts, "."), pa.scalar(0, pa.int32())))
    return int(np.where(points < 0, lengths, points).max()) <= most_whole


def _exact_floats(parser: Converter, read_one: Callable[[str], Any], texts: pa.Array) -> pa.Array:
    """The values of ``parser``, with those that may have lost digits from ``read_one``."""
    values = parser(texts)
    large = pc.fill_null(may_lose_digits(values), pa.scalar(False, pa.bool_()))
    return with_odd_texts(pc.if_else(large, pa.scalar(None, values.type), values), large, texts, read_one)


def may_lose_digits(values: pa.Array) -> pa.Array:
    """A mask of the floats that are infinite, or so large that their type lacks whole numbers."""
    return pc.greater_equal(pc.abs(values), pa.scalar(_FIRST_GAP[values.type], values.type))


def is_exact(number: float, text: str, kind: pa.DataType) -> bool:
    """Whether a float is the finite number of the text: all whole numbers must be, others are rounded.

    A text may also be the shortest one for a float, as programs write them.
    """
    if abs(number) < _FIRST_GAP[kind]:
        return True
    if math.isinf(number):
        return False
    shortest = repr(number) if types.is_float64(kind) else str(np.float32(number))
    return Decimal(text) in (Decimal(number), Decimal(shortest))


def decimal_of(text: str, kind: pa.DataType, *, exact: bool = False) -> Decimal | None:
    """The number rounded half up to the scale of ``kind``; None if it is invalid or does not fit.

    An exponent of more than four digits is invalid: Java computes for hours or fails, depending on the
    exponent.

    Args:
        exact: a number that would be rounded does not fit.
    """
    given = exact_decimal(text)
    if given is None or (given and given.adjusted() > _BEYOND_ALL_SCALES):
        return None
    if not given or given.adjusted() < -_BEYOND_ALL_SCALES:
        return None if given and exact else Decimal(0)
    number = given.quantize(Decimal(1).scaleb(-kind.scale), context=_MANY_DIGITS)
    if exact and number != given:
        return None
    return number if len(number.as_tuple().digits) <= kind.precision else None


def exact_decimal(text: str) -> Decimal | None:
    """The exact number; None if the text is not a number."""
    match = _DECIMAL.fullmatch(text)
    if match is None or len(match[1] or "") > _MOST_EXPONENT_DIGITS:
        return None
    return Decimal(text)


def _integer(text: str, limit: int) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 1000:
        return None
    number = int(text)
    return number if -limit <= number < limit else None


def _floating(
    text: str, kind: pa.DataType, spark_words: Mapping[str, float], *, exact: bool = False
) -> float | None:
    """Java's parseDouble, which trims blanks, and Spark's own words, which must match untrimmed."""
    if text in spark_words:
        return spark_words[text]
    text = text.strip(JAVA_BLANKS)
    number = _FLOAT.fullmatch(text)
    if number is None:
        return _rare_float(text)
    # Round once, to the width of the column; through a double the number would be rounded twice.
    if types.is_float32(kind):
        value: float = pa.array([number[1].removeprefix("+")], pa.string()).cast(pa.float32())[0].as_py()
    else:
        value = float(number[1])
    return value if not exact or is_exact(value, number[1], kind) else None


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


def is_whole(text: str, kind: pa.DataType) -> bool:
    """True if Java reads the text as a number of this integer type."""
    return _integer(text, 1 << (kind.bit_width - 1)) is not None


def is_double(text: str, float_words: Mapping[str, float] = FLOAT_WORDS) -> bool:
    """True if Spark reads the text as a double."""
    return _floating(text, pa.float64(), float_words) is not None


def decimal_type_of(text: str, *, most_zeros: int = 0) -> pa.DataType | None:
    """The decimal type that Spark infers for a number without a fraction; None if Spark infers none.

    Args:
        most_zeros: the largest exponent.
    """
    number = exact_decimal(text)
    if number is None or not 0 <= (zeros := int(number.as_tuple().exponent)) <= most_zeros:
        return None
    digits = len(number.as_tuple().digits) + zeros
    return pa.decimal128(digits, 0) if digits <= MOST_DIGITS else None


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())
