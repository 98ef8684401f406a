"""The postgres source in a simulation: a table's rows and changes, and what administrators do meanwhile."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import psycopg
import pytest

from flip27_source.enumerators.postgres import enumerator, poller, server
from flip27_source.enumerators.postgres.connection import ServerError
from flip27_source.enumerators.postgres.enumerator import PostgresEnumerator
from flip27_source.enumerators.postgres.schema import ENVELOPE_SCHEMA
from flip27_source.errors import DataLossError, DiscoveryError, Flip27Error, SplitReadError
from flip27_source.readers.postgres import chunk_rows, log
from flip27_source.readers.postgres.reader import PostgresReader
from flip27_source.testing.under_test import SourceUnderTest

from .lives import DefectFound, Life
from .postgres_server import NAME, PostgresServer
from .postgres_sessions import Session

_STATEMENT_S = 0.01
_REFUSALS = (DataLossError, DiscoveryError, SplitReadError, ServerError)
_OPS_IN_ORDER = "dcurt"
_ALL_TABLES, _FIRST_TABLE = "public.*", "public.t0"
_SCHEMA = ENVELOPE_SCHEMA.remove(ENVELOPE_SCHEMA.get_field_index("unchanged"))


class PostgresLife(Life):
    """The postgres source: the real enumerator and reader, whose sessions are those of the model."""

    OPTIONS: ClassVar = {
        "onDataLoss": (None, None, "report"), "snapshotChunkRows": ("2", "5"), "parallelism": (None, "1"),
        "maxLogLagDuringSnapshot": (None, "1", "100"), "maxBytesPerTrigger": (None, None, "50"),
        "discoveryRetries": ("0", "3"), "heartbeatBytes": (None, "100"), "taskReports": (None, "always"),
        "tables": (_ALL_TABLES, _FIRST_TABLE),
    }  # fmt: skip
    is_repeatable: ClassVar = False

    def begin(self) -> None:
        draw = self.random
        self.server = PostgresServer(draw, self.of.tell)
        self.busy = draw.choice((0.0, 0.1, 0.3))
        self.cuts = draw.choice((0.0, 0.0, 0.01))
        self.is_refused = False
        self.waited_s = 0.0
        self.sessions = 0
        self.options = {
            "host": "simulated", "database": "shop", "slotName": NAME, "changeFormat": "envelope",
            "requestInterval": "1s",
        }  # fmt: skip
        self.options |= self.drawn(self.OPTIONS)
        self.was_narrowed = False
        if self.of.bucket is not None:
            self.of.bucket.trouble = draw.choice((0.0, 0.01, 0.05))
        clock = SimpleNamespace(monotonic=lambda: self.of.steady_ms / 1000 + self.waited_s, sleep=self._wait)
        self.patches = pytest.MonkeyPatch()
        for module in (poller, server, chunk_rows, log):
            self.patches.setattr(module, "time", clock)
        for module in (chunk_rows, log):
            self.patches.setattr(module, "copied_rows", Session.copy)
        self.patches.setattr(log, "produced_ahead", lambda items, **_: items)
        self.patches.setattr(psycopg, "connect", self._connect)
        made = SimpleNamespace(uuid4=lambda: uuid.UUID(int=draw.getrandbits(128)))
        self.patches.setattr(enumerator, "uuid", made)

    def end(self) -> None:
        self.patches.undo()

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(
            options=self.options, enumerator=PostgresEnumerator, reader=PostgresReader, schema=_SCHEMA
        )

    def redraw(self) -> None:
        named = self.options["tables"]
        super().redraw()
        self.was_narrowed |= named == _ALL_TABLES != self.options["tables"]

    def arrive(self) -> None:
        self.server.change(self.random.randint(1, 12))

    def ask(self) -> None:
        self.ask_for_a_savepoint()

    def failed(self, error: Flip27Error) -> None:
        """Once faults have ended, the query may refuse to continue if changes may be lost."""
        if self.of.is_calm and self.server.harms and isinstance(error, _REFUSALS):
            self.of.tell(f"this is a refusal after {sorted(self.server.harms)}")
            self.is_refused = True

    def calm(self) -> None:
        self.busy = self.cuts = 0.0
        self.server.calm()
        if self.random.random() < 0.5:
            self.options["tables"] = _ALL_TABLES
        # The remedy of the error about lost data.
        self.options["onDataLoss"] = "report"

    def check(self) -> None:
        for _ in range(6):
            # Tables are listed from time to time, and horizons settle from one poll to the next.
            self.of.pass_time(60_000)
            self.of.run_to_the_end()
        changes = list(self._changes())
        self.of.outcome.rows = len(changes)
        events = Counter(
            (row["table"], row["_lsn"], row["_seq"], row["op"]) for row in changes if row["op"] != "r"
        )
        if more := [event for event, times in events.items() if times > 1]:
            self.of.outcome.duplicated = len(more)
            raise DefectFound(f"changes were delivered twice: {more}")
        moved = {
            (transaction.commit, self.server.tables[write.table].name)
            for transaction in self.server.log
            for write in transaction.writes
            if write.moves and write.is_keyed and write.table in self.server.tables
        }
        unkeyed = {row["table"] for row in changes if row["op"] == "r" and row["key"] is None}
        for row in changes:
            if row["op"] == "u" and (row["_lsn"], row["table"].partition(".")[2]) in moved:
                before, after, key = (_row(row[name]) for name in ("before", "after", "key"))
                # With a full identity, the log does not say which of its keys the table had at that time,
                # and no poll may have seen the key, or the name that it had.
                is_by_index = "id" not in key and "identity_is_set" in self.server.harms
                is_unseen = row["table"] in unkeyed or '"id2":' in (row["before"] or "")
                has_other_key = is_by_index if key else is_unseen
                if "id" in before and before["id"] != after["id"] and not has_other_key:
                    raise DefectFound(f"a change of a key is not a delete and an insert: {row}")
        losses = [loss.what for loss in self.of.losses()]
        if not self.server.harms and self.of.copies:
            # An attempt that no longer counts may read after its batch is complete, and its log is gone.
            losses = [what for what in losses if "has moved the slot" not in what]
        if losses and not self.server.harms:
            raise DefectFound(f"losses were reported, and nobody did any harm: {losses}")
        if losses or self.is_refused:
            return
        expected = Counter(
            (table.name, *row)
            for table in self.server.tables.values()
            if self.options["tables"] in (_ALL_TABLES, f"public.{table.name}")
            for row in self.server.rows_of(table.oid, self.server.snapshot()).values()
        )
        found = Counter(replica(changes, is_repeated=max(self.server.chunks.values(), default=0) > 1))
        lost = expected - found
        more = Counter({row: n for row, n in (found - expected).items() if not self._is_left(row, expected)})
        self.of.outcome.lost, self.of.outcome.duplicated = lost.total(), more.total()
        if lost or more:
            raise DefectFound(
                f"lost: {sorted(lost)}; wrong: {sorted(more)}; after {sorted(self.server.harms)}"
            )

    def _is_left(self, row: tuple[str, ...], expected: Counter[tuple[str, ...]]) -> bool:
        """Whether the row may have been deleted while the query left its table out: a copy keeps the row."""
        table = next(table for table in self.server.tables.values() if table.name == row[0])
        key = table.index if table.identity == "i" else table.primary
        same = (
            other
            for other in expected
            if other[0] == row[0] and all(other[1 + column] == row[1 + column] for column in key)
        )
        is_other = f"public.{table.name}" != _FIRST_TABLE
        return self.was_narrowed and is_other and (not key or not any(same))

    def _changes(self) -> Iterator[dict[str, Any]]:
        """The rows of the sink: batch by batch, in the order of the log."""
        query = self.of.query
        for batch in query.sink.batches:
            if batch.batch_id in query.logs.commits:
                rows = [dict(zip(_SCHEMA.names, row, strict=True)) for row in batch.rows]
                yield from sorted(
                    rows, key=lambda row: (row["_lsn"], row["_seq"], _OPS_IN_ORDER.index(row["op"]))
                )

    def _connect(self, *, application_name: str, **_: Any) -> Session:
        self.sessions += 1
        is_task = application_name.startswith(("flip27 chunk", "flip27 log window", "flip27 reader"))
        process = self.of.query.advancing if is_task else self.of.query.process
        return Session(self.server, process, self.sessions, self._step)

    def _step(self) -> None:
        self.waited_s += _STATEMENT_S
        if self.busy and self.random.random() < self.busy:
            self.server.step()
        if self.cuts and self.random.random() < self.cuts:
            self.of.fault("cut", "a connection is cut")
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    def _wait(self, seconds: float) -> None:
        self.waited_s += seconds
        self.server.wait()


def replica(changes: list[dict[str, Any]], *, is_repeated: bool) -> Iterator[tuple[str, ...]]:
    """The rows of a copy to which the changes are applied by the key that each of them has.

    Args:
        is_repeated: whether a chunk was read again: it may have rows that arrive again, maybe without a key.
    """
    copy: list[tuple[str, dict[str, Any]]] = []
    for change in changes:
        table, op = change["table"].rpartition(".")[2], change["op"]
        key, before, after = (_row(change[name]) for name in ("key", "before", "after"))
        named = key or (before if op in "ud" else after if op == "c" and is_repeated else None)
        copy = [
            (other, row)
            for other, row in copy
            if other != table or not (op == "t" or (named and named.items() <= row.items()))
        ]
        if after:
            copy.append((table, after))
    return ((table, *row.values()) for table, row in copy)


def _row(text: str | None) -> dict[str, Any]:
    values = {} if text is None else json.loads(text.replace('"id2":', '"id":'))
    return {name: str(value) for name, value in values.items()}
