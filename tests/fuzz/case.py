"""A case: some files, a schema and options, and the places where the files are cut. A seed determines it.

A case is a value, and can list slightly smaller cases, which is all that the shrinker needs.
"""

from __future__ import annotations

import bz2
import gzip
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import zstandard


def _hadoop_block(codec: str) -> Callable[[bytes], bytes]:
    """A function that compresses as Hadoop does: blocks that follow both their lengths."""

    def packed(data: bytes) -> bytes:
        block = pa.compress(data, codec, asbytes=True)
        return struct.pack(">II", len(data), len(block)) + block if data else b""

    return packed


_PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".gzip": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
    ".zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    ".deflate": zlib.compress,
    ".snappy": _hadoop_block("snappy"),
    ".lz4": _hadoop_block("lz4_raw"),
}
ENDINGS = (*_PACKERS, ".GZ")
"""The ends of names that tell how a file is compressed."""
_MOST_BYTES_SHOWN = 4000
METADATA = ("_metadata", "struct<file_path:string,file_name:string,file_size:bigint>")
"""The column with the names of files."""


class CaseFile(Protocol):
    """A file of a case; ``path`` is relative to the folder of the case."""

    @property
    def path(self) -> str: ...

    def content(self) -> bytes:
        """The bytes of the file."""

    def smaller(self) -> Iterator[CaseFile]:
        """Files with less content."""

    def shown(self) -> str:
        """The file as a text for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFile:
    """A text file as the pieces of its content, mostly lines. The end of its name decides the compression."""

    path: str
    pieces: tuple[bytes, ...]

    def content(self) -> bytes:
        """The concatenated pieces, compressed."""
        data = b"".join(self.pieces)
        suffix = next((suffix for suffix in _PACKERS if self.path.lower().endswith(suffix)), None)
        return data if suffix is None else _PACKERS[suffix](data)

    def smaller(self) -> Iterator[LineFile]:
        """Files without some of the pieces, or with a shorter piece."""
        for kept in _shorter(self.pieces):
            yield replace(self, pieces=kept)
        for at, piece in enumerate(self.pieces):
            for cut in _shorter(piece):
                yield replace(self, pieces=(*self.pieces[:at], cut, *self.pieces[at + 1 :]))

    def shown(self) -> str:
        """The uncompressed bytes, line by line."""
        data = b"".join(self.pieces)
        lines = data[:_MOST_BYTES_SHOWN].splitlines(keepends=True)
        more = [f"... {len(data)} bytes in all"] if len(data) > _MOST_BYTES_SHOWN else []
        return "\n".join([*(f"  {line!r}" for line in lines), *more]) or "  (no bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a columnar format.

    Attributes:
        rows: the content.
        settings: how the file is written; ``write`` knows what they mean.
    """

    path: str
    rows: pa.Table
    write: Callable[[pa.Table, Mapping[str, Any]], bytes]
    settings: Mapping[str, Any]

    def content(self) -> bytes:
        """The bytes that ``write`` returns."""
        return self.write(self.rows, self.settings)

    def smaller(self) -> Iterator[TableFile]:
        """Files with fewer rows, columns or settings."""
        count = self.rows.num_rows
        for kept in _shorter(range(count)):
            yield replace(self, rows=self.rows.take(list(kept)) if len(kept) else self.rows.slice(0, 0))
        for at in range(self.rows.num_columns if self.rows.num_columns > 1 else 0):
            yield replace(self, rows=self.rows.remove_column(at))
        for name in self.settings:
            yield replace(self, settings={key: self.settings[key] for key in self.settings if key != name})

    def shown(self) -> str:
        """The settings, types and rows."""
        named = zip(self.rows.column_names, self.rows.columns, strict=True)
        rows = "\n".join(f"  {name}: {column.to_string()[:2000]}" for name, column in named)
        return f"  {dict(self.settings)}\n  {self.rows.schema.to_string()}\n{rows}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is read, and how.

    Attributes:
        format: the reader.
        name: the arguments that produce the case again.
        columns: names and types as Spark writes them; None if the schema is inferred.
        options: options of both readers.
        own_options: options of our reader alone.
        own_columns: columns of strings that ``own_options`` add to our rows alone.
        zone: the time zone of the session.
        machine_zone, jvm_zone: the time zones of the Python process and of Spark's JVM.
        modified_s: the modification times of files, by their names without folders.
        cuts: where each file is cut, as shares of its length.
        stored: the types to which Spark reads the columns by default, for formats that store types.
        truth: returns the rows to expect, by the path of the file, for files that Spark cannot read.
        side: what reads on our side, if not a reader of files: "parsed" is ``flip27_source.parsed`` over
            their lines, "native" is a native read, and "http" reads the lines as records of an API.
        settings_of_spark: settings of the session in which Spark's reader reads.
    """

    format: str
    name: str
    files: tuple[CaseFile, ...]
    columns: tuple[tuple[str, str], ...] | None
    options: Mapping[str, str] = field(default_factory=dict)
    own_options: Mapping[str, str] = field(default_factory=dict)
    own_columns: tuple[str, ...] = ()
    zone: str = "UTC"
    machine_zone: str = "UTC"
    jvm_zone: str = "UTC"
    modified_s: Mapping[str, float] = field(default_factory=dict)
    cuts: tuple[float, ...] = ()
    stored: Mapping[str, str] = field(default_factory=dict)
    truth: Callable[[Case, pa.Schema], Mapping[str, pa.Table]] | None = None
    side: str = ""
    settings_of_spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def reader(self) -> str:
        """What reads on our side, by its name in the table of differences."""
        return self.format if self.side in ("", "http") else f"{self.side} {self.format}"

    @property
    def is_hidden_from_spark(self) -> bool:
        """Whether Spark cannot read the files."""
        return self.truth is not None

    @property
    def ddl(self) -> str | None:
        """The schema as DDL; None if it is inferred."""
        if self.columns is None:
            return None
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)

    def smaller(self) -> Iterator[Case]:
        """Cases with one thing less, with the largest reductions first."""
        for files in _shorter(self.files):
            if files:
                yield replace(self, files=files)
        for name in self.options:
            yield replace(self, options=_without(self.options, name))
        if self.own_options:
            yield replace(self, own_options={}, own_columns=(), modified_s={})
        if self.columns is not None and len(self.columns) > 1:
            for at in range(len(self.columns)):
                yield replace(self, columns=self.columns[:at] + self.columns[at + 1 :])
        for cuts in _shorter(self.cuts):
            yield replace(self, cuts=cuts)
        if self.zone != "UTC":
            yield replace(self, zone="UTC")
        if self.machine_zone != "UTC":
            yield replace(self, machine_zone="UTC")
        for at, one in enumerate(self.files):
            if "/" in one.path:
                yield self._with_file(at, replace(one, path=one.path.rpartition("/")[2]))  # type: ignore[type-var]
            for less in one.smaller():
                yield self._with_file(at, less)

    def _with_file(self, at: int, file: CaseFile) -> Case:
        return replace(self, files=(*self.files[:at], file, *self.files[at + 1 :]))


def _shorter(items: Any) -> Iterator[Any]:
    """The items without everything, without each half, then without ever shorter stretches."""
    size = len(items)
    step = size
    while step:
        for start in range(0, size, step):
            yield items[:start] + items[start + step :] if not isinstance(items, range) else [
                *items[:start], *items[start + step :]
            ]  # fmt: skip
        step //= 2


def _without(options: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != name}
