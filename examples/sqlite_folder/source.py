"""Readings that devices write into SQLite files of a folder. Each file is one split, read by rowid."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from flip27_source import (
    Change,
    DiscoveringEnumerator,
    Discovery,
    Option,
    Options,
    Progress,
    SplitReader,
    YieldsProgress,
)
from flip27_source.errors import SplitReadError
from flip27_source.options import integer

FOLDER: Option[str | None] = Option(
    name="folder",
    parse=str,
    default=None,
    doc="The folder of the *.sqlite files.",
    changes=Change.FIRST_START,
)
PAGE = Option(name="rowsPerPage", parse=integer(minimum=1), default=65_536, doc="Rows in an Arrow batch.")
BEFORE_ALL, BEHIND_ALL = -(2**63), 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class SqliteFile:
    """A file, and the rowid ``after`` up to which it was read."""

    split_id: str
    path: str
    after: int = BEFORE_ALL


class SqliteFolderEnumerator(DiscoveringEnumerator[SqliteFile]):
    """Assigns each file once, by name; from then on the reader determines its position."""

    options = (FOLDER,)

    def discover(self, position: list[str] | None) -> Discovery[SqliteFile, list[str]]:
        """The files whose names are not in ``position``, in the order of their names."""
        seen = position or []
        folder = Path(self.options_given.require(FOLDER, why="there is no folder to search for files"))
        files = sorted(file for file in folder.iterdir() if file.suffix == ".sqlite")
        new = [file.resolve() for file in files if file.name not in set(seen)]
        found = [SqliteFile(split_id=file.name, path=str(file)) for file in new]
        return Discovery(found, [*seen, *(split.split_id for split in found)])


class SqliteFileReader(YieldsProgress, SplitReader[SqliteFile]):
    """Yields the rows of the table ``readings`` of a file, and a Progress after each page."""

    options = (PAGE,)

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """The columns of ``readings``; a user who needs fewer columns sets a schema."""
        return pa.schema({"device": pa.string(), "taken_at": pa.int64(), "celsius": pa.float64()})

    def read(self, split: SqliteFile) -> Iterator[pa.RecordBatch | Progress[SqliteFile]]:
        """The rows after the position; a repeated batch reads no more rows than the first time."""
        end = self.context.end_positions.get(split.split_id)
        columns = ", ".join(f'"{name}"' for name in self.context.schema.names)
        wanted = f"SELECT rowid, {columns} FROM readings WHERE rowid > ? AND rowid <= ? ORDER BY rowid"
        with closing(sqlite3.connect(f"{Path(split.path).as_uri()}?mode=ro", uri=True)) as database:
            refuse_if_recreated(database, split)
            rows = database.execute(wanted, (split.after, end.after if end else BEHIND_ALL))
            while page := rows.fetchmany(self.context.options[PAGE]):
                rowids, *values = zip(*page, strict=True)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(column, type_)
                        for column, type_ in zip(values, self.context.schema.types, strict=True)
                    ],
                    schema=self.context.schema,
                )
                yield Progress(replace(split, after=rowids[-1]))


def refuse_if_recreated(database: sqlite3.Connection, split: SqliteFile) -> None:
    """Refuse a shorter file with the same name: its rows would be taken for rows that were read."""
    (newest,) = database.execute("SELECT max(rowid) FROM readings").fetchone()
    if (BEFORE_ALL if newest is None else newest) < split.after:
        raise SplitReadError(
            f"{split.path} ends at rowid {newest}, before {split.after}, which was read: it was replaced",
            remedy="restore the file; write new rows into it, or into a file with another name",
        )
