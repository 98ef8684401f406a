"""Converts records of a JSON API to Arrow batches, with the values of Spark's JSON reader."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.errors import SplitReadError, quotation
from flip27_source.options import Options
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.files.malformed_records import first_forbidden_null, index_of_corrupt
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN, MODE
from flip27_source.readers.json_lines.arrays import arrays_of_rows
from flip27_source.readers.json_lines.columns import JsonColumnsParser, Parsed
from flip27_source.readers.json_lines.values import JsonLineParser, Row
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")
"""Line ends occur only between the tokens of a JSON text, because strings must escape them."""


class RecordConverter:
    """Converts records to the schema of ``context``."""

    def __init__(self, context: SourceReaderContext) -> None:
        options: Options = context.options
        time_zone = options[TIME_ZONE] or context.time_zone
        self._schema = context.schema
        self._mode = options[MODE]
        self._corrupt_index = index_of_corrupt(
            context.schema, options[CORRUPT_RECORD_COLUMN], records="records"
        )
        fields = [field for number, field in enumerate(context.schema) if number != self._corrupt_index]
        self._data_schema = pa.schema(fields)
        self._columns = JsonColumnsParser(self._data_schema, time_zone)
        self._rows = JsonLineParser(self._data_schema, java_zone(time_zone))

    def batch(self, records: Sequence[bytes], place: str, first: int) -> pa.RecordBatch:
        """One row for each record; malformed records may be dropped.

        Args:
            place, first: the request, and the number of the first record, for errors.
        """
        records = [record.translate(_LINE_ENDS) for record in records]
        if self._columns.usable:
            data = pa.py_buffer(b"".join([record + b"\n" for record in records]))
            parsed = self._columns.parse(data, len(records))
            if isinstance(parsed, Parsed) and not parsed.doubtful:
                return self._finished(parsed.columns, pa.nulls(len(records), pa.string()), place, first)
        rows: list[Row] = []
        corrupt: list[bytes | None] = []
        for number, record in enumerate(records, first):
            line = self._rows.parse(record)
            if line.malformed and self._mode == "FAILFAST":
                raise SplitReadError(
                    f"{place}: record {number} of the page does not fit the schema: {quotation(record)}",
                    remedy=f"correct the schema; or set {MODE.name} to PERMISSIVE and add the string column "
                    f"{CORRUPT_RECORD_COLUMN.default} to the schema to see such records",
                )
            if line.malformed and self._mode == "DROPMALFORMED":
                continue
            rows += line.rows or [[None] * len(self._data_schema)]
            corrupt.append(record if line.malformed else None)
        texts = pc.cast(
            pa.array(corrupt, pa.binary()),
            options=pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True),
        )
        return self._finished(arrays_of_rows(rows, self._data_schema), texts, place, first)

    def _finished(self, columns: list[pa.Array], corrupt: pa.Array, place: str, first: int) -> pa.RecordBatch:
        columns = list(columns)
        if self._corrupt_index is not None:
            columns.insert(self._corrupt_index, corrupt)
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        null = first_forbidden_null(batch)
        if null is not None:
            name, row = null
            raise SplitReadError(
                f"{place}: the column {name} is NOT NULL, but record {first + row} of the page has no value "
                "for it",
                remedy="declare the column without NOT NULL",
            )
        return batch
