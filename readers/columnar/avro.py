"""The avro reader: records of Avro object container files.

``avro_blocks`` finds the blocks, ``avro_types`` converts the types, and fastavro decodes the records.
``named_columns`` converts the columns of a file to those of the schema.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.optional_packages import needed
from flip27_source.options import Option, Options
from flip27_source.readers.columnar.avro_blocks import AvroBlock, blocks_of, read_header
from flip27_source.readers.columnar.avro_types import AvroTypes, record_reader, with_valid_logical_types
from flip27_source.readers.columnar.conversions import MismatchError
from flip27_source.readers.columnar.reader import COLUMNAR_OPTIONS, ColumnarReader
from flip27_source.readers.files.input import Fetched, damaged, open_raw, reading
from flip27_source.readers.files.spark_options import SPARK_AVRO
from flip27_source.source_checks import ChecksBeforeStart

_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20

Decode = Callable[[AvroBlock], list[dict[str, Any]]]


class AvroReader(ColumnarReader, ChecksBeforeStart):
    """Reads the records of Avro files as rows.

    A block belongs to the range of the file that contains the block's first byte.
    """

    options: ClassVar[tuple[Option[Any], ...]] = (*COLUMNAR_OPTIONS, *SPARK_AVRO)

    @classmethod
    def check_before_start(cls, options: Options) -> None:
        """Check that fastavro is installed."""
        _fastavro()

    @classmethod
    def stored_schema(cls, split: FileSplit, options: Options) -> pa.Schema:
        fastavro, path = _fastavro(), split.path
        with reading(path, options), open_raw(split, options) as raw:
            stream: Any = io.BufferedReader(raw, 1 << 16) if isinstance(raw, io.FileIO) else raw
            schema = _parsed(fastavro, read_header(stream, path).schema, path)
        return _schema_of(AvroTypes(schema), schema, path)

    def prepare(self) -> None:
        self._fastavro = _fastavro()
        super().prepare()

    def rows_of_file(self, split: FileSplit, fetched: Fetched | None) -> Iterator[pa.RecordBatch]:
        path = split.path
        with open_raw(split, self.context.options, fetched) as raw:
            stream: Any = io.BufferedReader(raw, 1 << 20) if isinstance(raw, io.FileIO) else raw
            header = read_header(stream, path)
            schema = _parsed(self._fastavro, header.schema, path)
            avro_types = AvroTypes(schema)
            fields = {field["name"]: field["type"] for field in schema["fields"]}
            columns = self.columns_of(path, list(fields), lambda: _schema_of(avro_types, schema, path))
            kinds = {name: _type_of(avro_types, name, fields[name], path) for name in columns.names_to_read}
            decode = self._decoder(avro_types.decoded_by(schema), path)
            for rows in _gathered(blocks_of(stream, header, split), decode):
                if kinds:
                    yield columns.batch(_columns(rows, kinds, path))
                else:
                    yield from columns.without_columns(len(rows))

    def _decoder(self, schema: Any, path: str) -> Decode:
        parsed = self._fastavro.parse_schema(schema)
        read_record = record_reader(schema)

        def decode(block: AvroBlock) -> list[dict[str, Any]]:
            data = io.BytesIO(block.data)
            rows: list[dict[str, Any]] = []
            try:
                for _ in range(block.records):
                    rows.append(read_record(data, parsed))  # noqa: PERF401 - errors give their number
            except Exception as error:  # noqa: BLE001 - fastavro raises errors of many types
                problem = f"{type(error).__name__}: {error}"
                raise damaged(
                    path, f"block at byte {block.position}, record {len(rows)} of the block: {problem}"
                ) from None
            if data.tell() != len(block.data):
                raise damaged(path, f"block at byte {block.position}: bytes follow the last record")
            return rows

        return decode


def _fastavro() -> Any:
    with needed("fastavro", by="the avro reader", extra="avro"):
        import fastavro
    return fastavro


def _parsed(fastavro: Any, schema: Any, path: str) -> Any:
    try:
        parsed = fastavro.parse_schema(with_valid_logical_types(schema), _write_hint=False)
    except Exception as error:  # noqa: BLE001 - fastavro raises errors of many types
        raise damaged(path, f"its schema: {type(error).__name__}: {error}") from None
    if not isinstance(parsed, dict) or parsed["type"] not in ("record", "error"):
        raise SchemaError(
            f"{path} contains values of type {str(parsed)[:200]} instead of records",
            remedy="write the file with a record around the value",
        )
    return parsed


def _schema_of(avro_types: AvroTypes, schema: Any, path: str) -> pa.Schema:
    fields = ((field["name"], field["type"]) for field in schema["fields"])
    return pa.schema([(name, _type_of(avro_types, name, kind, path)) for name, kind in fields])


def _type_of(avro_types: AvroTypes, name: str, schema: Any, path: str) -> pa.DataType:
    try:
        return avro_types.arrow_type(schema)
    except MismatchError as mismatch:
        raise SchemaError(
            f"{path}: column {name}: {mismatch}", remedy="remove the column from the schema"
        ) from None


def _gathered(blocks: Iterator[AvroBlock], decode: Decode) -> Iterator[list[dict[str, Any]]]:
    """The records of several blocks at a time."""
    rows: list[dict[str, Any]] = []
    size = 0
    for block in blocks:
        rows += decode(block)
        size += len(block.data)
        if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _columns(rows: list[dict[str, Any]], kinds: dict[str, pa.DataType], path: str) -> pa.RecordBatch:
    arrays = []
    for name, kind in kinds.items():
        try:
            arrays.append(pa.array([row[name] for row in rows], kind))
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise damaged(path, f"column {name} of type {kind}: {error}") from None
    return pa.RecordBatch.from_arrays(arrays, names=list(kinds))
