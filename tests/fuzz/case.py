"""A case: some files, a schema and options, and how the files are cut. One case is made of one seed.

A case is a value, and knows the cases that are a little smaller than it: that is all the shrinker needs.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import zstandard

_PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
_MOST_BYTES_SHOWN = 4000


class CaseFile(Protocol):
    """A file of a case, ``path`` below the folder of the case."""

    @property
    def path(self) -> str: ...

    def content(self) -> bytes:
        """Its bytes."""

    def smaller(self) -> Iterator[CaseFile]:
        """The same with less in it."""

    def shown(self) -> str:
        """What a person needs to see of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFile:
    """A file of text, as the pieces that it was made of: mostly lines. Compressed by the end of its name."""

    path: str
    pieces: tuple[bytes, ...]

    def content(self) -> bytes:
        """The pieces, one behind the other."""
        data = b"".join(self.pieces)
        suffix = next((suffix for suffix in _PACKERS if self.path.endswith(suffix)), None)
        return data if suffix is None else _PACKERS[suffix](data)

    def smaller(self) -> Iterator[LineFile]:
        """Without some pieces; with a piece cut."""
        for kept in _shorter(self.pieces):
            yield replace(self, pieces=kept)
        for at, piece in enumerate(self.pieces):
            for cut in _shorter(piece):
                yield replace(self, pieces=(*self.pieces[:at], cut, *self.pieces[at + 1 :]))

    def shown(self) -> str:
        """The bytes, line by line."""
        data = b"".join(self.pieces)
        lines = data[:_MOST_BYTES_SHOWN].splitlines(keepends=True)
        more = [f"... {len(data)} bytes in all"] if len(data) > _MOST_BYTES_SHOWN else []
        return "\n".join([*(f"  {line!r}" for line in lines), *more]) or "  (no bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a columnar format.

    Attributes:
        rows: what it holds.
        settings: how it is written; what they mean is known to ``write``.
    """

    path: str
    rows: pa.Table
    write: Callable[[pa.Table, Mapping[str, Any]], bytes]
    settings: Mapping[str, Any]

    def content(self) -> bytes:
        """As it is written."""
        return self.write(self.rows, self.settings)

    def smaller(self) -> Iterator[TableFile]:
        """With fewer rows, columns, settings."""
        count = self.rows.num_rows
        for kept in _shorter(range(count)):
            yield replace(self, rows=self.rows.take(list(kept)) if len(kept) else self.rows.slice(0, 0))
        for at in range(self.rows.num_columns if self.rows.num_columns > 1 else 0):
            yield replace(self, rows=self.rows.remove_column(at))
        for name in self.settings:
            yield replace(self, settings={key: self.settings[key] for key in self.settings if key != name})

    def shown(self) -> str:
        """Types, settings and rows."""
        rows = "\n".join(f"  {name}: {column.to_string()[:2000]}" for name, column in _named(self.rows))
        return f"  {dict(self.settings)}\n  {self.rows.schema.to_string()}\n{rows}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is read.

    Attributes:
        format: the reader. name: how to get it again.
        columns: names and types as Spark writes them; None where the schema is to be found out.
        options: of both readers. own_options: of ours alone.
        own_columns: columns that ``own_options`` ask for, text all of them; Spark is not asked for them.
        zone: of the session.
        cuts: where each file is cut, as shares of its length.
        stored: what Spark reads each column of the files to where nobody says otherwise, if they tell it.
        truth: the rows that have to come out, by the path of the file, where Spark has no reader for them.
        is_parsed: our side is ``flip27_source.parsed`` over the lines of the files.
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
    cuts: tuple[float, ...] = ()
    stored: Mapping[str, str] = field(default_factory=dict)
    truth: Callable[[Case, pa.Schema], Mapping[str, pa.Table]] | None = None
    is_parsed: bool = False
    settings_of_spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def reader(self) -> str:
        """What reads on our side, as the table of differences calls it."""
        return f"parsed {self.format}" if self.is_parsed else self.format

    @property
    def is_hidden_from_spark(self) -> bool:
        """Whether Spark cannot read it."""
        return self.truth is not None

    @property
    def ddl(self) -> str | None:
        """The schema as text."""
        if self.columns is None:
            return None
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)

    def smaller(self) -> Iterator[Case]:
        """Cases with one thing less, large steps first."""
        for files in _shorter(self.files):
            if files:
                yield replace(self, files=files)
        for name in self.options:
            yield replace(self, options=_without(self.options, name))
        if self.own_options:
            yield replace(self, own_options={}, own_columns=())
        if self.columns is not None and len(self.columns) > 1:
            for at in range(len(self.columns)):
                yield replace(self, columns=self.columns[:at] + self.columns[at + 1 :])
        for cuts in _shorter(self.cuts):
            yield replace(self, cuts=cuts)
        if self.zone != "UTC":
            yield replace(self, zone="UTC")
        for at, one in enumerate(self.files):
            if "/" in one.path:
                yield self._with_file(at, replace(one, path=one.path.rpartition("/")[2]))  # type: ignore[type-var]
            for less in one.smaller():
                yield self._with_file(at, less)

    def _with_file(self, at: int, file: CaseFile) -> Case:
        return replace(self, files=(*self.files[:at], file, *self.files[at + 1 :]))


def _shorter(items: Any) -> Iterator[Any]:
    """Without the one half, the other half, then ever smaller stretches."""
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


def _named(table: pa.Table) -> Sequence[tuple[str, pa.ChunkedArray]]:
    return list(zip(table.column_names, table.columns, strict=True))
