"""Converts columns of PostgreSQL's texts, from COPY or from the log, to the types of a schema.

The texts are those of PostgreSQL's output functions with the session settings of `enumerators.postgres`. A
value that cannot be converted exactly is an error, except that a numeric is rounded if it becomes a float.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.errors import SchemaError, SplitReadError, quotation
from flip27_source.readers.postgres.array_texts import element_lists
from flip27_source.readers.postgres.date_times import date_time_parser
from flip27_source.readers.postgres.number_texts import NUMBERS, number_parser
from flip27_source.readers.postgres.parsers import Parse, UnfitError, parse_present, refuse
from flip27_source.readers.scalars.text_bytes import Bounds, array_of, bounds_of, bytes_of
from flip27_source.schemas.ddl import type_name

_SHOWN_CHARS = 60
_DATE_TIMES = frozenset({"date", "timestamp", "timestamptz"})
_TEXTS = frozenset({"text", "varchar", "bpchar", "char", "name", "json", "jsonb", "xml"})
_CHOICES = {
    "bool": "boolean or string",
    "bytea": "binary or string",
    "date": "date, timestamp_ntz (at midnight) or string",
    "timestamp": "timestamp_ntz, date (if there is never a time of day) or string",
    "timestamptz": "timestamp or string",
    **dict.fromkeys(NUMBERS, "tinyint, smallint, int, bigint, float, double, decimal or string"),
    **dict.fromkeys(_TEXTS, "string or binary"),
}
_NO_BYTE, _PREFIX = 0x100, 0x200
_NO_BYTEA = "it is not a bytea in hexadecimal form"
_AS_STRING = "give the column the type string in the schema"


class ValueConverter:
    """Converts the texts of one column.

    Args:
        target: the type that its values get.
    """

    def __init__(self, *, column: str, type: PgType, target: pa.DataType) -> None:
        self._column = column
        self._target = target
        parse = _parser(type, target)
        if parse is None:
            raise SchemaError(
                f"the column {column} has the PostgreSQL type {type}, whose values cannot become "
                f"{_shown_type(target)}",
                remedy=_possible(type, target),
            )
        self._parse = parse

    def convert(self, texts: pa.Array, *, where: str) -> pa.Array:
        """The values of a binary or string array of texts; nulls stay null.

        Args:
            where: names the table, for errors.
        """
        if types.is_large_binary(texts.type) or types.is_large_string(texts.type):
            texts = texts.cast(pa.binary())
        try:
            if self._parse is _strings:
                return _strings(texts)
            return parse_present(texts.view(pa.string()), self._parse, self._target)
        except UnfitError as unfit:
            shown = quotation(unfit.text, _SHOWN_CHARS)
            raise SplitReadError(
                f"{where}: the column {self._column} has the value {shown}, which does not fit the type "
                f"{_shown_type(self._target)}: {unfit.reason}",
                remedy=unfit.remedy or _AS_STRING,
            ) from None


def _parser(type: PgType, target: pa.DataType) -> Parse | None:
    """The parser of texts of a type; None if values of the type cannot become ``target``."""
    if types.is_string(target):
        return _strings
    if type.is_array:
        return _arrays(type, target) if types.is_list(target) else None
    if type.name in NUMBERS:
        return number_parser(type.name, target)
    if type.name in _DATE_TIMES:
        return date_time_parser(type.name, target)
    if types.is_binary(target):
        return _BINARY.get(type.name)
    return _booleans if type.name == "bool" and types.is_boolean(target) else None


def _strings(texts: pa.Array) -> pa.Array:
    """The texts as strings, checked for valid UTF-8; they may contain nulls."""
    raw = texts.view(pa.binary())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        bad = np.array([not _is_utf8(text) for text in raw.to_pylist()])
    refuse(
        texts,
        bad,
        "it is not valid UTF-8; a database with the encoding SQL_ASCII does not check its texts",
        remedy="give the column the type binary in the schema, or cast it to bytea in the database",
    )
    return texts


def _is_utf8(text: bytes | None) -> bool:
    try:
        (text or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _booleans(texts: pa.Array) -> pa.Array:
    is_true = pc.equal(texts, "t")
    is_one = pc.or_(is_true, pc.equal(texts, "f"))
    if is_one.true_count < len(texts):
        refuse(texts, ~np.asarray(is_one), "it is not a value of the type bool")
    return is_true


def _arrays(type: PgType, target: pa.DataType) -> Parse | None:
    levels = []
    while types.is_list(target):
        levels.append(target)
        target = target.value_type
    parse = _parser(replace(type, is_array=False), target)
    if parse is None:
        return None
    elements: Callable[[pa.Array], pa.Array] = lambda texts: parse_present(texts, parse, target)  # noqa: E731
    return lambda texts: _lists(
        element_lists(texts, dimensions=len(levels), delimiter=type.delimiter), levels, elements
    )


def _lists(texts: pa.Array, levels: list[pa.DataType], parse: Parse) -> pa.Array:
    """The lists, with the innermost texts converted by ``parse``."""
    if not levels:
        return parse(texts)
    bounds = bounds_of(texts.value_lengths())
    values = _lists(texts.flatten(), levels[1:], parse)
    if values.null_count and not levels[0].value_field.nullable:
        raise UnfitError("NULL", "an element of the array is null", remedy="allow nulls in the array")
    return pa.ListArray.from_arrays(pa.array(bounds), values, type=levels[0])


def _possible(type: PgType, target: pa.DataType) -> str:
    if types.is_struct(target) or types.is_map(target):
        return f"{_AS_STRING}; from_json or from_csv can make a struct or map of its text"
    choices = _CHOICES.get(type.name, "string")
    if type.is_array:
        return f"give the column the type string, or an array of {choices}, in the schema"
    return f"give the column the type {choices} in the schema"


def _shown_type(kind: pa.DataType) -> str:
    try:
        return type_name(kind)
    except ValueError:
        return str(kind)


def _byte_of_pair() -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """A table from two characters, read as one number in the machine's byte order, to the byte they mean."""
    table = np.full(1 << 16, _NO_BYTE, np.uint16)
    pairs = [f"{byte:02x}".encode() for byte in range(256)]
    table[np.frombuffer(b"".join(pairs), np.uint16)] = np.arange(256)
    table[np.frombuffer(rb"\x", np.uint16)] = _PREFIX
    return table


_BYTE_OF_PAIR = _byte_of_pair()


def parse_hex(texts: pa.Array) -> pa.Array:
    """The bytes that the texts represent."""
    laid_out = bytes_of(texts)
    lengths = laid_out.lengths
    refuse(texts, (lengths < 2) | (lengths % 2 != 0), _NO_BYTEA)
    byte_numbers = _BYTE_OF_PAIR[laid_out.content.view(np.uint16)]
    bounds = laid_out.bounds >> 1
    prefixes = bounds[:-1]
    refuse(texts, byte_numbers[prefixes] != _PREFIX, _NO_BYTEA)
    is_byte = byte_numbers < _NO_BYTE
    others = np.flatnonzero(~is_byte)
    if len(others) > len(prefixes):
        refuse(texts, np.bincount(np.searchsorted(bounds, others, side="right") - 1) > 1, _NO_BYTEA)
    content = byte_numbers[is_byte].astype(np.uint8)
    numbers: Bounds = np.arange(len(bounds), dtype=np.int32)
    return array_of(pa.binary(), content, bounds - numbers)


_BINARY = {"bytea": parse_hex, **dict.fromkeys(_TEXTS, lambda texts: texts.view(pa.binary()))}
