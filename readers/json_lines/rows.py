"""JsonRows: the rows of JSON lines and documents, the same as those of ``spark.read.schema(...).json(...)``.

Blocks of lines go to the fast path if its result equals Spark's
(:mod:`flip27_source.readers.json_lines.columns`). Other lines go one by one to a parser that follows
Spark's (:mod:`flip27_source.readers.json_lines.values`). What lives here: the handling of malformed lines;
:mod:`flip27_source.readers.json_lines.lines` chooses the path of each line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.files.corrupt_records import index_of_corrupt
from flip27_source.readers.files.line_blocks import LineBlock, LinePart, line_blocks
from flip27_source.readers.files.not_null import first_forbidden_null, has_not_null
from flip27_source.readers.files.separated_text import whole_text
from flip27_source.readers.json_lines.arrays import arrays_of_rows
from flip27_source.readers.json_lines.columns import JsonColumnsParser, Parsed
from flip27_source.readers.json_lines.lines import JsonLines, Pieces, proved_rows
from flip27_source.readers.json_lines.options import (
    CORRUPT_RECORD_COLUMN,
    MODE,
    MULTI_LINE,
    json_dialect,
)
from flip27_source.readers.json_lines.rescue import JsonRescue
from flip27_source.readers.json_lines.schema import JsonTypes
from flip27_source.readers.json_lines.values import JsonLineParser, Row
from flip27_source.readers.schemas.evolution import SchemaEvolution
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

_BLOCK_BYTES = 4 << 20
"""A block and its columns fit in a processor's caches."""
_SHOWN_RECORD_BYTES = 200
_UNCHECKED = pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True)


class _Left(NamedTuple):
    """The data of each row outside its columns.

    Attributes:
        corrupt: the line if it is malformed. rescued: rescued data.
    """

    corrupt: list[bytes | None]
    rescued: list[str | None]


