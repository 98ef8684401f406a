"""Small queries whose state is kept forever: what happens in each, and what it reads when it continues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from flip27_source import edits, hybrid
from flip27_source.coordination.batch_limits import Limits
from flip27_source.driver.environment import Environment
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.http_api.enumerator import HttpEnumerator
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.enumerators.mysql.enumerator import MysqlEnumerator
from flip27_source.enumerators.postgres.enumerator import PostgresEnumerator
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.enumerators.sql.enumerator import SqlEnumerator
from flip27_source.readers.http_api.reader import HttpReader
from flip27_source.readers.kafka.reader import KafkaReader
from flip27_source.readers.mysql.reader import MysqlReader
from flip27_source.readers.postgres.reader import PostgresReader
from flip27_source.readers.sequence import SequenceReader
from flip27_source.readers.sql.reader import SqlReader
from flip27_source.readers.text import TextReader
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.snapshots.store import LocalStore
from flip27_source.testing.inline_environment import inline_environment
from flip27_source.testing.spark_side import rows_of
from tests.driver.batches import SCHEMA, Batches
from tests.driver.test_action_runner import Archives
from tests.driver.test_ranges_read_again import Numbers
from tests.driver.test_reports import Endpoints, Flaky, Pages, Talker, Tells
from tests.golden import worlds
from tests.golden.mysql_shop import MysqlShop, mysql_shop
from tests.golden.worlds import LANDING, Shop
from tests.simulator.postgres_server import NAME
from tests.timed_lines import TIMED, TimedLines
from tests.toy_sources import LINES, EchoReader, NumbersAsLines, Shelf

TWO = Limits(files=2)


class Query(Batches):
    """A query with its state in a folder. Every run of it stores the same."""

    def __init__(self, story: Story, state: Path, **more: str) -> None:
        self._state = state
        options = {**story.options, "stateLocation": str(state), "requestInterval": "0s", **more}
        super().__init__(story.enumerator, story.reader, options, store=LocalStore(str(state)))
        self.schema = story.schema

    def environment(self) -> Environment:
        fixed = inline_environment(
            now_ms=self.clock, steady_ms=self.steady_clock, new_random=lambda: "27" * 8
        )
        return replace(fixed, process=lambda: 27)

    def batch(self, limits: Limits | None = None) -> list[Any] | None:
        self.now_ms += 1_000
        return super().batch(limits)

    def rest(self) -> list[Any]:
        """The rows of the next batches, up to one without rows."""
        rows: list[Any] = []
        while more := self.batch():
            rows += more
        return rows

    def started_attempt(self, task: PlannedSubtask, number: int = 0) -> Iterator[Any]:
        for item in self.start_attempt(task, number, self.store):
            yield from (row[0] if len(row) == 1 else row for row in rows_of(item))


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A query and what happens to it.

    Attributes:
        enumerator, reader: None if the options name them.
        schema: of the rows.
        world: within it there is the data that the query reads, in its final state.
        play: runs batches, of which the last is committed.
        next_rows: the rows that it reads after a restart, or in a fork.
    """

    enumerator: type[Any] | None = None
    reader: type[Any] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: pa.Schema = SCHEMA
    world: Callable[[], AbstractContextManager[None]] = nullcontext
    play: Callable[[Query], None]
    next_rows: list[Any]


def _two_batches(query: Query, limits: Limits = TWO) -> None:
    query.batch(limits)
    query.batch(limits)


def _reads_two_sources(query: Query) -> None:
    """Two sources of a chain are read, and two files of the third one."""
    for _ in range(5):
        query.batch(TWO)


def _shelves(*names: str) -> Callable[[Query], None]:
    def play(query: Query) -> None:
        query.shelve(*names)
        _two_batches(query)

    return play


def _quarantines(query: Query) -> None:
    Flaky.broken.clear()
    Flaky.broken["b"] = 1
    _shelves("a", "b", "c", "d", "e")(query)


LONG = ("b" * 9_000, "c" * 9_000)
"""Names of splits that together are stored outside the document when they are quarantined."""


def _quarantines_long_names(query: Query) -> None:
    Flaky.broken.clear()
    Flaky.broken.update(dict.fromkeys(LONG, 0))
    _shelves("a", *LONG, "d", "e", "f", "g")(query)
    query.batch(TWO)


def _retries_ranges(query: Query) -> None:
    """Two ranges of a split are quarantined, and the first of them is read again."""
    Numbers.broken = set(range(4))
    _two_batches(query)
    Numbers.broken = set()
    _retry(query, "sequence-0")
    query.batch()


def _retry(query: Query, *split_ids: str) -> None:
    state = query.options["stateLocation"]
    edits.submit(edits.plan("quarantine retry", state=state, why="mended", who="golden", splits=split_ids))
    query.restart()


