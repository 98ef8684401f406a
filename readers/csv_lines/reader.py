"""The csv reader: reads CSV files to the same rows as ``spark.read.schema(...).csv``.

This module handles malformed lines. ``ranges_and_quotes`` finds the rows, and ``readers/scalars/texts``
converts texts to values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError, SplitReadError, quotation
from flip27_source.options import Option, Options
from flip27_source.readers.csv_lines import options as opts
from flip27_source.readers.csv_lines.dialect import Dialect
from flip27_source.readers.csv_lines.ranges_and_quotes import CsvRows, DocumentRows, LineRows
from flip27_source.readers.csv_lines.schema import (
    CSV_INFERENCE_OPTIONS,
    FLOAT_WORD_OPTIONS,
    INFER_SCHEMA,
    CsvTypes,
    csv_formats,
    csv_schema,
    float_words,
)
from flip27_source.readers.datetimes.options import DATETIME_OPTIONS
from flip27_source.readers.files.input import WITHOUT_IT
from flip27_source.readers.files.line_blocks import LineBlock, LinePart, Place, first_lines, line_blocks
from flip27_source.readers.files.malformed_records import RecordColumns
from flip27_source.readers.files.reader import FILE_OPTIONS, LinesReader
from flip27_source.readers.files.separated_text import whole_text
from flip27_source.readers.files.spark_options import SPARK_CSV
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN, MAX_LINE_BYTES, MODE
from flip27_source.readers.scalars.ordinary_texts import unreadable
from flip27_source.readers.scalars.texts import converter
from flip27_source.readers.schemas.evolution import (
    INFERENCE_OPTIONS,
    RESCUED_DATA_COLUMN,
    SchemaEvolution,
    rescued_text,
)
from flip27_source.readers.schemas.inference import InfersFileSchema
from flip27_source.source_options import TIME_ZONE

_BLOCK_BYTES = 8 << 20


class CsvLinesReader(LinesReader, InfersFileSchema):
    """Reads each non-blank line of a CSV file as a row; columns are matched by position."""

    options: ClassVar[tuple[Option[Any], ...]] = (
        *opts.DIALECT_OPTIONS, TIME_ZONE, MAX_LINE_BYTES, *FILE_OPTIONS, *INFERENCE_OPTIONS,
        *CSV_INFERENCE_OPTIONS, RESCUED_DATA_COLUMN,
        *FLOAT_WORD_OPTIONS, *DATETIME_OPTIONS, *SPARK_CSV,
    )  # fmt: skip

    @classmethod
    def schema_of_files(cls, splits: Sequence[FileSplit], options: Options) -> pa.Schema | None:
        samples = [(split.path, _sample(split, options)) for split in splits]
        return csv_schema(samples, options)

    def prepare(self) -> None:
        """Check options and schema, and choose how each column is converted."""
        options = self.context.options
        self._dialect = opts.dialect_of(options)
        self._mode = options[MODE]
        self._columns = RecordColumns.of(self.context, self.constant_names)
        self._evolution = self._columns.evolution
        self._rescue = None
        if self._evolution.is_strict:
            header_of = (lambda split: self._header_of(split).names) if options[opts.HEADER] else None
            inferred = CsvTypes(options) if options[INFER_SCHEMA] and self._evolution.widens else None
            self._rescue = CsvRescue(self._evolution, self._dialect, header_of, inferred)
        self._headers: dict[str, pa.Schema] = {}
        self._by_names: dict[tuple[str, ...], CsvLinesReader] = {(): self}
        self._fields = list(self._evolution.schema)
        if not self._fields:
            raise SchemaError(
                "the schema has no column that a CSV file could fill",
                remedy='give the columns of the files in file order, as in .schema("id long, name string")',
            )
        zone = options[TIME_ZONE] or self.context.time_zone
        words, exact = float_words(options), self._evolution.is_exact
        formats = replace(csv_formats(options), exact=exact)
        self._converters = [converter(field, zone, words, formats, exact=exact) for field in self._fields]

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        for names, group in groupby(splits, self._names_in):
            if names not in self._by_names:
                self._by_names[names] = self._reader_of(names)
            yield from self._by_names[names]._rows_of(list(group))

    def _names_in(self, split: FileSplit) -> tuple[str, ...]:
        """The columns of a file in its order, if its header names constant columns too; else empty.

        Without these columns, which the caller replaces, the others would be at wrong positions.
        """
        if not self.constant_names or not self.context.options[opts.HEADER]:
            return ()
        constants = {name.lower(): name for name in self.constant_names}
        own = iter(self._evolution.schema.names)
        names: list[str] = []
        for name in self._header_of(split).names:
            column = constants.get(name.lower()) or next(own, None)
            if column is None:
                break
            names.append(column)
        return () if constants.keys().isdisjoint(_lowered(names)) else tuple(names)

    def _reader_of(self, names: tuple[str, ...]) -> CsvLinesReader:
        fields = {name: pa.field(name, pa.string()) for name in names}
        fields |= {field.name: field for field in self.context.schema}
        reader = CsvLinesReader()
        reader.context = replace(self.context, schema=pa.schema(list(fields.values())))
        reader.prepare()
        return reader

    def _rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        options = self.context.options
        if options[opts.HEADER] and (self._evolution.mode != "none" or not options[opts.ENFORCE_SCHEMA]):
            for split in splits:
                self._check_header(split)
        yield from map(self._batch, self._all_rows(splits))

    def _all_rows(self, splits: Sequence[FileSplit]) -> Iterator[CsvRows]:
        options = self.context.options
        header, comment = options[opts.HEADER], self._dialect.comment.encode()
        if options[opts.MULTI_LINE]:
            return (_document(split, options, drop_header=header) for split in splits if split.length)
        blocks = line_blocks(splits, options, block_bytes=_BLOCK_BYTES, drop_header=header, comment=comment)
        return (LineRows(block, self._dialect) for block in blocks)

    def _batch(self, rows: CsvRows) -> pa.RecordBatch:
        texts = rows.columns(len(self._fields))
        malformed = texts.wrong_count
        misfits: dict[str, tuple[pa.Array, pa.Array]] = {}
        rescues = self._evolution.rescued_at is not None
        arrays = []
        for field, convert, column in zip(self._fields, self._converters, texts.columns, strict=True):
            values = convert(column)
            arrays.append(values)
            bad = unreadable(column, values)
            if bad is None:
                continue
            if rescues:
                misfits[field.name] = bad, column
                continue
            malformed = bad if malformed is None else pc.or_(malformed, bad)
            if self._mode == "FAILFAST":
                self._fail(rows, bad, f"column {field.name} of type {field.type} cannot hold ", column)
        malformed = malformed if malformed is not None and malformed.true_count else None
        rescued = None
        if self._rescue is not None and (malformed is not None or misfits):
            malformed, rescued = self._rescue.left_over(rows, texts.rows, malformed, misfits)
        if malformed is not None and self._mode == "FAILFAST":
            self._fail(rows, malformed, f"the line does not have {len(self._fields)} fields", None)
        corrupt = None
        if malformed is not None and self._columns.corrupt_at is not None:
            corrupt = pc.if_else(malformed, rows.records(), pa.scalar(None, pa.string()))
        batch = self._columns.batch(arrays, texts.rows, corrupt=corrupt, rescued=rescued)
        if malformed is None or self._mode != "DROPMALFORMED":
            self._columns.refuse_nulls(batch, lambda row: _record_at(rows, row))
            return batch
        good = pc.indices_nonzero(pc.invert(malformed))
        batch = batch.take(good)
        self._columns.refuse_nulls(batch, lambda row: _record_at(rows, good[row].as_py()))
        return batch

    def _header_of(self, split: FileSplit) -> pa.Schema:
        """The columns in a file that has a header; empty if there is no row."""
        if split.path not in self._headers:
            schema = self.schema_of_files([replace(split, start=0, end=None)], self.context.options)
            self._headers[split.path] = schema or pa.schema([])
        return self._headers[split.path]

    def _check_header(self, split: FileSplit) -> None:
        """Refuse names that differ from the schema's, because columns would be swapped; then new columns."""
        options = self.context.options
        schema = self._header_of(split) if split.start == 0 else pa.schema([])
        if not len(schema):
            return
        count = len(self._fields)
        names, expected = schema.names, [field.name for field in self._fields]
        compared = min(count, len(names)) if options[opts.ENFORCE_SCHEMA] else max(count, len(names))
        by_position = options[opts.ENFORCE_SCHEMA] and options.is_set(opts.ENFORCE_SCHEMA)
        if not by_position and _lowered(names[:compared]) != _lowered(expected[:compared]):
            remedy = "give a schema that matches the header, or set enforceSchema=true to ignore the names"
            for option, own in self._own_columns():
                if own.lower() in _lowered(names):  # enforceSchema would shift the columns
                    remedy = f"the query uses the name {own} itself: set {option} to another name"
            raise SchemaError(
                f"{split.path}: the header names the columns {', '.join(names)}, but the schema has "
                + ", ".join(expected),
                remedy=remedy,
            )
        self._evolution.check(split.path, pa.schema(list(schema)[count:]))

    def _own_columns(self) -> Iterator[tuple[str, str]]:
        """The columns of the schema that no field of a file fills, by the options that name them."""
        if self._columns.corrupt_at is not None:
            yield CORRUPT_RECORD_COLUMN.name, self.context.options[CORRUPT_RECORD_COLUMN]
        if self._evolution.rescued_name is not None:
            yield RESCUED_DATA_COLUMN.name, self._evolution.rescued_name

    def _fail(self, rows: CsvRows, bad: pa.Array, what: str, column: pa.Array | None) -> None:
        row = bad.index(True).as_py()
        value = "" if column is None else quotation(column[row].as_py())
        place, record = _record_at(rows, row)
        raise SplitReadError(
            f"{place}: {what}{value}: {quotation(record)}",
            remedy=f'set .option("mode", "PERMISSIVE") or "DROPMALFORMED", or {WITHOUT_IT}',
        )


