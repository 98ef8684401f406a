"""The slow path of the JSON reader: reads one line to rows by the rules of Spark's JacksonParser.

It reads any document, even a malformed one, one value at a time. Values have Arrow's storage form
(strings as UTF-8 bytes, timestamps in microseconds, dates in days), and
:mod:`flip27_source.readers.json_lines.arrays` stores them without another conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from flip27_source.errors import SchemaError
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.json_lines.strings import SPARK_DIALECT, JsonDialect, MalformedJsonError, java_utf8
from flip27_source.readers.json_lines.tokens import Token, Tokens
from flip27_source.readers.scalars.texts import decimal_of, is_exact

Row: TypeAlias = "list[Any]"
Converter: TypeAlias = Callable[[Tokens], Any]

_WORDS = {
    "NaN": float("nan"),
    "+INF": float("inf"), "+Infinity": float("inf"), "Infinity": float("inf"),
    "-INF": float("-inf"), "-Infinity": float("-inf"),
}  # fmt: skip
_INTEGER_RANGES = {
    # Jackson accepts bytes from 128 to 255 as unsigned.
    pa.int8(): range(-128, 256),
    pa.int16(): range(-(2**15), 2**15),
    pa.int32(): range(-(2**31), 2**31),
    pa.int64(): range(-(2**63), 2**63),
}

_SECONDS = range(-(2**63) // 1_000_000 + 1, 2**63 // 1_000_000)

JSON_FORMATS = DateTimeFormats(day_numbers=True)
"""The formats of dates and timestamps if no pattern is given."""


class _Rules(NamedTuple):
    """How values are read: the formats of dates and timestamps, and the zone of timestamps without one.

    If ``exact``, a value that its column would change is malformed. If ``resumes``, the values after
    incomplete base64 are read.
    """

    formats: DateTimeFormats
    zone: tzinfo
    exact: bool
    resumes: bool


class _PartialValue(Exception):  # noqa: N818 - a result, not an error
    """A value with a malformed part, which is null."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """The rows of a line: none if it is blank, one, or one per element of an array.

    Attributes:
        rows: the values of each row, in schema order.
        malformed: Spark calls the line malformed; ``rows`` has the values that could still be read.
    """

    rows: list[Row]
    malformed: bool


class JsonLineParser:
    """Parses lines to the fields of ``schema``; ``zone`` applies to timestamps without a zone.

    Args:
        exact: a value that its column would change is malformed.
        resumes: the values after incomplete base64 are read; Spark's parser loses its position there.
    """

    def __init__(
        self,
        schema: pa.Schema,
        zone: tzinfo,
        formats: DateTimeFormats = JSON_FORMATS,
        dialect: JsonDialect = SPARK_DIALECT,
        *,
        exact: bool = False,
        resumes: bool = False,
    ) -> None:
        self._dialect = dialect
        rules = _Rules(replace(formats, exact=exact), zone, exact, resumes)
        self._row = _row_converter(list(schema), rules)

    def parse(self, line: bytes, *, whole: bool = False) -> ParsedLine:
        """The rows of one line, without its newline.

        Args:
            whole: treat a line that continues after its object as malformed; Spark ignores the rest.
        """
        token = None
        try:
            tokens = Tokens(line, self._dialect)
            token = tokens.next()
            if token is None:
                return ParsedLine([], False)
            if token is Token.START_OBJECT:
                row = self._row(tokens)
                return ParsedLine([row], whole and tokens.next() is not None)
            if token is Token.START_ARRAY:
                return ParsedLine(self._rows_of_array(tokens), False)
        except MalformedJsonError:
            return ParsedLine([], True)
        except _PartialValue as partial:
            return ParsedLine(partial.value if token is Token.START_ARRAY else [partial.value], True)
        return ParsedLine([], True)

    def _rows_of_array(self, tokens: Tokens) -> list[Row]:
        rows = _read_array(tokens, self._row_of_element)
        if any(row is None for row in rows):
            raise MalformedJsonError("null where a row should be")
        return rows

    def _row_of_element(self, tokens: Tokens) -> Row:
        if tokens.token is not Token.START_OBJECT:
            raise MalformedJsonError("a row is not an object")
        row: Row = self._row(tokens)
        return row


def _row_converter(fields: list[pa.Field], rules: _Rules) -> Converter:
    index: dict[str | None, int] = {field.name: number for number, field in enumerate(fields)}
    converters = [_converter(field.type, rules) for field in fields]

    def convert(tokens: Tokens) -> Row:
        row: Row = [None] * len(converters)
        malformed = False
        while (token := tokens.next()) is not None and token is not Token.END_OBJECT:
            number = index.get(tokens.name())
            if number is None:
                tokens.skip_children()
                continue
            try:
                row[number] = converters[number](tokens)
            except _PartialValue as partial:
                malformed = True
                row[number] = partial.value
            except MalformedJsonError:
                malformed = True
                tokens.skip_children()
        if malformed:
            raise _PartialValue(row)
        return row

    return convert


def _read_array(tokens: Tokens, convert: Converter) -> list[Any]:
    values: list[Any] = []
    malformed = False
    while (token := tokens.next()) is not None and token is not Token.END_ARRAY:
        try:
            values.append(convert(tokens))
        except _PartialValue as partial:
            malformed = True
            values.append(partial.value)
    if malformed:
        raise _PartialValue(values)
    return values


def _read_map(tokens: Tokens, convert: Converter) -> list[tuple[bytes, Any]]:
    items: list[tuple[bytes, Any]] = []
    partly = failed = False
    while (token := tokens.next()) is not None and token is not Token.END_OBJECT:
        key = java_utf8(tokens.name() or "")
        try:
            items.append((key, convert(tokens)))
        except _PartialValue as partial:
            partly = True
            items.append((key, partial.value))
        except MalformedJsonError:
            failed = True
            tokens.skip_children()
    if failed:
        raise MalformedJsonError("a value of a map has the wrong type")
    if partly:
        raise _PartialValue(items)
    return items


def _converter(kind: pa.DataType, rules: _Rules) -> Converter:
    """The function that converts the current token to ``kind``; it skips a field name first."""
    read = _reader_of(kind, rules)
    reads_text = pt.is_string(kind) or pt.is_temporal(kind) or pt.is_decimal(kind) or pt.is_binary(kind)

    def convert(tokens: Tokens) -> Any:
        token = tokens.token
        while token is Token.FIELD_NAME:
            token = tokens.next()
        if token is None or token is Token.NULL:
            return None
        if token is Token.STRING and not reads_text:
            tokens.string()  # Jackson reads the string first, so an error in the string comes first
        return read(tokens, token)

    return convert


def _reader_of(kind: pa.DataType, rules: _Rules) -> Callable[[Tokens, Token], Any]:
    if pt.is_nested(kind):
        return _nested(kind, rules)
    if pt.is_timestamp(kind):
        return partial(_instant if kind.tz else _local_time, rules)
    if pt.is_date32(kind):
        return lambda tokens, token: _known(rules.formats.date_days(_text(tokens, token)))
    if pt.is_decimal128(kind):
        return partial(_decimal, kind, rules.exact)
    if kind in _INTEGER_RANGES:
        allowed = _INTEGER_RANGES[kind]
        return partial(_integer, range(-128, 128) if rules.exact and pt.is_int8(kind) else allowed)
    return _simple(kind, rules)


def _nested(kind: pa.DataType, rules: _Rules) -> Callable[[Tokens, Token], Any]:
    if pt.is_struct(kind):
        return partial(_opened_by, Token.START_OBJECT, _row_converter(list(kind), rules))
    if pt.is_list(kind):
        element = _converter(kind.value_type, rules)
        return partial(_opened_by, Token.START_ARRAY, lambda tokens: _read_array(tokens, element))
    if pt.is_map(kind) and pt.is_string(kind.key_type):
        value = _converter(kind.item_type, rules)
        return partial(_opened_by, Token.START_OBJECT, lambda tokens: _read_map(tokens, value))
    raise _unsupported(kind)


def _simple(kind: pa.DataType, rules: _Rules) -> Callable[[Tokens, Token], Any]:
    if kind in _FLOATS:
        return partial(_FLOATS[kind], rules.exact)
    if pt.is_binary(kind):
        return partial(_binary, rules.resumes)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    raise _unsupported(kind)


def _unsupported(kind: pa.DataType) -> SchemaError:
    return SchemaError(
        f"columns of type {kind} cannot be read from JSON",
        remedy="read the field as a string column, which keeps its JSON text, and convert it in Spark",
    )


def _opened_by(opening: Token, read: Converter, tokens: Tokens, token: Token) -> Any:
    if token is not opening:
        raise MalformedJsonError("not the object or array that the schema requires")
    return read(tokens)


def _boolean(_: Tokens, token: Token) -> bool:
    if token is Token.TRUE:
        return True
    if token is Token.FALSE:
        return False
    raise MalformedJsonError("not a boolean")


def _integer(allowed: range, tokens: Tokens, token: Token) -> int:
    if token is not Token.INT:
        raise MalformedJsonError("not a whole number")
    number = int(tokens.text)
    if number not in allowed:
        raise MalformedJsonError("a number out of range")
    return number - 256 if number > 127 and allowed.stop == 256 else number


def _double(exact: bool, tokens: Tokens, token: Token) -> float:
    if token is Token.INT:
        number = float(int(tokens.text)) if len(tokens.text) < 19 else float(tokens.text)
        return _checked(exact, number, tokens.text, pa.float64())
    if token is Token.FLOAT:
        word = _WORDS.get(tokens.text)
        return _checked(exact, float(tokens.text), tokens.text, pa.float64()) if word is None else word
    if token is Token.STRING and tokens.dialect.words:
        word = _WORDS.get(tokens.string())
        if word is not None:
            return word
    raise MalformedJsonError("not a number")


def _checked(exact: bool, number: float, text: str, kind: pa.DataType) -> float:
    if exact and not is_exact(number, text, kind):
        raise MalformedJsonError("a number with more digits than the column has")
    return number


def _float(exact: bool, tokens: Tokens, token: Token) -> float:
    number = _double(False, tokens, token)
    if token is Token.STRING or tokens.text in _WORDS:
        return number
    # Java rounds a long to a float once.
    text = str(int(tokens.text)) if token is Token.INT and len(tokens.text) < 19 else tokens.text
    # Rounding to a double first and then to a float gives another result.
    return _checked(exact, pa.scalar(text, pa.string()).cast(pa.float32()).as_py(), text, pa.float32())


def _text(tokens: Tokens, token: Token) -> str:
    if token is not Token.STRING:
        raise MalformedJsonError("not a string")
    text = tokens.string()
    if not text:
        raise MalformedJsonError("an empty string")
    return text


def _instant(rules: _Rules, tokens: Tokens, token: Token) -> int:
    if token is Token.INT:
        seconds = _integer(_INTEGER_RANGES[pa.int64()], tokens, token)
        if rules.exact and seconds not in _SECONDS:
            raise MalformedJsonError("a number out of range")
        return (seconds * 1_000_000 + 2**63) % 2**64 - 2**63  # a Java long wraps around
    return _known(rules.formats.timestamp_us(_text(tokens, token), rules.zone))


def _local_time(rules: _Rules, tokens: Tokens, token: Token) -> int:
    return _known(rules.formats.timestamp_us(_text(tokens, token), None))


def _known(value: int | None) -> int:
    if value is None:
        raise MalformedJsonError("not a date or time")
    return value


def _binary(resumes: bool, tokens: Tokens, token: Token) -> bytes:
    if token is not Token.STRING:
        raise MalformedJsonError("not a string")
    if resumes:
        tokens.string()
    return tokens.base64()


def _decimal(kind: pa.DataType, exact: bool, tokens: Tokens, token: Token) -> Decimal:
    is_number = token is Token.INT or (token is Token.FLOAT and tokens.text not in _WORDS)
    text = tokens.text if is_number else _text(tokens, token).replace(",", "")
    number = decimal_of(text, kind, exact=exact)
    if number is None:
        raise MalformedJsonError("not a decimal number, or more digits than the column has")
    return number


_FLOATS: dict[pa.DataType, Callable[[bool, Tokens, Token], float]] = {
    pa.float32(): _float,
    pa.float64(): _double,
}
_SIMPLE: dict[pa.DataType, Callable[[Tokens, Token], Any]] = {
    pa.bool_(): _boolean,
    pa.string(): lambda tokens, token: java_utf8(tokens.string()) if token is Token.STRING else tokens.raw(),
}