def _retries_records(query: Query) -> None:
    """Four records do not have the columns; later, two of them wait to be read, and one is quarantined."""
    schema, query.schema = query.schema, pa.schema([("value", pa.struct([("id", pa.int64())]))])
    query.batch(TWO)
    query.schema = schema
    query.batch(TWO)
    _retry(query, "orders/0@0", "orders/0@1", "refunds/0@0")
    query.batch(Limits(rows=1))


def _copies_half(query: Query) -> None:
    """Eight chunks are read, then changes of their rows, then one more chunk; two chunks wait."""
    Shop.opened(1)
    query.batch()
    Shop.present.commit_next()
    query.batch()
    Shop.present.commit_next()
    query.batch(Limits(rows=1))
    Shop.present.commit_next()
    query.batch(Limits(rows=1))


def _copies_half_of_mysql(query: Query) -> None:
    """Chunks are read, then changes of their rows, then one more chunk; others wait."""
    MysqlShop.opened(1)
    for _ in range(3):
        query.batch(Limits(rows=2))
        MysqlShop.present.commit_next()


def _reads_log_of_mysql(query: Query) -> None:
    """All rows are read, then the changes of two transactions."""
    MysqlShop.opened(1)
    while query.batch() is not None:
        pass
    for _ in range(2):
        MysqlShop.present.commit_next()
        query.batch()


def _reads_log(query: Query) -> None:
    """All rows are read, then the changes of two transactions; the slot cannot be advanced."""
    Shop.opened(1)
    Shop.present.refuses = "advance"
    while query.batch() is not None:
        pass
    for _ in range(2):
        Shop.present.commit_next()
        query.batch()


def _files(**options: str) -> Story:
    return Story(
        enumerator=FilesEnumerator,
        reader=TextReader,
        options={"path": LANDING, "fileOrder": "name", **options},
        world=worlds.landing,
        play=_two_batches,
        next_rows=["5"],
    )


def _postgres(play: Callable[[Query], None], next_rows: list[Any]) -> Story:
    return Story(
        enumerator=PostgresEnumerator,
        reader=PostgresReader,
        options={
            "host": "simulated", "database": "shop", "tables": "public.*", "slotName": NAME,
            "changeFormat": "envelope", "snapshotChunkRows": "1", "maxLogLagDuringSnapshot": "1",
            "parallelism": "1",
        },
        schema=pa.schema([("table", pa.string()), ("op", pa.string()), ("after", pa.string())]),
        world=worlds.shop,
        play=play,
        next_rows=next_rows,
    )  # fmt: skip


def _mysql(play: Callable[[Query], None], next_rows: list[Any]) -> Story:
    return Story(
        enumerator=MysqlEnumerator,
        reader=MysqlReader,
        options={
            "host": "simulated", "database": "shop", "tables": "orders", "changeFormat": "envelope",
            "snapshotChunkRows": "2", "maxLogLagDuringSnapshot": "1", "parallelism": "1",
        },
        schema=pa.schema([("table", pa.string()), ("op", pa.string()), ("after", pa.string())]),
        world=mysql_shop,
        play=play,
        next_rows=next_rows,
    )  # fmt: skip


def _kafka(
    value: pa.DataType, next_rows: list[Any], play: Callable[[Query], None] = _two_batches, **options: str
) -> Story:
    return Story(
        enumerator=KafkaEnumerator,
        reader=KafkaReader,
        options={
            "kafka.bootstrap.servers": "simulated:9092", "subscribe": "orders,refunds",
            "startingOffsets": "earliest", "maxOffsetsPerPartition": "2", **options,
        },
        schema=pa.schema([("value", value)]),
        world=worlds.topics,
        play=play,
        next_rows=next_rows,
    )  # fmt: skip


def _http(path: str, next_rows: list[Any], **options: str) -> Story:
    return Story(
        enumerator=HttpEnumerator,
        reader=HttpReader,
        options={"path": f"https://api.example.com/{path}", "endpoints": "orders,refunds", **options},
        world=worlds.api,
        play=_two_batches,
        next_rows=next_rows,
    )


