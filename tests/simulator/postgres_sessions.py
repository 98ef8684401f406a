"""Sessions with the model of a PostgreSQL server: what it answers to each statement of the real source."""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import gc
import io
import random
import re
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Self

import psycopg
import pytest

from flip27_source.enumerators.postgres import enumerator, poller, server
from flip27_source.enumerators.postgres.split import lsn_text, parse_lsn
from flip27_source.enumerators.tables_with_log import poller as shared_poller
from flip27_source.readers.postgres import chunk_rows, log
from flip27_source.readers.postgres.copied_rows import CopiedBlock
from flip27_source.readers.postgres.relations import Relation
from flip27_source.testing.steps import Killed
from tests.enumerators.postgres.model_server import RECORD, Snapshot
from tests.readers.postgres import pgoutput_messages as pg

from .lives import DefectFound
from .postgres_server import INT4, INT8, LOCKED_FOR, NAME, TEXT, VARCHAR, PostgresServer, Row, Slot, Table
from .process import Process

_TYPE_NAMES = {INT4: "int4", INT8: "int8", TEXT: "text", VARCHAR: "varchar"}
_SQL_NAMES = {INT4: "integer", INT8: "bigint", TEXT: "text", VARCHAR: "character varying"}
_NO_LENGTH = "base = 0), -1)"
_NAMED = re.compile(r'"(\w+)"\."(\w+)"')
_BOUND = re.compile(r"\(([^()]+)\) (>=|<) \(((?:CAST\(%s AS text\)::[a-z ]+(?:\(\d+\))?(?:, )?)+)\)")
_CUT_TO = re.compile(r"::[a-z ]+(?:\((\d+)\))?")
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_ROWS_PER_BLOCK = (3, 20)
_MOST_CALLS = 20_000
_BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

Rows = Sequence[tuple[Any, ...]]


class Result:
    """The rows of a statement."""

    def __init__(self, rows: Rows = ()) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)


