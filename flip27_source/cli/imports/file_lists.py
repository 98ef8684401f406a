"""Lists of files in Parquet, CSV or lines of text: the files that another system has read."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flip27_source.errors import MissingStateError, OptionError, StateError
from flip27_source.file_systems.paths import redacted
from flip27_source.snapshots.store import open_store

STANDARD_INPUT = "-"
COMMIT_TIME, CREATE_TIME = "commit_time", "create_time"
"""Columns of Auto Loader's cloud_files_state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFiles:
    """The files of a list.

    Attributes:
        read: their modification times, in milliseconds since the epoch, by name; 0 if it is not known.
        uncommitted: names of files that the other system has found, and not recorded as read.
    """

    read: dict[str, int]
    uncommitted: list[str]


def files_in_list(file: str, column: str, storage_options: Mapping[str, Any]) -> ListedFiles:
    """The files of a list.

    Args:
        file: a Parquet or CSV file, a folder of them, a text file with a name on each line, or "-" for such
            lines on standard input.
        column: the column of the names.

    Raises:
        OptionError: the list has no such column, or cannot be read.
    """
    listed = ListedFiles(read={}, uncommitted=[])
    for name, data in _contents(file, storage_options):
        if not name.endswith((".parquet", ".csv")):
            listed.read.update(dict.fromkeys(_lines(name, data), 0))
            continue
        for path, modified_ms, is_committed in _rows(name, data, column):
            if is_committed:
                listed.read[path] = modified_ms
            else:
                listed.uncommitted.append(path)
    return listed


def _contents(file: str, storage_options: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    if file == STANDARD_INPUT:
        yield "standard input", sys.stdin.buffer.read()
        return
    parent, slash, name = file.rstrip("/").rpartition("/")
    store = open_store(parent or ("/" if slash else "."), storage_options)
    try:
        parts = [part for part in store.list(name) if part.endswith((".parquet", ".csv"))]
    except StateError:
        parts = []  # it is a file on local disk; any other problem is reported when it is read
    for file_name in [f"{name}/{part}" for part in parts] or [name]:
        try:
            yield file_name, store.read(file_name)
        except MissingStateError:
            raise OptionError(
                f"the list {redacted(file)} does not exist", remedy="give the path of the list"
            ) from None


def _lines(name: str, data: bytes) -> Iterable[str]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError(
            f"{name} is not UTF-8: {error}", remedy="give a list whose name ends with .parquet or .csv"
        ) from None
    return (line.removesuffix("\r") for line in text.split("\n") if line.strip())


def _rows(name: str, data: bytes, column: str) -> Iterable[tuple[str, int, bool]]:
    """Name, modification time and whether the file was read, for each row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = _table(name, data, column)
    if column not in table.column_names:
        raise OptionError(
            f"{name} has no column {column}; its columns are {', '.join(table.column_names)}",
            remedy="name the column of the paths with --column",
        )
    twice = [item for item in (column, COMMIT_TIME, CREATE_TIME) if table.column_names.count(item) > 1]
    kind = table.schema.types[table.column_names.index(column)]
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if twice or str(kind).removeprefix("large_") not in ("string", "binary", "null"):
        raise OptionError(
            f"{name} has several columns {twice[0]}"
            if twice
            else f"{name} has a column {column} of type {kind}",
            remedy="give a list with one column of the paths, as strings",
        )
    committed: Iterable[bool] = itertools.repeat(True)
    if COMMIT_TIME in table.column_names:
        committed = table[COMMIT_TIME].is_valid().to_pylist()
    times: Iterable[int] = itertools.repeat(0)
    if CREATE_TIME in table.column_names and pa.types.is_timestamp(table[CREATE_TIME].type):
        in_ms = table[CREATE_TIME].cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        times = pc.fill_null(in_ms, 0).to_pylist()
    # strict=False: the default values repeat without end.
    try:
        paths = table[column].cast(kind).cast(pa.string()).to_pylist()
    except pa.ArrowException as error:
        raise OptionError(f"{name}, column {column}: {error}", remedy="give paths that are UTF-8") from error
    return (row for row in zip(paths, times, committed, strict=False) if row[0])


def _table(name: str, data: bytes, column: str) -> Any:
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if name.endswith(".parquet"):
            names = parquet.read_schema(io.BytesIO(data)).names
            columns = [name for name in (column, COMMIT_TIME, CREATE_TIME) if name in names]
            return parquet.read_table(io.BytesIO(data), columns=columns if column in names else None)
        return csv.read_csv(
            io.BytesIO(data),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types={column: pa.string()},
                null_values=["", "null", "NULL"],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException as error:
        raise OptionError(
            f"{name} cannot be read: {error}", remedy="give a Parquet file, or a CSV file with a header"
        ) from error