STORIES = {
    "files-exact": _files(),
    "files-name-cursor": _files(seenFiles="nameCursor"),
    "files-modified-cursor": _files(seenFiles="modifiedCursor", allowedLateness="365d"),
    "files-retained": _files(cleanSource="delete", **{"cleanSource.retentionDuration": "3650d"}),
    "files-buckets": replace(
        _files(
            cleanSource="delete", eventTimeOrder="true", eventTimeColumn="at", eventTimeBucket="1h",
            watermarkDelay="1h", **{"cleanSource.retentionDuration": "3650d"},
        ),
        reader=TimedLines,
        schema=TIMED,
        world=worlds.timed_landing,
        next_rows=[
            (row, datetime(1970, 1, 1, hour, tzinfo=UTC))
            for row, hour in (("c2", 2), ("b3", 3), ("b9", 9))
        ],
    ),
    "sequence": Story(
        enumerator=SequenceEnumerator,
        reader=SequenceReader,
        options={"end": "9", "numSplits": "2", "rowsPerSplit": "2"},
        play=_two_batches,
        next_rows=["8"],
    ),
    "ranges": Story(
        enumerator=SequenceEnumerator,
        reader=Numbers,
        options={"end": "9", "rowsPerSplit": "2", "onSplitError": "quarantine", "maxSplitAttempts": "1"},
        play=_retries_ranges,
        next_rows=[2, 3, 4, 5, 6, 7, 8],
    ),
    "pages": Story(
        enumerator=Endpoints,
        reader=Pages,
        options={"pollInterval": "0s", "maxRowsPerSplit": "2"},
        world=worlds.pages,
        play=_two_batches,
        next_rows=["e", "f"],
    ),
    "events": Story(
        enumerator=Talker, reader=Tells, play=_shelves("a", "b", "c"), next_rows=["after-b", "after-c"]
    ),
    "actions": Story(
        enumerator=Archives, reader=EchoReader, play=_shelves("a", "b", "c", "d", "e"), next_rows=["e"]
    ),
    "quarantine": Story(
        enumerator=Shelf,
        reader=Flaky,
        options={"onSplitError": "quarantine"},
        play=_quarantines,
        next_rows=["e0", "e1", "e2"],
    ),
    "quarantine-blocks": Story(
        enumerator=Shelf,
        reader=Flaky,
        options={"onSplitError": "quarantine"},
        play=_quarantines_long_names,
        next_rows=["g0", "g1", "g2"],
    ),
    "postgres": _postgres(
        _copies_half,
        [
            ("public.t0", "r", '{"id":10,"other":10,"value":"u3"}'),
            ("public.t0", "r", '{"id":11,"other":11,"value":"c4"}'),
            ("public.t0", "u", '{"id":2,"other":2,"value":"u3"}'),
        ],
    ),
    "postgres-log": _postgres(
        _reads_log,
        [
            ("public.t0", "u", '{"id":2,"other":2,"value":"u3"}'),
            ("public.t0", "u", '{"id":10,"other":10,"value":"u3"}'),
            ("public.t0", "c", '{"id":11,"other":11,"value":"c4"}'),
            ("public.t1", "d", None),
        ],
    ),
    "mysql": _mysql(
        _copies_half_of_mysql,
        [
            ("shop.orders", "u", '{"id":2,"v":"u3"}'),
            *(("shop.orders", "r", f'{{"id":{key},"v":"c{key}"}}') for key in range(5, 10)),
            ("shop.orders", "r", '{"id":10,"v":"u3"}'),
            ("shop.orders", "r", '{"id":11,"v":"c4"}'),
        ],
    ),
    "mysql-log": _mysql(
        _reads_log_of_mysql,
        [
            ("shop.orders", "u", '{"id":2,"v":"u3"}'),
            ("shop.orders", "u", '{"id":10,"v":"u3"}'),
            ("shop.orders", "c", '{"id":11,"v":"c4"}'),
        ],
    ),
    "kafka": _kafka(pa.binary(), [b'{"id":"orders-4"}', b'{"id":"refunds-4"}']),
    "kafka-quarantine": _kafka(
        pa.struct([("id", pa.string())]),
        [{"id": name} for name in ("orders-1", "orders-4", "refunds-0", "refunds-4")],
        _retries_records,
        valueFormat="json", onRecordError="quarantine",
    ),
    "chain": Story(
        options=hybrid(
            ("sequence", {"end": "3", "rowsPerSplit": "2", "reader": NumbersAsLines}),
            ("sequence", {"start": "{switch}", "end": "6", "rowsPerSplit": "2", "reader": NumbersAsLines}),
            ("files", {"path": LANDING, "reader": "text", "fileOrder": "name"}),
            parallelism=1,
        ),
        schema=LINES,
        world=worlds.landing,
        play=_reads_two_sources,
        next_rows=["3", "4", "5"],
    ),
    "sql": Story(
        enumerator=SqlEnumerator,
        reader=SqlReader,
        options={
            "driver": "sqlite", "uriEnv": "GOLDEN_DATABASE", "table": "orders",
            "cursorColumns": "updated_at,id", "partitionRows": "2",
        },
        schema=pa.schema([("id", pa.int64())]),
        world=worlds.database,
        play=partial(_two_batches, limits=Limits(rows=2)),
        next_rows=[5, 6, 7],
    ),
    "http": _http(
        "sized_page",
        ["5", "6", "5", "6", "7", "8", "7", "8", "9", "9"],
        pagination="page", recordsPath="items", pageSizeParam="per_page", pageSize="2", maxRowsPerSplit="2",
    ),
    "http-since": _http(
        "since",
        ["8", "9", "8", "9"],
        pagination="since", sinceField="at", idField="id", pageSize="4", maxRowsPerSplit="3",
    ),
}  # fmt: skip
