"""Readings that devices leave as SQLite files in a folder: each file is one split, read once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from flip27_source import DiscoveringEnumerator, Discovery, Option, Options, SplitReader, SplitSize
from flip27_source.errors import SplitReadError

FOLDER: Option[str | None] = Option(
    name="folder", parse=str, default=None, doc="Where the *.sqlite files appear.", first_start_only=True
)
ROWS_PER_ARROW_BATCH = 65_536


@dataclass(frozen=True, kw_only=True)
class SqliteFile:
    """A file as it was found: another size or time of change means other rows."""

    split_id: str
    path: str
    bytes: int
    modified_ns: int

    @property
    def size(self) -> SplitSize:
        """Counts against the limits on files and bytes."""
        return SplitSize(bytes=self.bytes)


class SqliteFolderEnumerator(DiscoveringEnumerator[SqliteFile]):
    """Finds each file once, by name; files are moved into the folder when they are complete."""

    options = (*DiscoveringEnumerator.options, FOLDER)

    def discover(self, position: list[str] | None) -> Discovery[SqliteFile, list[str]]:
        """The files whose names are not in ``position``, in the order of their names."""
        seen = position or []
        folder = Path(self.options_given.require(FOLDER, why="there is nothing to look for files in"))
        files = sorted(file for file in folder.iterdir() if file.suffix == ".sqlite")
        found = [as_split(file) for file in files if file.name not in set(seen)]
        return Discovery(found, [*seen, *(split.split_id for split in found)])


class SqliteFileReader(SplitReader[SqliteFile]):
    """Yields the table ``readings`` of a file as Arrow record batches."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """The columns of ``readings``; a user who needs fewer gives a schema."""
        return pa.schema({"device": pa.string(), "taken_at": pa.int64(), "celsius": pa.float64()})

    def read(self, split: SqliteFile) -> Iterator[pa.RecordBatch]:
        """All rows of the file, which must still be the one that was found."""
        if as_split(Path(split.path)) != split:
            raise SplitReadError(
                f"{split.path} has changed since it was found",
                remedy="add rows as a new file",
            )
        schema = self.context.schema
        columns = ", ".join(f'"{name}"' for name in schema.names)
        with closing(sqlite3.connect(f"{Path(split.path).as_uri()}?mode=ro", uri=True)) as database:
            cursor = database.execute(f"SELECT {columns} FROM readings ORDER BY rowid")
            while rows := cursor.fetchmany(ROWS_PER_ARROW_BATCH):
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(values, field.type)
                        for values, field in zip(zip(*rows, strict=True), schema, strict=True)
                    ],
                    schema=schema,
                )


def as_split(file: Path) -> SqliteFile:
    """The file as it is now."""
    found = file.stat()
    return SqliteFile(
        split_id=file.name, path=str(file.resolve()), bytes=found.st_size, modified_ns=found.st_mtime_ns
    )
