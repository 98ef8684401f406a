"""A model of a PostgreSQL server: tables, transactions, WAL, slot, publication, and what people do to them.

Transactions, snapshots and the durable log are those of ``ModelServer``. A change is logged when it is made,
as pgoutput will send it: by the publication, the replica identity and the names of that moment.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from flip27_source.enumerators.postgres.assigner import Observation
from flip27_source.enumerators.postgres.split import lsn_text, parse_lsn
from flip27_source.readers.postgres.relations import Relation, RelationColumn
from tests.enumerators.postgres.model_server import ModelServer, Snapshot, Transaction
from tests.readers.postgres import pgoutput_messages as pg

NAME = "orders"
"""The name of the slot, and of the publication."""

LOCKED_FOR = 20
"""A session that has locked a table is terminated if it is not heard of for so many steps of the server."""

INT4, INT8, TEXT, VARCHAR = 23, 20, 25, 1043
LONGEST = 4
"""The length of the type of keys that are texts, before it is widened."""

_STEP = 2
"""Ids are moved by this: rows stay in their partition."""

Act: TypeAlias = Iterator[bool]

Row: TypeAlias = tuple[str, ...]
"""The values of a row, as texts: its id, another number that is unique, and a value."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type_oid: int
    modifier: int = -1


@dataclass(slots=True, eq=False)
class Table:
    """A table, or a partition.

    Attributes:
        primary, index: the columns of the primary key, and of the index of the replica identity.
        identity: d, n, f or i.
        node, index_node: the files of the table and of the index of its primary key.
        placed_by: the transaction that has put it into its schema.
        marked_by: the transaction that has made its index that of the replica identity, or no longer.
    """

    oid: int
    schema: str
    name: str
    columns: list[Column]
    node: int
    index_node: int
    placed_by: int
    primary: tuple[int, ...] = (0,)
    index: tuple[int, ...] = (1,)
    identity: str = "d"
    is_deferrable: bool = False
    is_unlogged: bool = False
    marked_by: int = 0
    partitions: list[Table] = field(default_factory=list)

    @property
    def identified_by(self) -> tuple[int, ...]:
        """The columns of old rows that the log has."""
        by_default = () if self.is_deferrable else self.primary
        return {"d": by_default, "i": self.index, "f": (0, 1, 2), "n": ()}[self.identity]

    def part_of(self, row: Row) -> Table:
        return self.partitions[int(row[1]) % _STEP] if self.partitions else self

    @property
    def files(self) -> list[Table]:
        return self.partitions or [self]


@dataclass(frozen=True, slots=True)
class Entry:
    """A table in a publication."""

    oid: int
    is_filtered: bool = False
    is_cut: bool = False


_WHOLE = Entry(0)


@dataclass(slots=True)
class Publication:
    """A publication.

    Attributes:
        altered_by: the transaction that has written its row.
        kind: tables, schema or all.
        entries, schemas: what it has, by the oid of the table, and by the name of the schema.
    """

    oid: int
    altered_by: int
    kind: str = "tables"
    entries: dict[int, Entry] = field(default_factory=dict)
    schemas: dict[str, int] = field(default_factory=dict)
    unpublished: tuple[str, ...] = ()
    is_via_root: bool = True

    def has(self, table: Table) -> bool:
        if table.oid in self.entries:
            return True
        return not table.is_unlogged and (self.kind == "all" or table.schema in self.schemas)


