"""A Redis stream, read by ranges of entry ids, which Redis gives out in order and never twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import redis

from flip27_source import (
    DiscoveringEnumerator,
    Discovery,
    Option,
    Options,
    PerformsActions,
    SplitReader,
    SplitSize,
)
from flip27_source.errors import DiscoveryError, SplitReadError
from flip27_source.options import boolean, integer

URL = Option(
    name="url", parse=str, default="redis://127.0.0.1:6379", doc="Server, with its password.", secret=True
)
STREAM = Option(name="stream", parse=str, default="events", doc="Key of the stream.", first_start_only=True)
SPLIT = Option(name="entriesPerSplit", parse=integer(minimum=1), default=1000, doc="Most entries of a split.")
DELETE = Option(
    name="deleteEntries", parse=boolean, default=False, doc="Delete entries once their batch is complete."
)


@dataclass(frozen=True, kw_only=True)
class Entries:
    """``count`` entries of the stream, from the id ``split_id`` to the id ``last``."""

    split_id: str
    stream: str
    last: str
    count: int

    @property
    def size(self) -> SplitSize:
        """Counts against the limit on rows."""
        return SplitSize(files=0, rows=self.count)


class RedisStreamEnumerator(PerformsActions[Entries], DiscoveringEnumerator[Entries]):
    """Finds the entries that were added; when they are read for good, it can delete them."""

    options = (URL, STREAM, SPLIT, DELETE)

    def discover(self, position: str | None) -> Discovery[Entries, str]:
        """Splits of the entries after the id ``position``, up to the one that is the newest now."""
        stream, last = self.options_given[STREAM], position or "0-0"
        found: list[Entries] = []
        with connected(self.options_given, undecodable="replace") as server:
            newest = server.xinfo_stream(stream)["last-generated-id"] if server.exists(stream) else "0-0"
            if in_order(newest) < in_order(last):
                raise DiscoveryError(
                    f"stream {stream} ends at {newest}, before {last}, which was found: it was made anew",
                    remedy="read it with a new query, from its beginning",
                )
            while page := server.xrange(stream, f"({last}", newest, self.options_given[SPLIT]):
                first, last = page[0][0], page[-1][0]
                found.append(Entries(split_id=first, stream=stream, last=last, count=len(page)))
        return Discovery(found, last)

    @classmethod
    def wants_finished_splits(cls, options: Options) -> bool:
        """Only where there is something to do about them."""
        return options[DELETE]

    def notify_splits_finished(self, checkpoint_id: int, splits: Sequence[Entries]) -> None:
        """Have the entries deleted: each split by itself, as another may have been set aside."""
        for split in splits:
            self.context.perform_after_completion(split)

    def perform(self, action: Entries) -> None:
        """Delete the entries; a second time there are none."""
        with connected(self.options_given, undecodable="replace") as server:
            if entries := server.xrange(action.stream, action.split_id, action.last):
                server.xdel(action.stream, *(entry_id for entry_id, _ in entries))


class RedisStreamReader(SplitReader[Entries]):
    """Yields the id and the fields of each entry."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """Fields are text; an entry with others cannot be read."""
        return pa.schema({"id": pa.string(), "fields": pa.map_(pa.string(), pa.string())})

    def read(self, split: Entries) -> Iterator[tuple[Any, ...]]:
        """All entries of the split: when some are gone, the error says so."""
        with connected(self.context.options) as server:
            entries = server.xrange(split.stream, split.split_id, split.last)
        if len(entries) != split.count:
            raise SplitReadError(
                f"stream {split.stream}, {split.split_id} to {split.last}: {len(entries)} of {split.count} "
                "entries are left",
                remedy="keep entries until they are read: no MAXLEN, no deletion by others",
            )
        yield from entries


def connected(options: Options, *, undecodable: str = "strict") -> redis.Redis:
    """A connection to the server of the options; to be closed. Whoever needs ids alone may ``replace``."""
    return redis.Redis.from_url(options[URL], decode_responses=True, encoding_errors=undecodable)


def in_order(entry_id: str) -> tuple[int, ...]:
    """An id, ``milliseconds-number``, as it compares."""
    return tuple(map(int, entry_id.split("-")))
