"""Infers the schema of JSON files, from their first lines or documents, as Spark's JsonInferSchema does.

Lines go to Python's parser, which is written in C. Lines that it rejects go to the parser that follows
Spark's, because Spark accepts single quotes and NaN.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from itertools import accumulate
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.options import Options
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.files.line_blocks import first_lines
from flip27_source.readers.files.separated_text import whole_text
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN, MODE
from flip27_source.readers.json_lines import options as opts
from flip27_source.readers.json_lines.strings import SPARK_DIALECT, JsonDialect, MalformedJsonError
from flip27_source.readers.json_lines.tokens import MAX_NUMBER_DIGITS, Token, Tokens
from flip27_source.readers.schemas.merging import nested_names, wider_number
from flip27_source.schemas.new_columns import MOST_DIGITS
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

DEEPEST = 100
"""The most levels of nested objects and arrays that are parsed; deeper values stay text."""

_ODD = re.compile(rb"[0-9.eE+-]{%d}|\\u[dD][89a-fA-F]" % (MAX_NUMBER_DIGITS + 1))
"""Long numbers and surrogate halves, some of which only Python's parser accepts."""
_BRACKETS = re.compile(rb"[\[\]{}]")
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_JAVA_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONG = range(-(2**63), 2**63)
_INSTANT = pa.timestamp("us", "UTC")


class JsonNumber(str):
    """The text of a number with a point or an exponent."""

    __slots__ = ()


class _Fields(dict[str, "_Kind"]):
    """The type of an object so far; each line adds its fields in place."""


@dataclass(slots=True)
class _Items:
    """The type of an array."""

    kind: _Kind


_Kind: TypeAlias = "pa.DataType | _Fields | _Items"


class JsonRaw(str):
    """The text of an object or array that is nested deeper than ``DEEPEST`` levels."""

    __slots__ = ()


class FieldTwiceError(Exception):
    """An object has a field twice; the message is the field's name, and the caller adds the place."""


class JsonObject(list[tuple[str, Any]]):
    """An object that may have duplicate names."""


class JsonTypes:
    """Finds the types of JSON values, as the options require.

    Args:
        refuses_twice: raise an error for a duplicate field; otherwise its type covers both values.
    """

    def __init__(self, options: Options, *, refuses_twice: bool = False) -> None:
        self.dialect = opts.json_dialect(options)
        self._primitives_as_string = options[opts.PRIMITIVES_AS_STRING]
        self._prefers_decimal = options[opts.PREFERS_DECIMAL]
        self._infer_timestamp = options[opts.INFER_TIMESTAMP]
        self._drop_all_null = options[opts.DROP_FIELD_IF_ALL_NULL]
        self._zone = java_zone(options[TIME_ZONE] or "UTC")
        # Spark's JsonInferSchema does not try other formats either.
        self._formats = replace(DateTimeFormats.of(options), fallback=False)
        self._refuses_twice = refuses_twice

    def of_lines(self, lines: Iterable[bytes], *, malformed: str | None) -> pa.Schema:
        """The columns of some lines.

        Args:
            malformed: the string column to add for lines that are not JSON objects; None ignores them.

        Raises:
            FieldTwiceError: an object has a field twice and ``refuses_twice`` is set.
        """

        def join(left: _Kind, right: _Kind) -> _Kind:
            return _joined_roots(left, right, malformed)

        nothing: _Kind = _Fields()
        root = reduce(join, self._roots(lines, malformed), nothing)
        return pa.schema(_finished_fields(root, self._drop_all_null) if isinstance(root, _Fields) else [])

    def of_value(self, value: Any) -> _Kind:
        """The type of a value from Python's parser; null if the value has no type."""
        if value is None or value == "":
            return pa.null()
        if isinstance(value, JsonRaw):
            return pa.string()
        if isinstance(value, JsonObject):
            return self._of_object(value)
        if isinstance(value, list):
            return _Items(reduce(_joined, map(self.of_value, value), pa.null()))
        if isinstance(value, str) and not isinstance(value, JsonNumber):
            return self._of_text(value)
        return pa.string() if self._primitives_as_string else self._of_primitive(value)

    def _roots(self, lines: Iterable[bytes], malformed: str | None) -> Iterator[_Kind]:
        for line in lines:
            try:
                yield self.of_value(parsed_json(line, self.dialect))
            except MalformedJsonError:
                if malformed is not None:
                    yield _Fields({malformed: pa.string()})

    def _of_object(self, members: JsonObject) -> _Fields:
        fields = _Fields()
        for name, value in members:
            if self._refuses_twice and name in fields:
                raise FieldTwiceError(name)
            fields[name] = _joined(fields.get(name, pa.null()), self.of_value(value))
        return fields

    def _of_primitive(self, value: bool | int | JsonNumber) -> pa.DataType:
        if isinstance(value, bool):
            return pa.bool_()
        if isinstance(value, int):
            return pa.int64() if value in _LONG else _decimal_of(Decimal(value))
        return (_decimal_of_text(value) if self._prefers_decimal else None) or pa.float64()

    def _of_text(self, text: str) -> pa.DataType:
        decimal = _decimal_of_text(text) if self._prefers_decimal else None
        if decimal is not None and types.is_decimal(decimal):
            return decimal
        if self._infer_timestamp and self._formats.timestamp_us(text, self._zone) is not None:
            return _INSTANT
        return pa.string()