class Session:
    """A connection, as psycopg's.

    Args:
        process: the process that it belongs to, which may be killed at each statement.
        step: called before each statement: the server goes on.
    """

    def __init__(
        self, server: PostgresServer, process: Process, number: int, step: Callable[[], None]
    ) -> None:
        self._server, self._process, self._number, self._step = server, process, number, step
        self._started = server.starts
        self._calls = 0
        self._handlers: list[Callable[[Any], None]] = []
        self._snapshot: Snapshot | None = None
        self.closed = False
        self.info = SimpleNamespace(server_version=server.version, dbname="shop")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True

    def cancel(self) -> None:
        pass

    def add_notice_handler(self, handler: Callable[[Any], None]) -> None:
        self._handlers.append(handler)

    def remove_notice_handler(self, handler: Callable[[Any], None]) -> None:
        self._handlers.remove(handler)

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def execute(self, sql: str, parameters: Any = None) -> Result:
        self._enter(" ".join(sql.split()[:3]))
        for fragment, answer in _ANSWERS:
            if fragment in sql:
                return Result(answer(self, self._server, sql, parameters) or ())
        raise NotImplementedError(f"the model of the server does not know: {sql}")

    def copy(self, sql: str, parameters: Sequence[Any], **_: Any) -> Iterator[CopiedBlock]:
        """The rows of COPY in blocks."""
        self._enter("COPY")
        is_log = "pg_logical_slot_peek" in sql
        rows = self._messages(sql, parameters) if is_log else self._chunk(sql, parameters)
        most = self._server.random.choice(_ROWS_PER_BLOCK)
        for first in range(0, len(rows), most):
            some = rows[first : first + most]
            yield CopiedBlock(bytearray(b"".join(some)), [*map(len, some)])
            self._enter("COPY")

    def _enter(self, call: str) -> None:
        server = self._server
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise DefectFound(f"a session sends statements without end: {call}")
        try:
            self._process.gate("sql", call)
        except OSError as error:
            self._fail(str(error))
        except Killed:
            self.closed = True
            raise
        self._step()
        _, since = server.locked.get(self._number, (0, server.steps))
        if self.closed or self._started != server.starts or server.steps - since >= LOCKED_FOR:
            self._fail("terminating connection due to administrator command")

    def _fail(self, why: str) -> None:
        self.closed = True
        raise psycopg.OperationalError(why)

    # The log.

    def _slot(self) -> Slot:
        slot = self._server.slot
        if slot is None:
            raise psycopg.errors.UndefinedObject(f"replication slot {NAME} does not exist")
        return slot

    def _sent(self, end: int) -> list[tuple[int, int, list[tuple[Relation, bytes]]]]:
        """Position, id and changes of each transaction of the slot that has changes."""
        server = self._server
        if server.random.random() < server.readers:
            raise psycopg.errors.ObjectInUse(f"replication slot {NAME} is active for PID 7")
        sent = list(server.sent(self._slot(), min(end, server.durable)))
        if any(transaction.xid in server.gaps for transaction in sent):
            if server.version < 180_000:
                raise psycopg.errors.UndefinedObject(f'publication "{NAME}" does not exist')
            for handler in self._handlers:
                handler(SimpleNamespace(sqlstate="55000", message_primary="skipped loading publication"))
        changes = (
            (t.commit or 0, t.xid, [change.messages for change in t.writes if change.messages]) for t in sent
        )
        return [one for one in changes if one[2]]

    def has_changes(self, _: str, parameters: Sequence[Any]) -> Rows:
        end, position = parse_lsn(parameters[1]), parse_lsn(parameters[4])
        return [(any(commit + RECORD > position for commit, _, _ in self._sent(end)),)]

    def last_changes(self, _: str, parameters: Sequence[Any]) -> Rows:
        return [(pg.commit(commit),) for commit, _, _ in self._sent(parse_lsn(parameters[1]))[::-1][:3]]

    def _messages(self, _: str, parameters: Sequence[Any]) -> list[bytes]:
        messages: list[bytes] = []
        described: dict[int, Relation] = {}
        for commit, xid, changes in self._sent(parse_lsn(parameters[1])):
            messages.append(pg.begin(commit, xid=xid & 0xFFFFFFFF))
            for relation, message in changes:
                if described.get(relation.oid) != relation:
                    described[relation.oid] = relation
                    messages.append(pg.described(relation))
                messages.append(message)
            messages.append(pg.commit(commit))
        rows = [struct.pack(">hi", 1, len(message)) + message for message in messages]
        rows.append(b"\xff\xff")
        rows[0] = _HEADER + rows[0]
        return rows

    def create_slot(self, *_: Any) -> Rows:
        server = self._server
        if server.slot is not None:
            raise psycopg.errors.DuplicateObject(f'replication slot "{NAME}" already exists')
        slot = server.slot = Slot(waits_for={transaction.xid for transaction in server.running})
        while slot.confirmed is None:
            self._enter("waiting")
            if server.random.random() < server.impatience:
                raise psycopg.OperationalError("the driver did not wait")  # its session goes on at the server
            server.wait()
        return [(lsn_text(slot.confirmed),)]

    def slot_row(self, *_: Any) -> Rows:
        server, slot = self._server, self._server.slot
        if slot is None:
            return []
        confirmed = None if slot.confirmed is None else lsn_text(slot.confirmed)
        asked_at = _BEGAN + dt.timedelta(seconds=server.steps)
        kept = server.end - (slot.confirmed or server.end)
        return [
            ("pgoutput", "shop", confirmed, None, "reserved", kept, False, False, "logical", asked_at, True)
        ]

    def advance(self, _: str, parameters: Sequence[Any]) -> Rows:
        slot, lsn = self._slot(), parse_lsn(parameters[1])
        if slot.confirmed is None or lsn < slot.confirmed:
            raise psycopg.errors.ObjectNotInPrerequisiteState("cannot advance replication slot backwards")
        slot.confirmed = min(lsn, self._server.durable)
        if self._server.random.random() < 0.5:
            slot.saved = slot.confirmed
        return []

    def history(self, *_: Any) -> Rows:
        return [(f"{self._server.timeline:08X}.history", self._server.history)]

    # The publication.

    def publication(self, *_: Any) -> Rows:
        found = self._server.publication
        return [] if found is None else [(found.is_via_root, "owner", True, list(found.unpublished))]

    def published(self, *_: Any) -> Rows:
        server, found = self._server, self._server.publication
        rows: list[tuple[Any, ...]] = []
        for table in server.tables.values():
            if found is not None and found.has(table):
                entry = found.entries.get(table.oid)
                for part in [table] if found.is_via_root else table.files:
                    is_filtered = entry is not None and entry.is_filtered
                    rows.append(
                        (part.schema, part.name, is_filtered, entry is not None and entry.is_cut, False)
                    )
        return rows

    def marks(self, _: str, parameters: Mapping[str, Any]) -> Rows:
        server, found = self._server, self._server.publication
        if found is None:
            return []
        marks = {"publication": str(found.altered_by)}
        for table in (server.tables[oid] for oid in sorted(parameters["tables"]) if oid in server.tables):
            entry, schema = found.entries.get(table.oid), found.schemas.get(table.schema)
            marks[str(table.oid)] = "none"
            if entry is not None:
                marks[str(table.oid)] = f"entry {entry.oid}"
            elif found.kind == "all":
                marks[str(table.oid)] = "all"
            elif schema is not None:
                marks[str(table.oid)] = f"schema {schema} {table.placed_by}"
            for part in table.files:
                if part.oid not in found.entries:
                    truncated = " truncated" if part.index_node == part.node + 1 else ""
                    name = f"{table.oid} storage {part.oid} {server.columns_digest(part)}"
                    marks[name] = f"file {part.node}{truncated}"
            for part in table.partitions:
                marks[f"{table.oid} identity {part.oid}"] = f"{part.marked_by} {part.oid}:{part.marked_by}*"
        return [(found.oid, marks)]

    def alter(self, sql: str, _: Any) -> Rows:
        server = self._server
        tables = [server.table_named(*names) for names in _NAMED.findall(sql)]
        present = [table for table in tables if table is not None]
        if len(present) < len(tables):
            raise psycopg.errors.UndefinedTable("relation does not exist")
        if any(table.is_unlogged for table in present):
            raise psycopg.errors.InvalidParameterValue("cannot add relation: it is unlogged")
        if sql.startswith("CREATE"):
            if server.publication is not None:
                raise psycopg.errors.DuplicateObject(f'publication "{NAME}" already exists')
            server.create_publication("tables", present)
        elif server.publication is None:
            raise psycopg.errors.UndefinedObject(f'publication "{NAME}" does not exist')
        elif server.publication.kind == "all":
            raise psycopg.errors.ObjectNotInPrerequisiteState("publication is defined as FOR ALL TABLES")
        else:
            server.add_to_publication(present)
        return []

    # The catalog.

    def tables(self, *_: Any) -> Rows:
        return [
            (
                table.oid, table.schema, table.name, bool(table.partitions), table.identity,
                [number + 1 for number in table.primary], [number + 1 for number in table.index],
                table.is_deferrable and bool(table.primary),
            )
            for table in sorted(self._server.tables.values(), key=lambda table: (table.schema, table.name))
            if not table.is_unlogged
        ]  # fmt: skip

    def key_columns(self, sql: str, parameters: Sequence[Any]) -> Rows:
        numbers, oid = parameters
        rows = []
        for column in (self.table(oid).columns[number - 1] for number in numbers):
            has_length = column.type_oid == VARCHAR and _NO_LENGTH not in sql
            length = f"({column.modifier - 4})" if has_length else ""
            collation = None if column.type_oid in (INT4, INT8) else 'pg_catalog."default"'
            rows.append((column.name, False, _SQL_NAMES[column.type_oid] + length, collation, None, None))
        return rows

    def numbers(self, _: str, parameters: Sequence[Any]) -> Rows:
        names = parameters[1]
        table = self._server.tables.get(parameters[0])
        columns = [] if table is None else table.columns
        return [([number for number, column in enumerate(columns, 1) if column.name in names] or None,)]

    def partitions(self, _: str, parameters: Sequence[Any]) -> Rows:
        table = self.table(parameters[0])
        return [
            (
                part.name,
                "UNLOGGED" if part.is_unlogged else None,
                [part.columns[number].name for number in part.identified_by]
                if part.identity in "di"
                else None,
            )
            for part in table.partitions
        ]

    def columns(self, _: str, parameters: Sequence[Any]) -> Rows:
        return [(column.name, *_type_of(column.type_oid)) for column in self.table(parameters[0]).columns]

    def types(self, _: str, parameters: Sequence[Any]) -> Rows:
        pairs = zip(*parameters, strict=True)
        return [(type_oid, modifier, *_type_of(type_oid, modifier)) for type_oid, modifier in pairs]

    def name(self, _: str, parameters: Sequence[Any]) -> Rows:
        table = self._server.tables.get(parameters[0])
        return [] if table is None else [(table.schema, table.name)]

    def table(self, oid: int) -> Table:
        table = self._server.tables.get(oid)
        if table is None:
            raise psycopg.errors.UndefinedTable(f"relation {oid} does not exist")
        return table

    def count(self, _: str, parameters: Sequence[Any]) -> Rows:
        return [(sum(oid in self._server.tables for oid in parameters[0]), self._server.snapshot().xmin)]

    # The rows.

    def lock(self, sql: str, _: Any) -> Rows:
        server, table = self._server, self._server.table_named(*_NAMED.findall(sql)[0])
        if table is None:
            raise psycopg.errors.UndefinedTable("relation does not exist")
        while any(
            change.op == "t" and change.table == table.oid for t in server.running for change in t.writes
        ):
            self._enter("waiting")
            server.wait()
        server.locked[self._number] = table.oid, server.steps
        return []

    def end(self, *_: Any) -> Rows:
        self._server.locked.pop(self._number, None)
        self._snapshot = None
        return []

    def take_snapshot(self, _: str, parameters: Sequence[Any]) -> Rows:
        self._snapshot = self._server.snapshot()
        table = self._server.table_named(*_NAMED.findall(parameters[0])[0])
        return [(str(self._snapshot), None if table is None else table.oid)]

    def _read(self, sql: str, parameters: Sequence[Any]) -> tuple[dict[str, int], list[Row]]:
        """The columns with their places, and the rows within the bounds of a statement."""
        (names,) = _NAMED.findall(sql.partition(" FROM ")[2])[:1]
        table = self._server.table_named(*names)
        if table is None:
            raise psycopg.errors.UndefinedTable("relation does not exist")
        columns = {column.name: column.number for column in table.columns}
        seen = self._server.rows_of(table.oid, self._snapshot or self._server.snapshot())
        rows = [table.filled(row) for row in seen.values()]
        left = list(parameters)
        for listed, sign, types in _BOUND.findall(sql):
            key = _numbers_of(columns, listed)
            cut = _CUT_TO.findall(types)
            bound = [text[: int(most)] if most else text for text, most in zip(left, cut, strict=False)]
            del left[: len(cut)]
            at = self._ordered(table, key, bound)
            rows = [
                r for r in rows if (self._ordered(table, key, [r[n] for n in key]) >= at) == (sign == ">=")
            ]
        return columns, rows

    def _ordered(self, table: Table, key: Sequence[int], texts: Sequence[Any]) -> list[Any]:
        types = [table.columns[number].type_oid for number in key]
        try:
            return [
                text if kind in (TEXT, VARCHAR) else int(text)
                for kind, text in zip(types, texts, strict=True)
            ]
        except ValueError as error:  # the table is another one of that name
            raise psycopg.errors.UndefinedFunction(f"operator does not exist: {error}") from error

    def _chunk(self, sql: str, parameters: Sequence[Any]) -> list[bytes]:
        self._server.locked.pop(self._number, None)
        self._server.chunks[sql, *parameters] += 1
        columns, rows = self._read(sql, parameters)
        wanted = _numbers_of(columns, sql.partition(" FROM ")[0])
        lines = []
        for row in rows:
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow([row[number] for number in wanted])
            lines.append(line.getvalue().encode())
        return lines

    def next_bound(self, sql: str, parameters: Sequence[Any]) -> Rows:
        (names,) = _NAMED.findall(sql.partition(" FROM ")[2])[:1]
        table = self._server.table_named(*names)
        columns, found = self._read(sql, parameters)
        ordered = sql.partition("ORDER BY ")[2].partition(" OFFSET")[0]
        offset = int(sql.partition(" OFFSET ")[2].split()[0])
        if table is None or offset >= len(found):
            return []
        key = _numbers_of(columns, ", ".join(re.findall(r'\.("\w+")(?=,|$)', ordered)))
        keys = [[row[number] for number in key] for row in found]
        return [tuple(sorted(keys, key=lambda texts: self._ordered(table, key, texts))[offset])]

    def ranges(self, _: str, parameters: Sequence[Any]) -> Rows:
        count, *columns, _ = parameters
        keys = list(zip(*columns, strict=True))
        return [(sum(bound <= key for bound in keys[:count]),) for key in keys[count:]]


