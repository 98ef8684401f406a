"""Parses the rows of a snapshot chunk: PostgreSQL's CSV becomes Arrow columns of texts.

PostgreSQL writes NULL as an unquoted empty field and the empty text as ``""``. A row whose only value is NULL
is an empty line.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as pc

from flip27_source.errors import SplitReadError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def csv_batch(rows: bytes | bytearray, columns: Sequence[str]) -> pa.RecordBatch:
    """Rows of ``COPY (SELECT columns ...) TO STDOUT (FORMAT csv)``; every column is a string.

    Args:
        rows: complete rows, one after the other; at least one.
        columns: names of the selected columns. Without columns, a batch has rows but no columns.
    """
    if not columns:
        # Each row is an empty line.
        array = pa.StructArray.from_buffers(pa.struct([]), len(rows), [None])
        return pa.RecordBatch.from_struct_array(array)
    if rows.startswith(_BYTE_ORDER_MARK):
        # Arrow skips one byte order mark, but here it is part of a value.
        rows = _BYTE_ORDER_MARK + rows
    try:
        table = pc.read_csv(
            pa.BufferReader(rows),
            # With one block for all rows, the result is one batch.
            read_options=pc.ReadOptions(column_names=columns, block_size=len(rows), use_threads=False),
            parse_options=pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=pc.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _unreadable(rows, columns) from error
    (batch,) = table.to_batches()
    return batch


def _unreadable(rows: bytes | bytearray, columns: Sequence[str]) -> SplitReadError:
    try:
        rows.decode()
    except UnicodeDecodeError as undecodable:
        wrong = bytes(rows[undecodable.start : undecodable.end]).hex(" ")
        return SplitReadError(
            f"the server sent the bytes {wrong}, which are not UTF-8",
            remedy="values of a database with the encoding SQL_ASCII have to be converted to UTF-8 first",
        )
    # Arrow's message quotes the row, so it is only in the cause.
    return SplitReadError(
        f"the server's CSV cannot be read as the {len(columns)} columns {', '.join(columns)}",
        remedy="report this with the definition of the table",
    )