def schema_of_sample(splits: Sequence[FileSplit], options: Options) -> pa.Schema | None:
    """The columns of the files; None if there are none."""
    malformed = None if options[MODE] == "DROPMALFORMED" else options[CORRUPT_RECORD_COLUMN]
    types = JsonTypes(options, refuses_twice=True)
    looked_at: list[str] = []
    try:
        schema = types.of_lines(_sampled_lines(splits, options, looked_at), malformed=malformed)
    except FieldTwiceError as twice:
        raise SchemaError(
            f"{looked_at[-1]}: an object has the field {twice} twice",
            remedy="give the schema; then the last value of such a field is used, as in Spark",
        ) from None
    _refuse_names_that_differ_in_case(schema)
    return schema if len(schema) else None


def _sampled_lines(splits: Sequence[FileSplit], options: Options, looked_at: list[str]) -> Iterator[bytes]:
    """The lines for schema inference; the path of their file is first appended to ``looked_at``."""
    for split in splits:
        looked_at.append(split.path)
        if options[opts.MULTI_LINE]:
            yield whole_text(split, options)
        else:
            yield from first_lines(split, options).split(b"\n")


def _refuse_names_that_differ_in_case(fields: Iterable[pa.Field]) -> None:
    """Raise SchemaError for fields, on any level, that Spark cannot distinguish."""
    names: dict[tuple[str, ...], tuple[str, ...]] = {}
    for path in nested_names(fields):
        other = names.setdefault(tuple(map(str.lower, path)), path)
        if other != path:
            raise SchemaError(
                f"the fields {'.'.join(other)} and {'.'.join(path)} of the JSON lines differ only in case",
                remedy="give a schema with one of them; rescuedDataColumn keeps the other",
            )


def _finished_fields(fields: _Fields, drop_all_null: bool) -> list[pa.Field]:
    """The fields in Spark's order, without those that get no column."""
    kinds = ((name, _finished(fields[name], drop_all_null)) for name in sorted(fields) if name)
    return [pa.field(name, kind) for name, kind in kinds if kind is not None]


def _finished(kind: _Kind, drop_all_null: bool) -> pa.DataType | None:
    """The type of a column: without empty objects, and string if all values are null."""
    if isinstance(kind, _Fields):
        fields = _finished_fields(kind, drop_all_null)
        return pa.struct(fields) if fields else None
    if isinstance(kind, _Items):
        item = _finished(kind.kind, drop_all_null)
        return None if item is None else pa.list_(item)
    if types.is_null(kind):
        return None if drop_all_null else pa.string()
    return kind


