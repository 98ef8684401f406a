"""The schema of JSON lines, as Spark's JsonInferSchema finds it.

Lines go through Python's parser, which is as fast as C, and those that it refuses through the one that
is like Spark's: single quotes and NaN are no mistake to Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from itertools import accumulate
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types

from flip27_source.errors import SchemaError
from flip27_source.options import Option, Options, boolean
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.datetimes.spark_texts import java_zone
from flip27_source.readers.json_lines.options import json_dialect
from flip27_source.readers.json_lines.strings import SPARK_DIALECT, JsonDialect, MalformedJsonError
from flip27_source.readers.json_lines.tokens import MAX_NUMBER_DIGITS, Token, Tokens
from flip27_source.source_options import TIME_ZONE

PRIMITIVES_AS_STRING = Option(
    name="primitivesAsString", parse=boolean, default=False,
    doc="Where the schema is found out: numbers and booleans are strings.",
)  # fmt: skip
PREFERS_DECIMAL = Option(
    name="prefersDecimal", parse=boolean, default=False,
    doc="Where the schema is found out: numbers with decimal places are decimals, if one can hold them.",
)  # fmt: skip
INFER_TIMESTAMP = Option(
    name="inferTimestamp", parse=boolean, default=False,
    doc="Where the schema is found out: texts that are timestamps have that type.",
)  # fmt: skip
DROP_FIELD_IF_ALL_NULL = Option(
    name="dropFieldIfAllNull", parse=boolean, default=False,
    doc="Where the schema is found out: a field that is never anything but null or empty is no column.",
)  # fmt: skip
JSON_INFERENCE_OPTIONS: tuple[Option[Any], ...] = (
    PRIMITIVES_AS_STRING, PREFERS_DECIMAL, INFER_TIMESTAMP, DROP_FIELD_IF_ALL_NULL,
)  # fmt: skip

DEEPEST = 100
"""Levels of objects and arrays in each other that are looked into; what is deeper stays text."""

_MOST_DIGITS = 38
_ODD = re.compile(rb"[0-9.eE+-]{%d}|\\u[dD][89a-fA-F]" % (MAX_NUMBER_DIGITS + 1))
"""Long numbers and halves of surrogate pairs, of which Python's parser takes more than Spark's."""
_BRACKETS = re.compile(rb"[\[\]{}]")
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_JAVA_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONG = range(-(2**63), 2**63)
_INSTANT = pa.timestamp("us", "UTC")


class JsonNumber(str):
    """A number with a point or an exponent, as it is written."""

    __slots__ = ()


class _Fields(dict[str, "_Kind"]):
    """The type of an object as far as it is known; it grows with each line, at the cost of that line."""


@dataclass(slots=True)
class _Items:
    """The type of an array."""

    kind: _Kind


_Kind: TypeAlias = "pa.DataType | _Fields | _Items"


class JsonRaw(str):
    """An object or array inside more than ``DEEPEST`` others, as it is written."""

    __slots__ = ()


class FieldTwiceError(Exception):
    """A field is in one object twice; the message is its name, the caller adds where."""


class JsonObject(list[tuple[str, Any]]):
    """An object, with names that are there twice."""


@dataclass(frozen=True, slots=True)
class JsonTypes:
    """Finds the types of JSON values.

    Attributes:
        refuses_twice: a field that is in one object twice is an error; otherwise it has the type of both.
    """

    primitives_as_string: bool
    prefers_decimal: bool
    infer_timestamp: bool
    drop_all_null: bool
    time_zone: str
    formats: DateTimeFormats
    dialect: JsonDialect
    refuses_twice: bool = False

    @classmethod
    def of(cls, options: Options) -> JsonTypes:
        """As the options say."""
        return cls(
            options[PRIMITIVES_AS_STRING],
            options[PREFERS_DECIMAL],
            options[INFER_TIMESTAMP],
            options[DROP_FIELD_IF_ALL_NULL],
            options[TIME_ZONE] or "UTC",
            # One try, as in JsonInferSchema.
            replace(DateTimeFormats.of(options), fallback=False),
            json_dialect(options),
        )

    def of_lines(self, lines: Iterable[bytes], *, malformed: str | None) -> pa.Schema:
        """The columns of some lines.

        Args:
            malformed: a string column that stands for a line that is no JSON object; None leaves it out.

        Raises:
            FieldTwiceError: as ``refuses_twice`` says.
        """

        def join(one: _Kind, other: _Kind) -> _Kind:
            return _joined_roots(one, other, malformed)

        nothing: _Kind = _Fields()
        root = reduce(join, self._roots(lines, malformed), nothing)
        return pa.schema(_finished_fields(root, self.drop_all_null) if isinstance(root, _Fields) else [])

    def of_value(self, value: Any) -> _Kind:
        """The type of a value as Python's parser gives it; null where it tells none."""
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
        return pa.string() if self.primitives_as_string else self._of_primitive(value)

    def _roots(self, lines: Iterable[bytes], malformed: str | None) -> Iterator[_Kind]:
        for line in lines:
            try:
                yield self.of_value(parsed_json(line, self.dialect))
            except MalformedJsonError:
                if malformed is not None:
                    yield _Fields({malformed: pa.string()})

    def _of_object(self, members: JsonObject) -> _Fields:
        found = _Fields()
        for name, value in members:
            if self.refuses_twice and name in found:
                raise FieldTwiceError(name)
            found[name] = _joined(found.get(name, pa.null()), self.of_value(value))
        return found

    def _of_primitive(self, value: bool | int | JsonNumber) -> pa.DataType:
        if isinstance(value, bool):
            return pa.bool_()
        if isinstance(value, int):
            return pa.int64() if value in _LONG else _decimal_of(Decimal(value))
        return (_decimal_of_text(value) if self.prefers_decimal else None) or pa.float64()

    def _of_text(self, text: str) -> pa.DataType:
        found = _decimal_of_text(text) if self.prefers_decimal else None
        if found is not None and types.is_decimal(found):
            return found
        if self.infer_timestamp and self.formats.timestamp_us(text, java_zone(self.time_zone)) is not None:
            return _INSTANT
        return pa.string()


