"""The mysql source in a simulation: a table is written to while its rows and its log are read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pymysql
import pytest

from flip27_source.enumerators.mysql import connection
from flip27_source.enumerators.mysql.enumerator import MysqlEnumerator
from flip27_source.enumerators.mysql.schema import ENVELOPE_SCHEMA
from flip27_source.enumerators.tables_with_log import poller as shared_poller
from flip27_source.readers.mysql import chunk_rows
from flip27_source.readers.mysql.reader import MysqlReader
from flip27_source.testing.under_test import SourceUnderTest

from .lives import DefectFound, Life, changes_of_log
from .mysql_server import TRUNCATE, Change, MysqlServer, MysqlSession

_STATEMENT_S = 0.01
_KEYS = 30


class MysqlLife(Life):
    """The mysql source: the real enumerator and reader, whose sessions are those of the model."""

    OPTIONS: ClassVar = {
        "onDataLoss": (None, None, "report"), "snapshotChunkRows": ("2", "5"), "parallelism": (None, "1"),
        "maxLogLagDuringSnapshot": (None, "1", "1000"), "maxBytesPerTrigger": (None, None, "500"),
        "discoveryRetries": ("0", "3"), "taskReports": (None, "always"),
    }  # fmt: skip
    is_repeatable: ClassVar = False

    def begin(self) -> None:
        draw = self.random
        self.server = MysqlServer()
        self.server.commit([(None, (key, "first")) for key in range(1, draw.randint(3, _KEYS))])
        self.busy = draw.choice((0.0, 0.1, 0.3))
        self.cuts = draw.choice((0.0, 0.0, 0.01))
        self.waited_s = 0.0
        self.options = {
            "host": "simulated", "database": "shop", "tables": "orders", "changeFormat": "envelope",
            "requestInterval": "1s",
        }  # fmt: skip
        self.options |= self.drawn(self.OPTIONS)
        self.trouble_bucket()
        self.patches = pytest.MonkeyPatch()
        clock = SimpleNamespace(monotonic=lambda: self.of.steady_ms / 1000 + self.waited_s, sleep=self._wait)
        for module in (shared_poller, chunk_rows):
            self.patches.setattr(module, "time", clock)
        self.patches.setattr(connection, "_connection_type", lambda: self._connect)

    def end(self) -> None:
        self.patches.undo()

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(
            options=self.options, enumerator=MysqlEnumerator, reader=MysqlReader, schema=ENVELOPE_SCHEMA
        )

    def arrive(self) -> None:
        for _ in range(self.random.randint(1, 12)):
            self._write()

    def calm(self) -> None:
        self.busy = self.cuts = 0.0

    def check(self) -> None:
        for _ in range(4):
            self.of.pass_time(60_000)
            self.of.run_to_the_end()
        changes = changes_of_log(self.of, ENVELOPE_SCHEMA.names, "_pos", ("_pos", "_seq", "op", "key"))
        if losses := [loss.what for loss in self.of.losses()]:
            raise DefectFound(f"losses were reported, and nobody did any harm: {losses}")
        copy: dict[int, str] = {}
        for row in changes:
            if row["op"] == "t":
                copy.clear()
            elif row["op"] == "d":
                copy.pop(msgspec.json.decode(row["key"])["id"], None)
            else:
                after = msgspec.json.decode(row["after"])
                copy[after["id"]] = after["v"]
        if copy != self.server.rows[-1]:
            raise DefectFound(
                f"the copy has {sorted(copy.items())}, and not {sorted(self.server.rows[-1].items())}"
            )

    def _write(self) -> None:
        """Commit a transaction: a TRUNCATE, or changes of some rows, of which some get another key."""
        draw, rows = self.random, dict(self.server.rows[-1])
        if draw.random() < 0.03:
            self.server.commit([TRUNCATE])
            return
        changes: list[Change] = []
        for _ in range(draw.randint(1, 4)):
            key, value = draw.randint(1, _KEYS), f"{self.server.committed}.{len(changes)}"
            before = (key, rows.pop(key)) if key in rows else None
            other = draw.randint(1, _KEYS) if before is not None and draw.random() < 0.2 else key
            after = None if before is not None and (other in rows or draw.random() < 0.3) else (other, value)
            if after is not None:
                rows[after[0]] = after[1]
            changes.append((before, after))
        self.server.commit(changes)

    def _connect(self, **_: Any) -> MysqlSession:
        return MysqlSession(self.server, self._step)

    def _step(self) -> None:
        self.waited_s += _STATEMENT_S
        if self.busy and self.random.random() < self.busy:
            self._write()
        if self.cuts and self.random.random() < self.cuts:
            self.of.fault("cut", "a connection is cut")
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

    def _wait(self, seconds: float) -> None:
        self.waited_s += seconds
