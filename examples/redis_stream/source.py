"""A Redis stream, read in ranges of entry ids. Redis assigns ids in order and never reuses one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import redis

from flip27_source import (
    Change,
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
    name="url", parse=str, default="redis://127.0.0.1:6379", doc="Server URL, with password.", secret=True
)
STREAM = Option(name="stream", parse=str, default="events", doc="The stream.", changes=Change.FIRST_START)
SPLIT = Option(name="entriesPerSplit", parse=integer(minimum=1), default=1000, doc="Maximum size of a split.")
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
        """The entries count toward the limit on rows."""
        return SplitSize(files=0, rows=self.count)


class RedisStreamEnumerator(PerformsActions[Entries], DiscoveringEnumerator[Entries]):
    """Finds new entries; can delete them once their batch is complete."""

    options = (URL, STREAM, SPLIT, DELETE)

    def discover(self, position: str | None) -> Discovery[Entries, str]:
        """Splits of the entries after the id ``position``, up to the newest entry."""
        stream, last = self.options_given[STREAM], position or "0-0"
        found: list[Entries] = []
        with connected(self.options_given, undecodable="replace") as server:
            newest = server.xinfo_stream(stream)["last-generated-id"] if server.exists(stream) else "0-0"
            if in_order(newest) < in_order(last):
                raise DiscoveryError(
                    f"stream {stream} ends at {newest}, before {last}, the stored position: it was recreated",
                    remedy="read the new stream with a new query",
                )
            while page := server.xrange(stream, f"({last}", newest, self.options_given[SPLIT]):
                first, last = page[0][0], page[-1][0]
                found.append(Entries(split_id=first, stream=stream, last=last, count=len(page)))
        return Discovery(found, last)

    @classmethod
    def wants_finished_splits(cls, options: Options) -> bool:
        """Whether finished splits cause an action."""
        return options[DELETE]

    def notify_splits_finished(self, checkpoint_id: int, splits: Sequence[Entries]) -> None:
        """Request the deletion of the entries, one action for each split, because others may be set aside."""
        for split in splits:
            self.context.perform_after_completion(split)

    def perform(self, action: Entries) -> None:
        """Delete the entries; a second call finds none."""
        with connected(self.options_given, undecodable="replace") as server:
            if entries := server.xrange(action.stream, action.split_id, action.last):
                server.xdel(action.stream, *(entry_id for entry_id, _ in entries))


class RedisStreamReader(SplitReader[Entries]):
    """Yields the id and the fields of each entry."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """Fields are text; an entry with other fields cannot be read."""
        return pa.schema({"id": pa.string(), "fields": pa.map_(pa.string(), pa.string())})

    def read(self, split: Entries) -> Iterator[tuple[Any, ...]]:
        """All entries of the split; an error if some are gone."""
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
    """A connection to the server, which the caller closes. ``replace`` is for callers that only use ids."""
    return redis.Redis.from_url(options[URL], decode_responses=True, encoding_errors=undecodable)


def in_order(entry_id: str) -> tuple[int, ...]:
    """An id, ``milliseconds-number``, as a tuple that sorts correctly."""
    return tuple(map(int, entry_id.split("-")))