def refuse_names_that_differ_in_case(fields: Iterable[pa.Field], inside: str = "") -> None:
    """Raise SchemaError for fields, on any level, that Spark would not tell apart."""
    names: dict[str, str] = {}
    for field in fields:
        other = names.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise SchemaError(
                f"the fields {inside}{other} and {inside}{field.name} of the JSON lines differ in case only",
                remedy="give the schema with the one that is wanted; rescuedDataColumn keeps the other",
            )
        kind = field.type
        while types.is_list(kind):
            kind = kind.value_type
        if types.is_struct(kind):
            refuse_names_that_differ_in_case(kind, f"{inside}{field.name}.")


def _finished_fields(fields: _Fields, drop_all_null: bool) -> list[pa.Field]:
    """The fields in Spark's order, without those that are nothing."""
    kinds = ((name, _finished(fields[name], drop_all_null)) for name in sorted(fields) if name)
    return [pa.field(name, kind) for name, kind in kinds if kind is not None]


def _finished(kind: _Kind, drop_all_null: bool) -> pa.DataType | None:
    """The type of a column: without empty objects, and string where nothing but null was seen."""
    if isinstance(kind, _Fields):
        fields = _finished_fields(kind, drop_all_null)
        return pa.struct(fields) if fields else None
    if isinstance(kind, _Items):
        item = _finished(kind.kind, drop_all_null)
        return None if item is None else pa.list_(item)
    if types.is_null(kind):
        return None if drop_all_null else pa.string()
    return kind


def _joined(one: _Kind, other: _Kind) -> _Kind:
    """The type of values of both; string where there is no other. What is known of ``one`` may grow."""
    if isinstance(one, _Fields) and isinstance(other, _Fields):
        for name, kind in other.items():
            one[name] = _joined(one[name], kind) if name in one else kind
        return one
    if isinstance(one, _Items) and isinstance(other, _Items):
        return _Items(_joined(one.kind, other.kind))
    if _is_null(other):
        return one
    if _is_null(one):
        return other
    if isinstance(one, _Fields | _Items) or isinstance(other, _Fields | _Items):
        return pa.string()
    return one if one == other else _joined_numbers(one, other)


def _is_null(kind: _Kind) -> bool:
    return isinstance(kind, pa.DataType) and bool(types.is_null(kind))


def _joined_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    mine, others = _digits(one), _digits(other)
    if mine is None or others is None:
        return pa.string()
    if types.is_floating(one) or types.is_floating(other):
        return pa.float64()
    whole, scale = max(mine[0], others[0]), max(mine[1], others[1])
    return pa.decimal128(whole + scale, scale) if whole + scale <= _MOST_DIGITS else pa.float64()


def _digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Digits before and behind the point; None for what is no number."""
    if types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return {pa.int64(): (20, 0), pa.float64(): (0, 0)}.get(kind)


def _joined_roots(one: _Kind, other: _Kind, malformed: str | None) -> _Kind:
    """A line is an object, or an array of objects; anything else is malformed."""
    while isinstance(one, _Items):
        one = one.kind
    while isinstance(other, _Items):
        other = other.kind
    pair = (one, other)
    for kind, rest in (pair, pair[::-1]):
        if isinstance(kind, _Fields) and not isinstance(rest, _Fields):
            if _is_null(rest) or malformed is None:
                return kind
            return _joined(kind, _Fields({malformed: pa.string()}))
    return _joined(one, other)


def _decimal_of_text(text: str) -> pa.DataType | None:
    return _decimal_of(Decimal(text)) if _JAVA_NUMBER.fullmatch(text) else None


def _decimal_of(number: Decimal) -> pa.DataType:
    """Java's precision and scale of a number, as a type; double where no decimal can hold it."""
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale)
    return pa.decimal128(precision, scale) if scale >= 0 and precision <= _MOST_DIGITS else pa.float64()


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
    """Whether a line, if it is JSON, has more than ``DEEPEST`` levels."""
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
    while (found := tokens.next()) is not Token.END_OBJECT:
        if found is None:
            raise MalformedJsonError("the line ends within an object")
        name = tokens.name() or ""
        value = tokens.next()
        members.append((name, None if value is None else _value(tokens, value, depth + 1)))
    return members


def _array(tokens: Tokens, depth: int) -> list[Any]:
    items = []
    while (found := tokens.next()) is not Token.END_ARRAY:
        if found is None:
            raise MalformedJsonError("the line ends within an array")
        items.append(_value(tokens, found, depth + 1))
    return items


def _no_constant(_: str) -> Any:
    raise ValueError("NaN and infinities are for the other parser")


_DECODER = json.JSONDecoder(object_pairs_hook=JsonObject, parse_float=JsonNumber, parse_constant=_no_constant)
