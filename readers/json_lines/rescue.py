"""Finds the data of a JSON line that is not in the schema: new columns and rescued data.

It is used only for lines that the fast path does not read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types

from flip27_source.readers.json_lines.schema import JsonNumber, JsonObject, JsonRaw, JsonTypes, parsed_json
from flip27_source.readers.json_lines.strings import MalformedJsonError, java_utf8
from flip27_source.readers.json_lines.values import Row
from flip27_source.readers.schemas.evolution import FILE_PATH, SchemaEvolution

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number of JSON; Spark's parser accepts others too, such as NaN."""


class JsonRescue:
    """Finds the data in lines that the columns of ``evolution.schema`` cannot hold."""

    def __init__(self, evolution: SchemaEvolution, json_types: JsonTypes) -> None:
        self._evolution = evolution
        self._types = json_types
        self._fields = list(evolution.schema)

    def check(self, lines: Sequence[bytes], place_of: Callable[[int], object]) -> None:
        """Refuse new columns and report the first line that has one."""
        new = self._new_columns(lines)
        if len(new):
            first = next(n for n, line in enumerate(lines) if len(self._new_columns([line])))
            raise self._evolution.refusal(new, str(place_of(first)))

    def left_over(self, line: bytes, rows: Sequence[Row], path: str) -> list[str | None] | None:
        """The rescued data of each row of a line; None if the line cannot be read at all.

        Args:
            rows: the rows read from the line.
        """
        try:
            value = parsed_json(line, self._types.dialect)
        except MalformedJsonError:
            return None
        objects = [value] if isinstance(value, JsonObject) or not isinstance(value, list) else value
        if len(objects) != len(rows) or not all(isinstance(item, JsonObject) for item in objects):
            return None
        return [self._text(item, row, path) for item, row in zip(objects, rows, strict=True)]

    def _new_columns(self, lines: Sequence[bytes]) -> pa.Schema:
        if not self._evolution.looks_for_columns:
            return pa.schema([])
        schemas = [self._types.of_lines(lines, malformed=None)]
        if self._evolution.widens:
            # The type that covers all lines may be string, although one line alone needs a wider number.
            schemas += dict.fromkeys(self._types.of_lines([line], malformed=None) for line in lines)
        return self._evolution.new_columns(*schemas)

    def _text(self, members: JsonObject, row: Row, path: str) -> str | None:
        left = _rest_of_object(members, self._fields, row)
        if left is None:
            return None
        return java_utf8(_as_json(JsonObject([*left, (FILE_PATH, path)]))).decode()


def _rest_of_object(members: JsonObject, fields: Sequence[pa.Field], read: Row) -> JsonObject | None:
    columns = {field.name: (field.type, value) for field, value in zip(fields, read, strict=True)}
    times = Counter(name for name, _ in members)
    left = JsonObject()
    for name, value in members:
        # Columns hold at most one value of a duplicate name, so all its values are kept.
        rest = _rest(value, *columns[name]) if name in columns and times[name] == 1 else value
        if rest is not None or name not in columns:
            left.append((name, rest))
    return left or None


def _rest(value: Any, kind: pa.DataType, read: Any) -> Any:
    """The part of ``value`` that ``read`` does not hold; None if ``read`` holds all of it."""
    if value is None or read is None:
        return value
    if types.is_struct(kind) and isinstance(value, JsonObject):
        return _rest_of_object(value, [kind.field(number) for number in range(kind.num_fields)], read)
    if types.is_list(kind) and isinstance(value, list):
        rests = (_rest(item, kind.value_type, read_item) for item, read_item in zip(value, read, strict=True))
        return value if any(rest is not None for rest in rests) else None
    if types.is_map(kind) and isinstance(value, JsonObject):
        rests = (
            _rest(item, kind.item_type, read_item)
            for (_, item), (_, read_item) in zip(value, read, strict=True)
        )
        return value if any(rest is not None for rest in rests) else None
    return None


def _as_json(value: Any) -> str:
    if isinstance(value, JsonObject):
        return "{" + ",".join(f"{_as_json(name)}:{_as_json(item)}" for name, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_as_json, value)) + "]"
    if isinstance(value, JsonRaw) or (isinstance(value, JsonNumber) and _NUMBER.fullmatch(value)):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
