"""JsonRows: the rows of JSON lines and documents, the same as those of ``spark.read.schema(...).json(...)``.

Blocks of lines go to the fast path if its result equals Spark's
(:mod:`flip27_source.readers.json_lines.columns`). Other lines go one by one to a parser that follows
Spark's (:mod:`flip27_source.readers.json_lines.values`). What lives here: the handling of malformed lines;
:mod:`flip27_source.readers.json_lines.lines` chooses the path of each line.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError, quotation
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.files.line_blocks import LineBlock, LinePart, line_blocks
from flip27_source.readers.files.malformed_records import RecordColumns
from flip27_source.readers.files.separated_text import whole_text
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN, MODE
from flip27_source.readers.json_lines.arrays import arrays_of_rows
from flip27_source.readers.json_lines.columns import JsonColumnsParser
from flip27_source.readers.json_lines.lines import JsonLines
from flip27_source.readers.json_lines.options import MULTI_LINE, json_dialect
from flip27_source.readers.json_lines.schema import JsonNumber, JsonObject, JsonRaw, JsonTypes, parsed_json
from flip27_source.readers.json_lines.strings import MalformedJsonError, java_utf8
from flip27_source.readers.json_lines.values import JsonLineParser, Row
from flip27_source.readers.scalars.ordinary_texts import Pieces, in_row_order
from flip27_source.readers.schemas.evolution import FILE_PATH, SchemaEvolution, by_name, rescued_name
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

_BLOCK_BYTES = 4 << 20
"""A block and its columns fit in a processor's caches."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number of JSON; Spark's parser accepts others too, such as NaN."""


class JsonRows:
    """Reads files with the schema and the options of one reader.

    Args:
        constant_names: columns that the reader does not fill.
    """

    def __init__(self, context: SourceReaderContext, constant_names: tuple[str, ...]) -> None:
        self._context = context
        time_zone = context.options[TIME_ZONE] or context.time_zone
        self._mode = context.options[MODE]
        self._columns = RecordColumns.of(context, constant_names)
        self._evolution = self._columns.evolution
        self._rescue = JsonRescue(self._evolution, JsonTypes(context.options))
        self._data_schema = self._evolution.schema
        formats = DateTimeFormats.of(context.options, day_numbers=True)
        dialect = json_dialect(context.options)
        exact = self._evolution.is_exact
        zone = java_zone(time_zone)
        self._line_parser = JsonLineParser(
            self._data_schema,
            zone,
            formats,
            dialect,
            exact=exact,
            resumes=self._evolution.rescued_at is not None,
        )
        parser = JsonColumnsParser(
            self._data_schema,
            time_zone,
            formats,
            strict=self._evolution.is_strict,
            exact=exact,
            takes_words=dialect.words,
        )
        self._lines = JsonLines(parser)

    def of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        options = self._context.options
        if options[MULTI_LINE]:
            return (self._document(split) for split in splits if split.length)
        blocks = line_blocks(splits, options, block_bytes=_BLOCK_BYTES)
        return (self.batch(block, block.place_of_line) for block in blocks)

    def _document(self, split: FileSplit) -> pa.RecordBatch:
        """The rows of a whole file; the line parser treats its content as one line."""
        content = whole_text(split, self._context.options)
        block = LineBlock(content, (LinePart(0, split, 0),))
        return self._mixed_batch(block, block.place_of_line, [content], [], [0])

    def batch(self, block: LineBlock, place_of: Callable[[int], object]) -> pa.RecordBatch:
        """The rows of a block.

        Args:
            place_of: returns the place of a line, by its number, for errors.
        """
        parsed = self._lines.parsed(block.data)
        if parsed is not None and not parsed.doubtful:
            columns = parsed.columns
            rows = len(columns[0]) if columns else 0
            batch = self._columns.batch(columns, rows, corrupt=None, rescued=None)
            self._columns.refuse_nulls(batch, lambda row: (place_of(row), block.data.split(b"\n")[row]))
            return batch
        lines = block.data.split(b"\n")[:-1]
        fast, slow = self._lines.sorted_out(lines, parsed)
        return self._mixed_batch(block, place_of, lines, fast, [number for number in slow if lines[number]])

    def _mixed_batch(
        self,
        block: LineBlock,
        place_of: Callable[[int], object],
        lines: list[bytes],
        fast: Pieces,
        slow: list[int],
    ) -> pa.RecordBatch:
        """The rows of the fast and the slow path, in line order."""
        if self._evolution.looks_for_columns:
            self._rescue.check([lines[number] for number in slow], lambda number: place_of(slow[number]))
        # The last two columns are the malformed lines and the rescued data.
        pieces = [
            (numbers, [*columns, *[pa.nulls(len(numbers), pa.binary())] * 2]) for numbers, columns in fast
        ]
        numbers, columns = in_row_order([*pieces, self._slow_rows(block, place_of, lines, slow)])
        # Spark passes a line on unchanged, even if it is not UTF-8.
        corrupt, rescued = (column.view(pa.string()) for column in columns[-2:])
        batch = self._columns.batch(columns[:-2], len(numbers), corrupt=corrupt, rescued=rescued)
        self._columns.refuse_nulls(batch, lambda row: (place_of(at := numbers[row].as_py()), lines[at]))
        return batch

    def _slow_rows(
        self, block: LineBlock, place_of: Callable[[int], object], lines: list[bytes], slow: list[int]
    ) -> tuple[pa.Array, list[pa.Array]]:
        """The rows of lines read one by one: their line numbers and columns."""
        rows: list[Row] = []
        row_lines: list[int] = []
        corrupt: list[bytes | None] = []
        rescued: list[str | None] = []
        rescues = self._evolution.rescued_at is not None
        splits = block.splits_of_lines(slow) if rescues else [None] * len(slow)
        for number, split in zip(slow, splits, strict=True):
            line = lines[number]
            read = self._line_parser.parse(line)
            left_over = None if split is None else self._rescue.left_over(line, read.rows, split.path)
            malformed = read.malformed and left_over is None
            if malformed and self._mode == "FAILFAST":
                raise SplitReadError(
                    f"{place_of(number)}: the record is malformed, or does not fit the schema: "
                    f"{quotation(line)}",
                    remedy=f"correct the schema; or set {MODE.name} to PERMISSIVE and add the string column "
                    f"{CORRUPT_RECORD_COLUMN.default} to the schema to see such records; or, of files, "
                    "restart the query with onSplitError=quarantine to continue without this one",
                )
            if malformed and self._mode == "DROPMALFORMED":
                continue
            line_rows = read.rows or ([[None] * len(self._data_schema)] if malformed else [])
            rows += line_rows
            row_lines += [number] * len(line_rows)
            corrupt += [line if malformed else None] * len(line_rows)
            rescued += left_over or [None] * len(line_rows)
        texts = (pa.array(values, pa.binary()) for values in (corrupt, rescued))
        return pa.array(row_lines, pa.int64()), [*arrays_of_rows(rows, self._data_schema), *texts]


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
        named = ((rescued_name(name), rest) for name, rest in left)
        return java_utf8(_as_json(JsonObject([*named, (FILE_PATH, path)]))).decode()


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
        return (
            "{"
            + ",".join(f"{_as_json(name)}:{_as_json(item)}" for name, item in by_name(value).items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_as_json, value)) + "]"
    if isinstance(value, JsonRaw) or (isinstance(value, JsonNumber) and _NUMBER.fullmatch(value)):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
