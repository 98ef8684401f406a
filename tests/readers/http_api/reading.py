"""Reads endpoints of the test API with the http reader, from position to position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from flip27_source.enumerators.http_api.enumerator import HttpEnumerator, HttpSplit
from flip27_source.events import Progress
from flip27_source.options import Options
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.http_api.reader import HttpReader
from flip27_source.source import declared_options
from tests.http_api import HttpApi, Record

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.string())])

KINDS: dict[str, dict[str, str]] = {
    "cursor": {"pagination": "cursor", "recordsPath": "data.items", "cursorPath": "meta.next"},
    "feed": {"pagination": "cursor", "recordsPath": "items", "cursorPath": "next"},
    "link": {"pagination": "link"},
    "body_link": {"pagination": "link", "recordsPath": "items", "linkPath": "links.next"},
    "page": {"pagination": "page", "recordsPath": "items"},
    "strict_page": {"pagination": "page", "recordsPath": "items"},
    "sized_page": {
        "pagination": "page", "recordsPath": "items", "pageSizeParam": "per_page", "pageSize": "4"
    },
    "since": {"pagination": "since", "sinceField": "at", "pageSize": "4", "idField": "id"},
    "since_without_ids": {"pagination": "since", "sinceField": "at", "pageSize": "4"},
    "none": {},
}  # fmt: skip
"""The ways in which the test API is paged, and the options for each."""

ENDLESS: dict[str, dict[str, str]] = {
    "endless_cursor": {
        "pagination": "cursor", "recordsPath": "items", "cursorPath": "next", "emptyPageEnds": "true"
    },
    "endless_link": {"pagination": "link", "emptyPageEnds": "true"},
}  # fmt: skip
"""The ways in which each page has a next one; what a cursor means depends on the size of the pages."""


def records(*ids: int) -> list[Record]:
    """Records with these ids. Two consecutive ids share a time: 2 and 3, 4 and 5, and so on."""
    return [{"id": number, "at": f"2026-01-01T00:00:{number // 2:02}Z"} for number in ids]


@dataclass
class Share:
    """The result of one read of a split.

    Attributes:
        marks: the position after each page, and the number of rows before it.
    """

    ids: list[int] = field(default_factory=list)
    marks: list[tuple[HttpSplit | None, int]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    @property
    def position(self) -> HttpSplit | None:
        return self.marks[-1][0]


def split_of(api: HttpApi, kind: str) -> HttpSplit:
    """The split of an endpoint, at its start."""
    return HttpSplit(split_id=f"{api.url}/{kind.removesuffix('_without_ids')}/orders")


def reader_of(
    api: HttpApi,
    options: Mapping[str, str],
    *,
    schema: pa.Schema = SCHEMA,
    ends: Mapping[str, Any] | None = None,
    share: Share | None = None,
    now_s: float = 0.0,
    most_requests: int = 10_000,
    time_zone: str = "UTC",
) -> HttpReader:
    """Open a reader. Its pauses are recorded in ``share`` instead of being waited for."""
    raw = {"path": api.url, "requestTimeout": "5s", **options}
    parsed = Options.parse(raw, declared_options(HttpEnumerator, HttpReader))
    pauses = [] if share is None else share.pauses
    reader = HttpReader(pause=pauses.append, now_s=lambda: now_s, most_requests=most_requests)
    reader.open(
        SourceReaderContext(options=parsed, schema=schema, end_positions=ends or {}, time_zone=time_zone)
    )
    return reader


def read(
    api: HttpApi,
    kind: str,
    split: HttpSplit | None = None,
    *,
    pages: int | None = None,
    end: HttpSplit | None = None,
    is_replay: bool = False,
    now_s: float = 0.0,
    most_requests: int = 10_000,
    **options: str,
) -> Share:
    """Read from ``split`` on, up to ``pages`` Progress marks, or as a replay up to ``end``."""
    start = split or split_of(api, kind)
    share = Share()
    ends = {start.split_id: end} if is_replay or end is not None else {}
    reader = reader_of(
        api,
        {**(KINDS | ENDLESS).get(kind, {}), **options},
        ends=ends,
        share=share,
        now_s=now_s,
        most_requests=most_requests,
    )
    try:
        rows_at_mark = 0
        for item in reader.read(start):
            if isinstance(item, Progress):
                share.marks.append((stored(item.split), len(share.ids)))
                rows_at_mark = len(share.ids)
                if len(share.marks) == pages:
                    break
                continue
            assert item.schema.equals(SCHEMA)
            share.ids += item.column("id").to_pylist()
        assert rows_at_mark == len(share.ids), "rows after the last Progress"
    finally:
        reader.close()
    return share


def stored(split: HttpSplit | None) -> HttpSplit | None:
    """The split as it is restored from a checkpoint."""
    return None if split is None else msgspec.json.decode(msgspec.json.encode(split), type=HttpSplit)


def ids_page_by_page(api: HttpApi, kind: str) -> list[int]:
    """Read all ids, each page with a new reader from the position of the previous one."""
    return ids_from(api, kind, None, pages=1)


def ids_from(api: HttpApi, kind: str, split: HttpSplit | None, pages: int | None = None) -> list[int]:
    """Read all ids from a position on, until a read finds nothing new."""
    found: list[int] = []
    for _ in range(200):
        share = read(api, kind, split, pages=pages)
        found += share.ids
        if not share.marks:
            return found
        split = share.position
    raise AssertionError(f"no end after 200 reads: {split}")