def connect_to_model(
    patches: pytest.MonkeyPatch,
    connect: Callable[..., Session],
    *,
    monotonic: Callable[[], float],
    sleep: Callable[[float], None],
    random_: random.Random,
) -> None:
    """Let the real enumerator and reader open these sessions, and take their time and their ids from here."""
    gc.collect()  # ends the threads that keep slots for killed queries of earlier tests
    clock = SimpleNamespace(monotonic=monotonic, sleep=sleep)
    for module in (poller, shared_poller, server, chunk_rows, log):
        patches.setattr(module, "time", clock)
    for module in (chunk_rows, log):
        patches.setattr(module, "copied_rows", Session.copy)
    patches.setattr(log, "produced_ahead", lambda items, **_: items)
    patches.setattr(psycopg, "connect", connect)
    # Its thread would go on after the simulation, or the test.
    patches.setattr(poller.SlotKeeper, "keep", lambda *_: None)
    made = SimpleNamespace(uuid4=lambda: uuid.UUID(int=random_.getrandbits(128)))
    patches.setattr(enumerator, "uuid", made)


def _numbers_of(columns: Mapping[str, int], listed: str) -> list[int]:
    names = re.findall(r'"(\w+)"', listed)
    if not columns.keys() >= set(names):
        raise psycopg.errors.UndefinedColumn(f"one of the columns {', '.join(names)} does not exist")
    return [columns[name] for name in names]