@dataclass(slots=True)
class Slot:
    """The slot.

    Attributes:
        confirmed: None while the server creates it.
        saved: the position that it has after a crash.
        waits_for: the transactions that must end before it is created.
    """

    confirmed: int | None = None
    saved: int = 0
    waits_for: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A change of a row, or a TRUNCATE.

    Attributes:
        number: identifies the row, whatever its key.
        messages: what pgoutput sends; None if the log does not have it.
        is_keyed: whether the table has a primary key.
    """

    table: int
    op: str
    number: int = 0
    before: Row | None = None
    after: Row | None = None
    messages: tuple[Relation, bytes] | None = None
    is_keyed: bool = True

    @property
    def moves(self) -> bool:
        """Whether it gives the row another id."""
        return self.before is not None and self.after is not None and self.before[0] != self.after[0]


class PostgresServer(ModelServer):
    """The server; the random numbers decide what its users do.

    Attributes:
        harms: what was done after which a query may report a loss or refuse to continue.
        starts: how often the server was started; sessions end with it.
        history: where it has left its former timelines.
        undo: what will be put back, latest last.
        chunks: how often each chunk was read, by its statement and bounds.
    """

    def __init__(self, random_: random.Random, tell: Callable[[str], None]) -> None:
        super().__init__()
        self.random, self.tell = random_, tell
        self.version = random_.choice((160_004, 180_000))
        self.system, self.timeline, self.history = "7000", 1, ""
        self.starts = self.steps = 0
        self.tables: dict[int, Table] = {}
        self.slot: Slot | None = None
        self.publication: Publication | None = None
        self.gaps: set[int] = set()
        self.prepared: set[int] = set()
        self.harms: set[str] = set()
        self.undo: list[tuple[str, Act]] = []
        self.locked: dict[int, tuple[int, int]] = {}
        self.chunks: Counter[tuple[str, ...]] = Counter()
        self.decodable = 0
        self.admins = random_.choice((0.0, 0.1, 0.3))
        # One act hides another: a loss that was reported explains every difference.
        self.acts = random_.sample(_ACTS, random_.choice((1, 1, 2, 5)))
        self.kills = random_.choice((0.0, 0.0, 0.1))
        self.readers = random_.choice((0.0, 0.0, 0.05))
        self._oids = 16_384
        self._rows = 0
        self._make_tables()

    # Facts.

    def rows_of(self, oid: int, snapshot: Snapshot, own: Transaction | None = None) -> dict[int, Row]:
        """The rows of a table by their numbers."""
        rows: dict[int, Row] = {}
        for transaction in [t for t in self.log if snapshot.sees(t.xid)] + ([own] if own else []):
            for change in transaction.writes:
                if change.table != oid:
                    continue
                if change.op == "t":
                    rows.clear()
                elif change.after is None:
                    rows.pop(change.number, None)
                else:
                    rows[change.number] = change.after
        return rows

    def sent(self, slot: Slot, end: int) -> Iterator[Transaction]:
        """The transactions that the slot has before this position."""
        first = max(slot.confirmed or 0, self.decodable)
        return (t for t in self.log if t.commit is not None and first <= t.commit < end)

    def table_named(self, schema: str, name: str) -> Table | None:
        found = (table for table in self.tables.values() if (table.schema, table.name) == (schema, name))
        return next(found, None)

    def columns_digest(self, table: Table) -> str:
        return hashlib.md5(repr(table.columns).encode()).hexdigest()[:8]  # noqa: S324 - as the query has it

    # What happens by itself.

    def step(self) -> None:
        """Something happens: a transaction goes on, or an administrator does something."""
        self.steps += 1
        luck = self.random.random()
        if luck < self.admins:
            self._administrate()
        elif luck < self.admins + self.kills * 0.1 and not self.has_unlogged:
            self.restart()
        else:
            self._work()

    def wait(self) -> None:
        """Somebody waits for transactions: one of them ends."""
        self.steps += 1
        if self.running:
            self._end(self.running[0])
        self._complete_slot()

    def calm(self) -> None:
        """Everything is put back, and all transactions end."""
        self.admins = self.kills = self.readers = 0.0
        for transaction in list(self.running):
            self._end(transaction)
        self.locked.clear()
        while self.undo:
            self._undo(-1)
        self._complete_slot()
        self.flush()

    def change(self, count: int) -> None:
        """Let something happen several times."""
        for _ in range(count):
            self.step()

    def restart(self, *, tell: str = "the server is killed and started again") -> None:
        self.tell(tell)
        kept = [t for t in self.running if t.xid in self.prepared and t.commit is None]
        newest = max([self._newest_durable, *(t.xid for t in kept)])
        self.kill()
        self._next_xid = max(self._next_xid, newest + 1)
        self.running = kept
        self.starts += 1
        self.locked.clear()
        if self.slot is not None and self.slot.confirmed is None:
            self.slot = None
        elif self.slot is not None:
            self.slot.confirmed = self.slot.saved

    def _make_tables(self) -> None:
        for number in range(self.random.randint(1, 2)):
            table = self._new_table("public", f"t{number}", is_text=self.random.random() < 0.2)
            self.tables[table.oid] = table
            if self.random.random() < 0.25:
                parts = [self._new_table("public", f"t{number}_{part}") for part in range(_STEP)]
                table.partitions = [replace(part, columns=table.columns) for part in parts]
            table.identity = self.random.choice("dddfi")
            for part in table.partitions:
                part.identity = table.identity
            refused = self.identity_of_a_partition_is_set if table.partitions else self._deferrable
            act = refused(table)
            if self.random.random() < 0.1 and next(act, None) is not None:
                self.undo.append((refused.__name__, act))
        for _ in range(3):
            self.begin()
            for _ in range(4):
                self._write(self.running[-1])
            self._end(self.running[-1], commits=True)
        if self.random.random() < 0.2:
            self.slot = Slot(self.durable, self.durable)
            for _ in range(10):
                self._work()
        kinds = ("", "schema") if any("schema" in act for act in self.acts) else ("", "", "schema", "all")
        kind = self.random.choice(kinds)
        if kind:
            self.create_publication(kind)

    def _new_table(self, schema: str, name: str, *, is_text: bool = False) -> Table:
        key = Column("id", VARCHAR, LONGEST + 4) if is_text else Column("id", INT4)
        node = self.new_oid(4)
        columns = [key, Column("other", INT4), Column("value", TEXT)]
        return Table(node, schema, name, columns, node, self.new_oid(), self._next_xid)

    def _deferrable(self, table: Table) -> Act:
        table.identity, table.is_deferrable = "f", True
        yield True
        table.is_deferrable = False

    def new_oid(self, more: int = 1) -> int:
        self._oids += more
        return self._oids

    # Writers.

    def _work(self) -> None:
        what = self.random.random()
        if not self.running or (what < 0.2 and len(self.running) < 3):
            self.begin()
            return
        transaction = self.random.choice(self.running)
        if what < 0.6:
            self._write(transaction)
        elif what < 0.65 and transaction.commit is None:
            self.prepared.add(transaction.xid)
            self.flush()
        elif what < 0.85:
            self.write_commit(transaction)
        else:
            self._end(transaction, commits=what < 0.97)

    def observe(self, *, makes_horizon: bool) -> Observation:
        seen = super().observe(makes_horizon=makes_horizon)
        if seen.horizon is not None:
            self._record(seen.horizon.xid)  # its commit, which is not durable yet
        return replace(seen, lsn_after=self.end)

    def _end(self, transaction: Transaction, *, commits: bool = True) -> None:
        if commits:
            self.write_commit(transaction)
        if transaction.commit is None:
            self._record(transaction.xid)  # its rollback
        self.end_of(transaction)
        self.prepared.discard(transaction.xid)
        self._complete_slot()

    def _complete_slot(self) -> None:
        slot, running = self.slot, {transaction.xid for transaction in self.running}
        if slot is not None and slot.confirmed is None and not slot.waits_for & running:
            slot.confirmed = slot.saved = self.durable

    def _write(self, transaction: Transaction) -> None:
        """Insert, update, move or delete a row, unless another transaction has it."""
        if transaction.commit is not None or transaction.xid in self.prepared:
            return
        table = self.random.choice(list(self.tables.values()))
        others = [c for o in self.running if o is not transaction for c in o.writes if c.table == table.oid]
        rows = self.rows_of(table.oid, self.snapshot(), transaction)
        kind = self.random.randrange(12)
        if kind == 0 and self.random.random() < 0.3:
            if not others and self._is_free(table, but=transaction):
                self._truncate(transaction, table)
            return
        if any(change.op == "t" for change in others):
            return
        taken = {row[0] for row in rows.values()}
        taken |= {row[0] for c in others for row in (c.before, c.after) if row is not None}
        busy = {change.number for change in others}
        numbers = [number for number in rows if number not in busy]
        self._rows += 1
        if kind < 5 or not numbers:
            place = self.random.randrange(40)
            row = (self._key(table, place), str(1000 * self._rows + place % _STEP), str(self._rows))
            if row[0] not in taken:
                self._log(transaction, table, "c", self._rows, None, row)
        else:
            self._change(transaction, table, {number: rows[number] for number in numbers}, taken)

    def _change(self, transaction: Transaction, table: Table, rows: dict[int, Row], taken: set[str]) -> None:
        """Update, delete or move one of these rows, or swap the keys of two; ids that are taken stay so."""
        number, kind = self.random.choice(list(rows)), self.random.randrange(7)
        before = rows[number]
        if kind < 3:
            self._log(transaction, table, "u", number, before, (*before[:2], str(self._rows)))
        elif kind < 5:
            self._log(transaction, table, "d", number, before, None)
        elif table.is_deferrable and len(rows) > 1:
            other = self.random.choice([one for one in rows if one != number])
            for one, its in ((number, rows[other][0]), (other, before[0])):
                self._log(transaction, table, "u", one, rows[one], (its, *rows[one][1:]))
        else:
            moved = self._key(table, self.random.randrange(20) * _STEP + int(before[1]) % _STEP)
            if moved not in taken:
                self._log(transaction, table, "u", number, before, (moved, *before[1:]))

    def _key(self, table: Table, place: int) -> str:
        # Keys that are texts have the same beginning, which is as long as their type was at first.
        column = table.columns[0]
        if column.type_oid != VARCHAR:
            return str(place)
        return f"k{place:03}" if column.modifier == LONGEST + 4 else f"k{place // 20:03}.{place:02}"

    def _log(
        self,
        transaction: Transaction,
        table: Table,
        op: str,
        number: int,
        before: Row | None,
        after: Row | None,
    ) -> None:
        part = table.part_of(after or before or ())
        publication = self.publication
        kind = {"c": "insert", "u": "update", "d": "delete"}[op]
        is_published = publication is not None and publication.has(table)
        if op != "c" and is_published and not part.identified_by:
            return  # the server refuses it
        messages = None
        if part.is_unlogged:
            pass
        elif publication is None:
            self.gaps.add(transaction.xid)
        elif is_published and kind not in publication.unpublished:
            messages = self._messages(publication, table, part, op, before, after)
        self._record(transaction.xid)
        transaction.writes.append(
            RowChange(  # type: ignore[arg-type] # the rows of this model are richer
                table=table.oid,
                op=op,
                number=number,
                before=before,
                after=after,
                messages=messages,
                is_keyed=bool(table.primary),
            )
        )

    def _messages(
        self,
        publication: Publication,
        table: Table,
        part: Table,
        op: str,
        before: Row | None,
        after: Row | None,
    ) -> tuple[Relation, bytes] | None:
        entry = publication.entries.get(table.oid, _WHOLE)
        if entry.is_filtered and int((after or before or ())[1]) % 4 < 2:
            return None
        named = table if publication.is_via_root else part
        shown = [number for number in range(3) if not (entry.is_cut and number == 2)]
        relation = relation_of(named, shown)

        def texts(row: Row | None, kept: tuple[int, ...]) -> list[bytes | None]:
            assert row is not None
            return [row[number].encode() if number in kept else None for number in shown]

        every = tuple(shown)
        if op == "c":
            return relation, pg.insert(named.oid, *texts(after, every))
        is_full = part.identity == "f"
        key = None if is_full else texts(before, part.identified_by)
        old = texts(before, every) if is_full else None
        if op == "d":
            return relation, pg.delete(named.oid, key=key, old=old)
        assert before is not None
        assert after is not None
        if all(before[number] == after[number] for number in part.identified_by):
            key = None
        return relation, pg.update(named.oid, *texts(after, every), key=key, old=old)

    def _truncate(self, transaction: Transaction, table: Table) -> None:
        publication, messages = self.publication, None
        if publication is None:
            self.gaps.add(transaction.xid)
        elif publication.has(table) and "truncate" not in publication.unpublished and not table.is_unlogged:
            named = [table] if publication.is_via_root else table.files
            messages = relation_of(named[0], [0, 1, 2]), pg.truncate(*(one.oid for one in named))
        for part in table.files:
            part.node = self.new_oid()
            part.index_node = self.new_oid()
        self._record(transaction.xid)
        transaction.writes.append(RowChange(table=table.oid, op="t", messages=messages))  # type: ignore[arg-type]

    # Administrators: each does something, yields whether changes may be lost, and puts it back when resumed.

    def _administrate(self) -> None:
        if self.undo and self.random.random() < 0.5:
            self._undo(self.random.randrange(len(self.undo)))
            return
        name = self.random.choice(self.acts)
        act = getattr(self, name)(self.random.choice(list(self.tables.values())))
        is_harmful = next(act, None)
        if is_harmful is None:
            return
        self.tell(f"an administrator: {name}, {self.end}")
        if is_harmful:
            self.harms.add(name)
        self.undo.append((name, act))

    def _undo(self, place: int) -> None:
        name, act = self.undo.pop(place)
        if next(act, None) is None:
            self.tell(f"an administrator: {name} is over, {self.end}")
        else:
            self.undo.append((name, act))

    def _statement(self) -> int:
        """A transaction that alters something, and is durable at once."""
        xid = self._new_xid()
        self._record(xid)
        self._newest_ended = max(self._newest_ended, xid)
        self.flush()
        return xid

    def _is_free(self, table: Table, *, but: Transaction | None = None) -> bool:
        """Whether no other transaction has written the table, and no session has locked it."""
        readers = [since for oid, since in self.locked.values() if oid == table.oid]
        others = (one for one in self.running if one is not but)
        written = (change.table == table.oid for one in others for change in one.writes)
        return not any(self.steps - since < LOCKED_FOR for since in readers) and not any(written)

    def create_publication(self, kind: str, tables: Iterable[Table] = (), entry: Entry = _WHOLE) -> None:
        made = Publication(self.new_oid(), self._statement(), kind)
        if kind == "schema":
            made.schemas["public"] = self.new_oid()
        self.publication = made
        self.add_to_publication(tables, entry)

    def add_to_publication(self, tables: Iterable[Table], entry: Entry = _WHOLE) -> None:
        assert self.publication is not None
        for table in tables:
            self.publication.entries[table.oid] = replace(entry, oid=self.new_oid())
        self._statement()

    def _alter(self, name: str, value: Any) -> None:
        if self.publication is not None:
            setattr(self.publication, name, value)
            self.publication.altered_by = self._statement()

    def publishes_inserts_only(self, _: Table) -> Act:
        self._alter("unpublished", ("update", "delete", "truncate"))
        yield True
        self._alter("unpublished", ())

    def publishes_partitions(self, _: Table) -> Act:
        self._alter("is_via_root", False)
        yield True
        self._alter("is_via_root", True)

    def schema_is_removed(self, _: Table) -> Act:
        if self.publication is None or not self.publication.schemas:
            return
        self.publication.schemas.clear()
        self._statement()
        yield True
        if self.publication is not None and self.publication.kind == "schema":
            self.publication.schemas["public"] = self.new_oid()
            self._statement()

    def schema_is_set(self, table: Table) -> Act:
        if table.partitions or not self._is_free(table):
            return
        for schema in ("archive", "public"):
            table.schema, table.placed_by = schema, self._statement()
            if schema == "archive":
                yield True
                while not self._is_free(table):
                    yield True

    def is_unlogged(self, table: Table) -> Act:
        has_entry = self.publication is not None and table.oid in self.publication.entries
        part = self.random.choice(table.files)
        if not self._is_free(table) or (has_entry and not table.partitions):
            return
        for is_unlogged in (True, False):
            part.is_unlogged, part.node, part.index_node = is_unlogged, self.new_oid(3), self.new_oid(2)
            self._statement()
            if is_unlogged:
                yield True
                while not self._is_free(table):
                    yield True

    def _is_recreated(self, table: Table, entry: Entry | None) -> Act:
        if self.publication is None or self.publication.kind != "tables":
            return
        left = [one for one in self.tables.values() if one is not table or entry is not None]
        self.create_publication("tables", left, entry or _WHOLE)
        yield True
        if self.publication is not None and self.publication.kind == "tables":
            if entry is not None:
                self.create_publication("tables", self.tables.values())
            elif table.oid in self.tables and table.oid not in self.publication.entries:
                self.add_to_publication([table])

    def publication_is_recreated_without_a_table(self, table: Table) -> Act:
        return self._is_recreated(table, None)

    def publication_is_replaced_by_one_with_a_filter(self, table: Table) -> Act:
        return self._is_recreated(table, Entry(0, is_filtered=True))

    def table_is_removed(self, table: Table) -> Act:
        publication = self.publication
        if publication is None or publication.entries.pop(table.oid, None) is None:
            return
        self._statement()
        yield True
        if self.publication is publication and table.oid in self.tables:
            self.add_to_publication([table])

    def _is_listed(self, table: Table, entry: Entry) -> Act:
        if self.publication is None or table.oid not in self.publication.entries:
            return
        self.add_to_publication([table], entry)
        yield True
        if self.publication is not None and table.oid in self.publication.entries:
            self.add_to_publication([table])

    def table_has_a_filter(self, table: Table) -> Act:
        return self._is_listed(table, Entry(0, is_filtered=True))

    def table_has_a_column_list(self, table: Table) -> Act:
        is_full = any(part.identity == "f" for part in table.files)
        return iter(()) if is_full else self._is_listed(table, Entry(0, is_cut=True))

    def publication_is_dropped(self, _: Table) -> Act:
        if self.publication is None:
            return
        kind, self.publication = self.publication.kind, None
        self._statement()
        yield True
        if self.publication is None:
            self.create_publication(kind, self.tables.values() if kind == "tables" else ())

    def slot_is_dropped(self, _: Table) -> Act:
        if self.slot is not None and self.slot.confirmed is not None and self.random.random() < 0.3:
            self.slot = None
            yield True

    def slot_is_moved(self, _: Table) -> Act:
        if self.slot is not None and self.slot.confirmed is not None and self.random.random() < 0.3:
            self.slot.confirmed = self.slot.saved = self.durable
            yield True

    def identity_is_set(self, table: Table) -> Act:
        if table.partitions or not self._is_free(table):
            return
        before, table.identity = table.identity, self.random.choice("dfin")
        self._statement()
        yield table.identity != before
        while not self._is_free(table):
            yield True
        table.identity = before
        self._statement()

    def identity_of_a_partition_is_set(self, table: Table) -> Act:
        part = self.random.choice(table.files)
        before = part.identity
        if not table.partitions or before == "i" or not self._is_free(table):
            return
        part.identity, part.marked_by = "i", self._statement()
        yield True
        while not self._is_free(table):
            yield True
        part.identity, part.marked_by = before, self._statement()

    def key_is_dropped(self, table: Table) -> Act:
        if table.partitions or not table.primary or not self._is_free(table):
            return
        table.primary = ()
        self._statement()
        yield table.identity == "d"
        while not self._is_free(table):
            yield True
        table.primary = (0,)
        self._statement()

    def key_is_renamed(self, table: Table) -> Act:
        if table.columns[0].name != "id" or not self._is_free(table):
            return
        for name in ("id2", "id"):
            table.columns[0] = replace(table.columns[0], name=name)
            self._statement()
            if name == "id2":
                yield True
                while not self._is_free(table):
                    yield True

    def key_is_widened(self, table: Table) -> Act:
        if not self._is_free(table):
            return
        key = table.columns[0]
        wider = {INT4: (INT8, -1), VARCHAR: (VARCHAR, 2 * LONGEST + 4)}.get(key.type_oid)
        if wider is not None and wider[1] != key.modifier:
            table.columns[0] = Column(key.name, *wider)
            self._statement()
            yield False

    def key_becomes_a_text(self, table: Table) -> Act:
        key = table.columns[0]
        if key.type_oid in (INT4, INT8) and self._is_free(table) and self.random.random() < 0.5:
            table.columns[0] = Column(key.name, TEXT)
            self._statement()
            yield True

    def table_is_recreated(self, table: Table) -> Act:
        if table.partitions or table.is_unlogged or not self._is_free(table) or self.random.random() < 0.7:
            return
        del self.tables[table.oid]
        if self.publication is not None:
            self.publication.entries.pop(table.oid, None)
        made = self._new_table("public", table.name)
        self.tables[made.oid] = made
        self._statement()
        yield True

    def prepared_transaction_ends(self, _: Table) -> Act:
        transaction = next((one for one in self.running if one.xid in self.prepared), None)
        if transaction is not None:
            self._end(transaction)
            yield False

    def server_is_upgraded(self, _: Table) -> Act:
        slot = self.slot
        is_behind = (
            slot is None
            or slot.confirmed is None
            or any(change.messages for one in self.sent(slot, self.durable) for change in one.writes)
        )
        # What was done to the publication around an upgrade cannot be seen: it has other numbers then.
        if self.running or is_behind or self.has_unlogged or self.harms:
            return
        assert slot is not None
        self.acts = ["server_is_upgraded"]
        self.restart()
        self.system, self.timeline, self.history = str(int(self.system) + 1), 1, ""
        self.end = (self.end // 1000 + 2) * 1000
        self._statement()
        self.decodable = slot.confirmed = slot.saved = self.durable
        if self.publication is not None:
            entries = {
                oid: replace(entry, oid=self.new_oid()) for oid, entry in self.publication.entries.items()
            }
            self.publication = replace(
                self.publication, oid=self.new_oid(), altered_by=self._statement(), entries=entries
            )
        yield False

    def standby_is_promoted(self, _: Table) -> Act:
        if self.has_unlogged or self.random.random() < 0.5:
            return
        received = self.durable
        if self.log and self.random.random() < 0.3:
            received = self.random.choice(self.log[-3:]).commit or received
            self.log = [one for one in self.log if (one.commit or 0) < received]
            self.prepared.clear()
        has_slot = self.random.random() < 0.7
        is_behind = received < self.durable
        self.durable = received
        self.restart()
        lines = self.history.splitlines(keepends=True)
        # A standby that has not received the last promotions leaves the timeline of before.
        kept = [line for line in lines if parse_lsn(line.split("\t")[1]) <= received]
        left = self.timeline if kept == lines else lines[len(kept)].split("\t")[0]
        self.history = f"{''.join(kept)}{left}\t{lsn_text(received)}\tno recovery target specified\n"
        self.timeline += 1
        self._statement()
        if not has_slot or self.slot is None:
            self.slot = None
        elif self.slot.confirmed is not None:
            self.slot.confirmed = self.slot.saved = min(self.slot.confirmed, received)
        yield is_behind or not has_slot

    @property
    def has_unlogged(self) -> bool:
        """Whether rows would be lost with the server's memory."""
        return any(part.is_unlogged for table in self.tables.values() for part in table.files)


_ACTS = [
    name
    for name, method in vars(PostgresServer).items()
    if getattr(method, "__annotations__", {}).get("return") == "Act" and not name.startswith("_")
]


def relation_of(table: Table, shown: Sequence[int]) -> Relation:
    """What the log says about a table."""
    return Relation(
        oid=table.oid,
        schema=table.schema,
        name=table.name,
        replica_identity=table.identity,
        columns=tuple(
            RelationColumn(
                name=column.name,
                type_oid=column.type_oid,
                type_modifier=column.modifier,
                is_key=number in table.identified_by,
            )
            for number, column in enumerate(table.columns)
            if number in shown
        ),
    )