def _joined(left: _Kind, right: _Kind) -> _Kind:
    """The type that covers both; string if no other type does. ``left`` may be changed in place."""
    if isinstance(left, _Fields) and isinstance(right, _Fields):
        for name, kind in right.items():
            left[name] = _joined(left[name], kind) if name in left else kind
        return left
    if isinstance(left, _Items) and isinstance(right, _Items):
        return _Items(_joined(left.kind, right.kind))
    if _is_null(right):
        return left
    if _is_null(left):
        return right
    if isinstance(left, _Fields | _Items) or isinstance(right, _Fields | _Items):
        return pa.string()
    return left if left == right else wider_number(left, right)


def _is_null(kind: _Kind) -> bool:
    return isinstance(kind, pa.DataType) and bool(types.is_null(kind))


def _joined_roots(left: _Kind, right: _Kind, malformed: str | None) -> _Kind:
    """Join the types of two lines; a line that is not an object or array of objects is malformed."""
    while isinstance(left, _Items):
        left = left.kind
    while isinstance(right, _Items):
        right = right.kind
    pair = (left, right)
    for kind, rest in (pair, pair[::-1]):
        if isinstance(kind, _Fields) and not isinstance(rest, _Fields):
            if _is_null(rest) or malformed is None:
                return kind
            return _joined(kind, _Fields({malformed: pa.string()}))
    return _joined(left, right)


def _decimal_of_text(text: str) -> pa.DataType | None:
    return _decimal_of(Decimal(text)) if _JAVA_NUMBER.fullmatch(text) else None


def _decimal_of(number: Decimal) -> pa.DataType:
    """The decimal type with Java's precision and scale; double if no decimal can hold the number."""
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale)
    return pa.decimal128(precision, scale) if scale >= 0 and precision <= MOST_DIGITS else pa.float64()


def parsed_json(line: bytes, dialect: JsonDialect = SPARK_DIALECT) -> Any:
    """The line as a value.

    Raises:
        MalformedJsonError: Spark cannot read it.
    """
    if not (_is_deep(line) or _ODD.search(line)):
        try:
            return _DECODER.decode(line.decode())
        except (ValueError, RecursionError):
            pass
    tokens = Tokens(line, dialect)
    token = tokens.next()
    return None if token is None else _value(tokens, token, 0)


def _is_deep(line: bytes) -> bool:
    """True if a line of valid JSON has more than ``DEEPEST`` levels."""
    if line.count(b"[") + line.count(b"{") <= DEEPEST:
        return False
    depths = accumulate(
        1 if bracket in b"[{" else -1 for bracket in _BRACKETS.findall(_STRINGS.sub(b"", line))
    )
    return max(depths, default=0) > DEEPEST


def _value(tokens: Tokens, token: Token, depth: int) -> Any:
    if token in (Token.START_OBJECT, Token.START_ARRAY):
        if depth == DEEPEST:
            return JsonRaw(tokens.raw().decode(errors="replace"))
        return _object(tokens, depth) if token is Token.START_OBJECT else _array(tokens, depth)
    if token is Token.STRING:
        return tokens.string()
    if token is Token.INT:
        return int(tokens.text)
    if token is Token.FLOAT:
        return JsonNumber(tokens.text)
    return {Token.TRUE: True, Token.FALSE: False}.get(token)


def _object(tokens: Tokens, depth: int) -> JsonObject:
    members = JsonObject()
    while (token := tokens.next()) is not Token.END_OBJECT:
        if token is None:
            raise MalformedJsonError("the line ends within an object")
        name = tokens.name() or ""
        value = tokens.next()
        members.append((name, None if value is None else _value(tokens, value, depth + 1)))
    return members


def _array(tokens: Tokens, depth: int) -> list[Any]:
    items = []
    while (token := tokens.next()) is not Token.END_ARRAY:
        if token is None:
            raise MalformedJsonError("the line ends within an array")
        items.append(_value(tokens, token, depth + 1))
    return items


def _no_constant(_: str) -> Any:
    raise ValueError("NaN and infinities are for the other parser")


_DECODER = json.JSONDecoder(object_pairs_hook=JsonObject, parse_float=JsonNumber, parse_constant=_no_constant)