class JsonRows:
    """Reads files with the schema and the options of one reader.

    Args:
        context: the context of the reader.
        constant_names: columns that the reader does not fill.
    """

    def __init__(self, context: SourceReaderContext, constant_names: tuple[str, ...]) -> None:
        self._context = context
        time_zone = context.options[TIME_ZONE] or context.time_zone
        self._mode = context.options[MODE]
        self._corrupt_index = index_of_corrupt(context.schema, context.options[CORRUPT_RECORD_COLUMN])
        corrupt = () if self._corrupt_index is None else (context.options[CORRUPT_RECORD_COLUMN],)
        self._evolution = SchemaEvolution.of(
            context.schema, context.options, (*constant_names, *corrupt)
        ).without(corrupt)
        self._rescue = JsonRescue(self._evolution, JsonTypes.of(context.options))
        self._data_schema = self._evolution.schema
        formats = DateTimeFormats.of(context.options, day_numbers=True)
        dialect = json_dialect(context.options)
        self._line_parser = JsonLineParser(self._data_schema, java_zone(time_zone), formats, dialect)
        parser = JsonColumnsParser(
            self._data_schema,
            time_zone,
            formats,
            strict=self._evolution.is_strict,
            takes_words=dialect.words,
        )
        self._lines = JsonLines(parser)
        self._has_not_null = has_not_null(context.schema)

    def of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        """The rows of all splits, in batches of the schema."""
        options = self._context.options
        if options[MULTI_LINE]:
            return (self._document(split) for split in splits if split.length)
        return map(self._batch, line_blocks(splits, options, block_bytes=_BLOCK_BYTES))

    def _document(self, split: FileSplit) -> pa.RecordBatch:
        """The rows of a whole file; the line parser treats its content as one line."""
        content = whole_text(split, self._context.options)
        block = LineBlock(content, (LinePart(0, split, 0),))
        return self._joined(block, [content], [], [0])

    def _batch(self, block: LineBlock) -> pa.RecordBatch:
        parsed = self._lines.parsed(block.data)
        if parsed is not None and not parsed.doubtful:
            return self._finished(block, parsed.columns)
        return self._mixed_batch(block, parsed)

    def _mixed_batch(self, block: LineBlock, parsed: Parsed | None) -> pa.RecordBatch:
        """The rows of a block that has lines for the slow path."""
        lines = block.data.split(b"\n")[:-1]
        if parsed is None:
            objects = [number for number, line in enumerate(lines) if line[:1] == b"{" and line[-1:] == b"}"]
            fast, refused = self._lines.sorted_out(lines, objects)
            others = set(range(len(lines))).difference(objects)
            slow = sorted([*refused, *(number for number in others if lines[number])])
        else:
            fast = [proved_rows(parsed, pa.array(range(len(lines)), pa.int64()))]
            slow = sorted(parsed.doubtful)
        return self._joined(block, lines, fast, slow)

    def _joined(self, block: LineBlock, lines: list[bytes], fast: Pieces, slow: list[int]) -> pa.RecordBatch:
        """The rows of the fast and the slow path, in line order."""
        if self._evolution.looks_for_columns:
            self._rescue.check(
                [lines[number] for number in slow], lambda number: block.place_of_line(slow[number])
            )
        rows, row_lines, left = self._slow_rows(block, lines, slow)
        pieces = [(numbers, columns) for numbers, columns in fast]
        pieces.append((pa.array(row_lines, pa.int64()), arrays_of_rows(rows, self._data_schema)))
        numbers = pa.concat_arrays([numbers for numbers, _ in pieces])
        order = pc.array_sort_indices(numbers)
        columns = [
            pa.concat_arrays([columns[index] for _, columns in pieces]).take(order)
            for index in range(len(self._data_schema))
        ]
        clean = pa.nulls(len(numbers) - len(rows), pa.binary())
        records, rescued = (
            pa.concat_arrays([clean, pa.array(values, pa.binary())]).take(order)
            for values in (left.corrupt, left.rescued)
        )
        return self._finished(block, columns, records, rescued, numbers.take(order))

    def _slow_rows(
        self, block: LineBlock, lines: list[bytes], slow: list[int]
    ) -> tuple[list[Row], list[int], _Left]:
        """The rows of lines read one by one, with each row's line number and data outside columns."""
        rows: list[Row] = []
        row_lines: list[int] = []
        left = _Left([], [])
        rescues = self._evolution.rescued_at is not None
        splits = block.splits_of_lines(slow) if rescues else [None] * len(slow)
        for number, split in zip(slow, splits, strict=True):
            line = lines[number]
            read = self._line_parser.parse(line)
            malformed, rescued = read.malformed, None
            if split is not None:
                rescued = self._rescue.left_over(line, read.rows, split.path)
                malformed = malformed and rescued is None
            if malformed:
                if self._mode == "FAILFAST":
                    raise _malformed(block, number, line)
                if self._mode == "DROPMALFORMED":
                    continue
            found = read.rows or ([[None] * len(self._data_schema)] if malformed else [])
            rows += found
            row_lines += [number] * len(found)
            left.corrupt.extend([line if malformed else None] * len(found))
            left.rescued.extend(rescued or [None] * len(found))
        return rows, row_lines, left

    def _finished(
        self,
        block: LineBlock,
        columns: list[pa.Array],
        records: pa.Array | None = None,
        rescued: pa.Array | None = None,
        lines: pa.Array | None = None,
    ) -> pa.RecordBatch:
        columns = list(columns)
        rows = len(columns[0]) if columns else len(records) if records is not None else 0
        added = [(self._corrupt_index, records), (self._evolution.rescued_at, rescued)]
        for at, texts in sorted(
            ((at, texts) for at, texts in added if at is not None), key=lambda one: one[0]
        ):
            # Spark passes a line on unchanged, even if it is not UTF-8.
            column = pa.nulls(rows, pa.string()) if texts is None else pc.cast(texts, options=_UNCHECKED)
            columns.insert(at, column)
        batch = pa.RecordBatch.from_arrays(columns, schema=self._context.schema)
        if self._has_not_null:
            self._refuse_nulls(block, batch, lines)
        return batch

    def _refuse_nulls(self, block: LineBlock, batch: pa.RecordBatch, lines: pa.Array | None) -> None:
        found = first_forbidden_null(batch)
        if found is None:
            return
        name, row = found
        line: int = row if lines is None else lines[row].as_py()
        record = block.data.split(b"\n", line + 1)[line]
        raise SplitReadError(
            f"{block.place_of_line(line)}: the column {name} is NOT NULL, but the line has no value for it: "
            f"{_shown(record)}",
            remedy="declare the column without NOT NULL; Spark's own JSON source ignores NOT NULL",
        )


def _malformed(block: LineBlock, number: int, line: bytes) -> SplitReadError:
    return SplitReadError(
        f"{block.place_of_line(number)}: the line is malformed: {_shown(line)}",
        remedy=f"correct the file; or set {MODE.name} to PERMISSIVE and add the string column "
        f"{CORRUPT_RECORD_COLUMN.default} to the schema to see such lines",
    )


def _shown(line: bytes) -> str:
    shown = line[:_SHOWN_RECORD_BYTES].decode("utf-8", "replace")
    return repr(shown) + (f"... ({len(line)} bytes)" if len(line) > _SHOWN_RECORD_BYTES else "")