def _record_at(rows: CsvRows, row: int) -> tuple[Place, str]:
    return rows.place(row), rows.records()[row].as_py() or ""


def _document(split: FileSplit, options: Options, *, drop_header: bool) -> DocumentRows:
    return DocumentRows(split, whole_text(split, options), opts.dialect_of(options), drop_header=drop_header)


def _sample(split: FileSplit, options: Options) -> CsvRows:
    """The rows of a file for schema inference, including its header."""
    if options[opts.MULTI_LINE]:
        return _document(split, options, drop_header=False)
    block = LineBlock(first_lines(split, options), (LinePart(0, split, 0),))
    return LineRows(block, opts.dialect_of(options))


def _lowered(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


Misfits = Mapping[str, tuple[pa.Array, pa.Array]]
"""For each column with values of the wrong type: a mask of their rows, and the texts."""


class CsvRescue:
    """Handles the rows of a block that have extra fields or values of the wrong type.

    Args:
        header_of: returns the column names in a file; None if files have no headers.
        csv_types: infers the types of values that may widen a column; None if types are not inferred.
    """

    def __init__(
        self,
        evolution: SchemaEvolution,
        dialect: Dialect,
        header_of: Callable[[FileSplit], Sequence[str]] | None,
        csv_types: CsvTypes | None,
    ) -> None:
        self._evolution = evolution
        self._dialect = dialect
        self._header_of = header_of
        self._types = csv_types
        self._columns = len(evolution.schema)

    def left_over(
        self, rows: CsvRows, count: int, malformed: pa.Array | None, misfits: Misfits
    ) -> tuple[pa.Array | None, pa.Array | None]:
        """A mask of the malformed rows and the column of rescued data; each is None if there are none.

        Args:
            malformed: a mask of the rows with another number of fields than columns.

        Raises:
            NewColumnsError: there are fields or values that need another schema, and the schema evolution
                does not ignore them.
        """
        self._check_types(rows, misfits)
        # The fields after the last column, by row number; only for rows that have such fields.
        long_rows: dict[int, list[str]] = {}
        for row in [] if malformed is None else pc.indices_nonzero(malformed).to_pylist():
            if extra := rows.fields(row)[self._columns :]:
                long_rows[row] = extra
        if long_rows and self._header_of is None:
            most = max(map(len, long_rows.values()))
            names = (f"_c{self._columns + number}" for number in range(most))
            place = str(rows.place(min(long_rows)))
            self._evolution.check(place, pa.schema([(name, pa.string()) for name in names]))
        if self._evolution.rescued_at is None:
            return malformed, None
        misfit_rows = (pc.indices_nonzero(bad).to_pylist() for bad, _ in misfits.values())
        numbers = sorted({*long_rows, *(row for column_rows in misfit_rows for row in column_rows)})
        texts: list[str | None] = [None] * count
        for row, split in zip(numbers, rows.splits(numbers), strict=True):
            left = {name: column[row].as_py() for name, (bad, column) in misfits.items() if bad[row].as_py()}
            if row in long_rows:
                names_in_file = self._header_of(split) if self._header_of is not None else ()
                left |= dict(self._named(long_rows[row], names_in_file))
            texts[row] = rescued_text(left, split.path)
        if malformed is not None:
            malformed = pc.and_not(
                malformed, pa.array([row in long_rows for row in range(count)], pa.bool_())
            )
            malformed = malformed if malformed.true_count else None
        return malformed, pa.array(texts, pa.string())

    def _check_types(self, rows: CsvRows, misfits: Misfits) -> None:
        """Refuse values of the wrong type that fit a wider type, if the schema evolution widens types."""
        if self._types is None:
            return
        first_rows: dict[tuple[str, pa.DataType], int] = {}
        for name, (bad, texts) in misfits.items():
            for row in pc.indices_nonzero(bad).to_pylist():
                kind = self._types.of_text(texts[row].as_py(), pa.null())
                first_rows.setdefault((name, kind), row)
        schemas = {pa.schema([column]): row for column, row in first_rows.items()}
        new = self._evolution.new_columns(*schemas)
        if len(new):
            row = min(row for schema, row in schemas.items() if len(self._evolution.new_columns(schema)))
            raise self._evolution.refusal(new, str(rows.place(row)))

    def _named(self, fields: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        for number, text in enumerate(fields, self._columns):
            name = names[number] if number < len(names) else f"_c{number}"
            yield name, None if text == self._dialect.null_value else text