def _type_of(type_oid: int, modifier: int = -1) -> tuple[Any, ...]:
    return "pg_catalog", _TYPE_NAMES[type_oid], False, modifier, ","


def _reach_id(session: Session, server: PostgresServer, *_: Any) -> None:
    server.reach_id(server.snapshot().xmax)
    server.flush()


def _horizon_id(session: Session, server: PostgresServer, *_: Any) -> Rows:
    horizon = server.observe(makes_horizon=True).horizon
    assert horizon is not None
    return [(str(horizon.xid),)]


def _oldest(session: Session, server: PostgresServer, *_: Any) -> Rows:
    if not server.running:
        return []
    gid = f"gid-{server.running[0].xid}" if server.running[0].xid in server.prepared else None
    return [(None if gid else 7, None, None, gid, None, _BEGAN)]


def _of(method: Callable[..., Rows]) -> Callable[..., Rows]:
    return lambda session, _, sql, parameters: method(session, sql, parameters)


_Answer = Callable[[Session, PostgresServer, str, Any], "Rows | None"]
_ANSWERS: list[tuple[str, _Answer]] = [
    ("pg_advisory", lambda *_: [(None,)]),
    ("locktype = 'advisory'", lambda *_: []),
    ("pg_is_in_recovery()", lambda _, server, *__: [(False, "logical", server.system)]),
    ("FROM pg_replication_slots s WHERE", _of(Session.slot_row)),
    ("pg_create_logical_replication_slot", _of(Session.create_slot)),
    ("pg_replication_slot_advance", _of(Session.advance)),
    ("SELECT pg_current_wal_flush_lsn", lambda _, server, *__: [(lsn_text(server.durable),)]),
    ("pg_walfile_name", lambda _, server, *__: [(server.system, f"{server.timeline:08X}{'0' * 16}")]),
    ("SELECT pg_current_wal_insert_lsn", lambda _, server, *__: [(lsn_text(server.end),)]),
    ("SELECT pg_current_xact_id()", _horizon_id),
    ("SELECT (SELECT count(*) FROM pg_class", _of(Session.count)),
    ("SELECT pg_snapshot_xmin", lambda _, server, *__: [(str(server.snapshot().xmin),)]),
    ("SELECT pg_snapshot_xmax", lambda _, server, *__: [(str(server.snapshot().xmax),)]),
    ("pg_logical_emit_message", _reach_id),
    ("SET LOCAL", lambda *_: []),
    ("SELECT set_config('", lambda *_: []),
    ("pg_postmaster_start_time", lambda _, server, *__: [(str(server.starts),)]),
    ("SELECT EXISTS (SELECT FROM pg_logical_slot_peek", _of(Session.has_changes)),
    ("AS t(lsn, xid, data, place)", _of(Session.last_changes)),
    ("TIMELINE_HISTORY", _of(Session.history)),
    ("locktype = 'transactionid'", _oldest),
    ("SELECT pubviaroot", _of(Session.publication)),
    ("FROM pg_publication_tables", _of(Session.published)),
    ("jsonb_object_agg(name, mark)", _of(Session.marks)),
    ("CREATE PUBLICATION", _of(Session.alter)),
    ("ALTER PUBLICATION", _of(Session.alter)),
    ("c.relkind IN ('r', 'p')", _of(Session.tables)),
    ("WITH ORDINALITY k(number, place)", _of(Session.key_columns)),
    ("SELECT array_agg(attnum)", _of(Session.numbers)),
    ("pg_partition_tree(%s::bigint::oid::regclass) l", _of(Session.partitions)),
    ("SELECT a.atttypid::bigint, a.atttypmod", _of(Session.types)),
    ("FROM pg_catalog.pg_attribute a", _of(Session.columns)),
    ("SELECT n.nspname, c.relname FROM pg_class", _of(Session.name)),
    ("SELECT relkind = 'p'", lambda s, _, __, given: [(bool(s.table(given[0]).partitions),)]),
    (" OFFSET ", _of(Session.next_bound)),
    ("BEGIN ISOLATION", _of(Session.end)),
    ("ROLLBACK", _of(Session.end)),
    ("COMMIT", _of(Session.end)),
    ("LOCK TABLE", _of(Session.lock)),
    ("to_regclass(%s)", _of(Session.take_snapshot)),
    ("SELECT pg_current_snapshot()", lambda _, server, *__: [(str(server.snapshot()),)]),
    ("unnest(%s::text[])", _of(Session.ranges)),
]
"""A part of each statement, and what answers it; the first that fits counts."""
