"""The postgres source in a simulation: a table's rows and changes, and what administrators do meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import psycopg
import pytest

from flip27_source.enumerators.postgres.connection import ServerError
from flip27_source.enumerators.postgres.enumerator import PostgresEnumerator
from flip27_source.enumerators.postgres.schema import ENVELOPE_SCHEMA
from flip27_source.errors import DataLossError, DiscoveryError, Flip27Error, SplitReadError
from flip27_source.readers.postgres.reader import PostgresReader
from flip27_source.source_options import TARGET_BATCH_DURATION
from flip27_source.testing.under_test import SourceUnderTest

from .lives import DefectFound, Life, changes_of_log
from .postgres_server import ACTS, IN_MID_SNAPSHOT, NAME, PostgresServer
from .postgres_sessions import Session, connect_to_model

_STATEMENT_S = 0.01
_LONG_STATEMENT_S = 0.5
_EPISODES = 4
"""How often an administrator alters something for a while at the end of a life: most of it can be missed."""
_REFUSALS = (DataLossError, DiscoveryError, SplitReadError, ServerError)
_ALL_TABLES, _FIRST_TABLE = "public.*", "public.t0"
_OTHER_KEYS = {"identity_is_set", "key_is_moved"}
_SCHEMA = ENVELOPE_SCHEMA.remove(ENVELOPE_SCHEMA.get_field_index("unchanged"))


class PostgresLife(Life):
    """The postgres source: the real enumerator and reader, whose sessions are those of the model."""

    OPTIONS: ClassVar = {
        "onDataLoss": (None, None, "report"), "snapshotChunkRows": ("2", "5"), "parallelism": (None, "1"),
        "maxLogLagDuringSnapshot": (None, "1", "100"), "maxBytesPerTrigger": (None, None, "50"),
        "discoveryRetries": ("0", "3"), "heartbeatBytes": (None, "100"), "taskReports": (None, "always"),
        "tables": (_ALL_TABLES, _FIRST_TABLE),
    }  # fmt: skip
    IN_MID_SNAPSHOT: ClassVar[tuple[str, ...]] = ()
    is_repeatable: ClassVar = False

    def begin(self) -> None:
        draw = self.random
        in_mid_snapshot = draw.choice(self.IN_MID_SNAPSHOT) if self.IN_MID_SNAPSHOT else None
        self.server = PostgresServer(draw, self.of.tell, in_mid_snapshot)
        self.statement_s = _LONG_STATEMENT_S if in_mid_snapshot else _STATEMENT_S
        self.busy = draw.choice((0.0, 0.1, 0.3))
        if in_mid_snapshot is not None:
            self.busy = 0.3
        self.cuts = draw.choice((0.0, 0.0, 0.01))
        self.is_refused = False
        self.waited_s = 0.0
        self.sessions = 0
        self.options = {
            "host": "simulated", "database": "shop", "slotName": NAME, "changeFormat": "envelope",
            "requestInterval": "1s",
        }  # fmt: skip
        self.options |= self.drawn(self.OPTIONS)
        if in_mid_snapshot is not None:
            self.options |= {"snapshotChunkRows": "2", "parallelism": "1", "tables": _ALL_TABLES}
        self.was_narrowed, self.left_until = False, 0
        self.trouble_bucket()
        self.patches = pytest.MonkeyPatch()
        connect_to_model(
            self.patches,
            self._connect,
            monotonic=lambda: self.of.steady_ms / 1000 + self.waited_s,
            sleep=self._wait,
            random_=draw,
        )

    def end(self) -> None:
        self.patches.undo()

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(
            options=self.options, enumerator=PostgresEnumerator, reader=PostgresReader, schema=_SCHEMA
        )

    def redraw(self) -> None:
        before = self.options["tables"]
        if self.random.random() < 0.4:
            self.options["tables"] = self.random.choice(self.OPTIONS["tables"])
        super().redraw()
        self._leave_out(before)

    def _leave_out(self, before: str) -> None:
        """Note since when, and until when, tables of the option are left out."""
        self.was_narrowed |= before == _ALL_TABLES != self.options["tables"]
        if self.was_narrowed and before != _ALL_TABLES:
            self.left_until = self.server.end

    def arrive(self) -> None:
        self.server.change(self.random.randint(1, 12))

    def failed(self, error: Flip27Error) -> None:
        """Once faults have ended, the query may refuse to continue if changes may be lost."""
        has_no_key = self.server.sends_no_key and "a partition had another identity" in str(error)
        if self.of.is_calm and (self.server.harms or has_no_key) and isinstance(error, _REFUSALS):
            self.of.tell(f"this is a refusal after {sorted(self.server.harms)}")
            self.is_refused = True

    def calm(self) -> None:
        self.busy = self.cuts = 0.0
        self.server.calm()
        if self.random.random() < 0.5:
            before, self.options["tables"] = self.options["tables"], _ALL_TABLES
            self._leave_out(before)
        # The remedy of the error about lost data.
        self.options["onDataLoss"] = "report"
        # No batch keeps to a target of 1 ms: it reads one byte of the log, and so would thousands after it.
        if self.options.get(TARGET_BATCH_DURATION.name) == "1ms":
            del self.options[TARGET_BATCH_DURATION.name]

    def check(self) -> None:
        for _ in range(_EPISODES):
            if not self._is_complete():
                return
            self._alter_for_a_while()
        self._is_complete()

    def _alter_for_a_while(self) -> None:
        """An administrator does something, or the option leaves tables out; a poll may miss it."""
        server = self.server
        if self.options["tables"] == _ALL_TABLES and len(server.tables) > 1 and self.random.random() < 0.2:
            for name in (_FIRST_TABLE, _ALL_TABLES):
                before, self.options["tables"] = self.options["tables"], name
                self._leave_out(before)
                for table in server.tables.values():
                    server.write_rows(table)
                self.of.restart()
                self.of.run_to_the_end()
            return
        if not server.harms and self.random.random() < 0.5:
            server.acts = [self.random.choice(ACTS)]
        server.alter_for_a_while(self.random.choice((self.of.run_to_the_end, lambda: None)))
        if self.random.random() < 0.5:
            self.of.restart()

    def _is_complete(self) -> bool:
        """Read everything; False if changes may rightly be missing.

        Raises:
            DefectFound: a change is missing or wrong.
        """
        for _ in range(6):
            # Tables are listed from time to time, and horizons settle from one poll to the next.
            self.of.pass_time(60_000)
            self.of.run_to_the_end()
        changes = changes_of_log(self.of, _SCHEMA.names, "_lsn", ("table", "_lsn", "_seq", "op"))
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
                is_by_index = "id" not in key and not self.server.harms.isdisjoint(_OTHER_KEYS)
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
            return False
        expected = Counter(
            (table.name, *row[:3])
            for table in self.server.tables.values()
            if self.options["tables"] in (_ALL_TABLES, f"public.{table.name}")
            for row in self.server.rows_of(table.oid, self.server.snapshot()).values()
        )
        copied = list(replica(changes, is_repeated=max(self.server.chunks.values(), default=0) > 1))
        found = Counter(row for row, _ in copied)
        lost = expected - found
        more = Counter({row: n for row, n in (found - expected).items() if not self._is_left(row)})
        if any(self._is_hidden(row[0]) for row in (*lost, *more)):
            return False
        self.of.outcome.lost, self.of.outcome.duplicated = lost.total(), more.total()
        if lost or more:
            raise DefectFound(
                f"lost: {sorted(lost)}; wrong: {sorted(more)}; after {sorted(self.server.harms)}"
            )
        self._check_columns(dict(copied))
        return True

    def _is_hidden(self, name: str) -> bool:
        """Whether other columns of a table may hide that it was unlogged: both write its rows again."""
        shapes = [shape for one in self.server.tables.values() if one.name == name for shape in one.shapes]
        kinds = {tuple((c.number, c.type_oid, c.modifier) for c in shape) for shape in shapes}
        return "is_unlogged" in self.server.harms and len(kinds) > 1

    def _check_columns(self, copied: dict[tuple[str, ...], dict[str, str]]) -> None:
        """Check that each row has the columns, and their values, of some time since it was last written."""
        for table in self.server.tables.values():
            for row, seen in self.server.seen_in(table).items() if len(table.shapes) > 1 else ():
                found = copied.get((table.name, *map(str, row)))
                if found is not None and found not in seen:
                    raise DefectFound(
                        f"wrong columns: {found} instead of {seen[-1]}; after {sorted(self.server.harms)}"
                    )

    def _is_left(self, row: tuple[str, ...]) -> bool:
        """Whether the row was changed while the query left its table out: a copy keeps it as it was."""
        table = next(table for table in self.server.tables.values() if table.name == row[0])
        if not self.was_narrowed or f"public.{table.name}" == _FIRST_TABLE:
            return False
        writes = [
            (write, transaction.commit or 0)
            for transaction in self.server.log
            for write in transaction.writes
            if write.table == table.oid
        ]
        gone = (
            commit < self.left_until
            for write, commit in writes
            if write.op == "t" or (write.before or ())[: len(row) - 1] == row[1:]
        )
        # A former table of this name was dropped then: nobody told the query that its rows are gone.
        is_former = self.server.dropped.get(table.name, self.left_until) < self.left_until and all(
            (write.after or ())[: len(row) - 1] != row[1:] for write, _ in writes
        )
        # Without a key, its rows are added to those that were read before.
        return self.options["tables"] != _ALL_TABLES or not table.primary or is_former or any(gone)

    def _connect(self, *, application_name: str, **_: Any) -> Session:
        self.sessions += 1
        is_task = application_name.startswith(("flip27 chunk", "flip27 log window", "flip27 reader"))
        process = self.of.query.advancing if is_task else self.of.query.process
        return Session(self.server, process, self.sessions, self._step)

    def _step(self) -> None:
        self.waited_s += self.statement_s
        if self.busy and self.random.random() < self.busy:
            self.server.step()
        if self.cuts and self.random.random() < self.cuts:
            self.of.fault("cut", "a connection is cut")
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    def _wait(self, seconds: float) -> None:
        self.waited_s += seconds
        self.server.wait()


class SnapshotLife(PostgresLife):
    """The postgres source, while an administrator alters keys of tables whose many rows are being copied."""

    IN_MID_SNAPSHOT: ClassVar = IN_MID_SNAPSHOT


def replica(
    changes: list[dict[str, Any]], *, is_repeated: bool
) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """The rows of a copy to which the changes are applied by the key that each of them has.

    Each is the table with the values of its first columns, and the values of all columns by name.

    Args:
        is_repeated: whether a chunk was read again: it may have rows that arrive again, maybe without a key.
    """
    copy: list[tuple[str, dict[str, str], dict[str, str]]] = []
    for change in changes:
        table, op = change["table"].rpartition(".")[2], change["op"]
        key, before, after = (_row(change[name]) for name in ("key", "before", "after"))
        named = key or (before if op in "ud" else after if op == "c" and is_repeated else None)
        copy = [
            (other, row, values)
            for other, row, values in copy
            if other != table or not (op == "t" or (named and named.items() <= row.items()))
        ]
        if after:
            copy.append((table, after, _values(change["after"])))
    return (((table, *row.values()), values) for table, row, values in copy)


def _values(text: str | None) -> dict[str, str]:
    return {} if text is None else {name: str(value) for name, value in json.loads(text).items()}


def _row(text: str | None) -> dict[str, str]:
    """The values of the first columns, by their first names."""
    values = ((name.removesuffix("2"), value) for name, value in _values(text).items())
    return {name: value for name, value in values if name != "added"}
