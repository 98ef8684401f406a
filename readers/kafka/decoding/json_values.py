"""Decodes values that are JSON objects, with the parsers of the json reader and the results of ``from_json``.

The fast path reads a block of values as a block of lines. A value that has several lines, is not an object,
or is malformed goes to the slow path alone, so that it affects no other value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.errors import quotation
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.json_lines.arrays import arrays_of_rows
from flip27_source.readers.json_lines.columns import JsonColumnsParser
from flip27_source.readers.json_lines.lines import JsonLines
from flip27_source.readers.json_lines.strings import JsonDialect
from flip27_source.readers.json_lines.values import JsonLineParser, Row
from flip27_source.readers.kafka.decoding.decoder import Decoded, ValueDecoder, joined, struct_of
from flip27_source.schemas.ddl import type_name
from flip27_source.time_zones import java_zone

_BLOCK_BYTES = 4 << 20
"""Lines of this size and their columns fit in a processor's caches."""

_SHOWN_CHARS = 100


class JsonValues(ValueDecoder):
    """Decodes JSON objects to structs.

    Args:
        kind: the type of the structs.
        time_zone: the zone of timestamps without one.
    """

    def __init__(
        self, kind: pa.StructType, *, time_zone: str, formats: DateTimeFormats, dialect: JsonDialect
    ) -> None:
        self.type = kind
        self._schema = pa.schema(list(kind))
        self._zone: tzinfo = java_zone(time_zone)
        self._formats, self._dialect = formats, dialect
        self._parser = self._parser_of(self._schema)
        self._lines = JsonLines(
            JsonColumnsParser(self._schema, time_zone, formats, takes_words=dialect.words)
        )

    def decode(self, values: pa.Array) -> Decoded:
        pieces: list[tuple[Sequence[int] | np.ndarray, pa.Array]] = []
        failures: dict[int, str] = {}
        for start, block in _blocks(values):
            rows = np.arange(start, start + len(block))
            if block.null_count:
                rows = rows[np.asarray(block.is_valid())]
                block = block.drop_null()
            if not len(block):
                continue
            for numbers, structs in self._block(block, rows, failures):
                pieces.append((rows[np.asarray(numbers)] if numbers is not None else rows, structs))
        return Decoded(values=joined(pieces, len(values), self.type), failures=failures)

    def _block(self, block: pa.Array, rows: Any, failures: dict[int, str]) -> Iterator[tuple[Any, pa.Array]]:
        """Yield structs and their numbers in the block (None for all), and record failures by ``rows``."""
        data = _as_lines(block)
        parsed = self._lines.parsed(data) if data.count(b"\n") == len(block) else None
        if parsed is not None and not parsed.doubtful:
            yield None, struct_of(parsed.columns, self.type, len(block))
            return
        values: list[bytes] = block.to_pylist()
        fast, slow = self._lines.sorted_out(values, parsed)
        for numbers, columns in fast:
            yield numbers, struct_of(columns, self.type, len(numbers))
        read: list[Row] = []
        good: list[int] = []
        for number in slow:
            row = self._row(values[number])
            if isinstance(row, str):
                failures[int(rows[number])] = row
            else:
                read.append(row)
                good.append(number)
        if good:
            columns = arrays_of_rows(read, self._schema)
            yield good, struct_of(columns, self.type, len(good))

    def _row(self, value: bytes) -> Row | str:
        """The fields of a value, or why it cannot be decoded."""
        if value.lstrip()[:1] == b"{":
            line = self._parser.parse(value, whole=True)
            if not line.malformed and len(line.rows) == 1:
                return line.rows[0]
        return self._reason(value)

    def _reason(self, value: bytes) -> str:
        if not value.strip():
            return "it is empty"
        try:
            parsed = json.loads(value.decode())
        except UnicodeDecodeError as error:
            return f"it is not UTF-8: byte {error.start} is 0x{value[error.start]:02x}"
        except (ValueError, RecursionError) as error:
            return f"it is not valid JSON: {error}: {quotation(value)}"
        if not isinstance(parsed, dict):
            return f"it is not a JSON object: {quotation(value)}"
        for field in self._schema:
            if self._parser_of(pa.schema([field])).parse(value).malformed:
                text = json.dumps(parsed.get(field.name), ensure_ascii=False)[:_SHOWN_CHARS]
                return f"its field {field.name} cannot be read as {type_name(field.type)}: {text}"
        return f"it cannot be read: {quotation(value)}"

    def _parser_of(self, schema: pa.Schema) -> JsonLineParser:
        return JsonLineParser(schema, self._zone, self._formats, self._dialect)


def _blocks(values: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Parts of about ``_BLOCK_BYTES``, each with the row of its first value."""
    if not len(values):
        return
    size = values.nbytes
    count = max(1, -(-size // _BLOCK_BYTES))
    rows = -(-len(values) // count)
    for start in range(0, len(values), rows):
        yield start, values.slice(start, rows)


def _as_lines(values: pa.Array) -> bytes:
    """The values, each followed by a newline."""
    empty, newline = pa.scalar(b"", pa.binary()), pa.scalar(b"\n", pa.binary())
    lines = pc.binary_join_element_wise(values, empty, newline)
    _, offsets, data = lines.buffers()
    if data is None:
        return b""
    ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return bytes(data.slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes())
