"""JsonRows: the rows of JSON lines and documents, the same as those of ``spark.read.schema(...).json(...)``.

Blocks of lines go to the fast path if its result equals Spark's
(:mod:`flip27_source.readers.json_lines.columns`). Other lines go one by one to a parser that follows
Spark's (:mod:`flip27_source.readers.json_lines.values`). What lives here: the handling of malformed lines;
:mod:`flip27_source.readers.json_lines.lines` chooses the path of each line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError, quotation
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.files.line_blocks import LineBlock, LinePart, Place, line_blocks
from flip27_source.readers.files.malformed_records import RecordColumns
from flip27_source.readers.files.separated_text import whole_text
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN, MODE
from flip27_source.readers.json_lines.arrays import arrays_of_rows
from flip27_source.readers.json_lines.columns import JsonColumnsParser
from flip27_source.readers.json_lines.lines import JsonLines
from flip27_source.readers.json_lines.options import MULTI_LINE, json_dialect
from flip27_source.readers.json_lines.rescue import JsonRescue
from flip27_source.readers.json_lines.schema import JsonTypes
from flip27_source.readers.json_lines.values import JsonLineParser, Row
from flip27_source.readers.scalars.ordinary_texts import Pieces, in_row_order
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

_BLOCK_BYTES = 4 << 20
"""A block and its columns fit in a processor's caches."""


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
        self._line_parser = JsonLineParser(self._data_schema, java_zone(time_zone), formats, dialect)
        parser = JsonColumnsParser(
            self._data_schema, time_zone, formats, strict=self._evolution.is_strict, takes_words=dialect.words
        )
        self._lines = JsonLines(parser)

    def of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        options = self._context.options
        if options[MULTI_LINE]:
            return (self._document(split) for split in splits if split.length)
        return map(self._batch, line_blocks(splits, options, block_bytes=_BLOCK_BYTES))

    def _document(self, split: FileSplit) -> pa.RecordBatch:
        """The rows of a whole file; the line parser treats its content as one line."""
        content = whole_text(split, self._context.options)
        block = LineBlock(content, (LinePart(0, split, 0),))
        return self._mixed_batch(block, [content], [], [0])

    def _batch(self, block: LineBlock) -> pa.RecordBatch:
        parsed = self._lines.parsed(block.data)
        if parsed is not None and not parsed.doubtful:
            columns = parsed.columns
            rows = len(columns[0]) if columns else 0
            batch = self._columns.batch(columns, rows, corrupt=None, rescued=None)
            self._columns.refuse_nulls(batch, lambda row: _record_at(block, row))
            return batch
        lines = block.data.split(b"\n")[:-1]
        fast, slow = self._lines.sorted_out(lines, parsed)
        return self._mixed_batch(block, lines, fast, [number for number in slow if lines[number]])

    def _mixed_batch(
        self, block: LineBlock, lines: list[bytes], fast: Pieces, slow: list[int]
    ) -> pa.RecordBatch:
        """The rows of the fast and the slow path, in line order."""
        if self._evolution.looks_for_columns:
            self._rescue.check(
                [lines[number] for number in slow], lambda number: block.place_of_line(slow[number])
            )
        # The last two columns are the malformed lines and the rescued data.
        pieces = [
            (numbers, [*columns, *[pa.nulls(len(numbers), pa.binary())] * 2]) for numbers, columns in fast
        ]
        numbers, columns = in_row_order([*pieces, self._slow_rows(block, lines, slow)])
        # Spark passes a line on unchanged, even if it is not UTF-8.
        corrupt, rescued = (column.view(pa.string()) for column in columns[-2:])
        batch = self._columns.batch(columns[:-2], len(numbers), corrupt=corrupt, rescued=rescued)
        self._columns.refuse_nulls(batch, lambda row: _record_at(block, numbers[row].as_py()))
        return batch

    def _slow_rows(
        self, block: LineBlock, lines: list[bytes], slow: list[int]
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
                    f"{block.place_of_line(number)}: the line is malformed: {quotation(line)}",
                    remedy=f"correct the file; or set {MODE.name} to PERMISSIVE and add the string column "
                    f"{CORRUPT_RECORD_COLUMN.default} to the schema to see such lines",
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


def _record_at(block: LineBlock, line: int) -> tuple[Place, bytes]:
    return block.place_of_line(line), block.data.split(b"\n", line + 1)[line]
