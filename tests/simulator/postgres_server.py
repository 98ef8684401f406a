"""A model of a PostgreSQL server: tables, transactions, WAL, slot, publication, and what people do to them.

Transactions, snapshots and the durable log are those of ``ModelServer``. A change is logged when it is made,
as pgoutput will send it: by the publication, the replica identity and the names of that moment.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
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

_FIRST_COLUMNS = 3
_PLACES = 40
"""The number of keys."""

_STEP = 2
"""Ids are moved by this: rows stay in their partition."""

Act: TypeAlias = Iterator[bool]

Row: TypeAlias = tuple[str | None, ...]
"""The values of a row, as texts: its id, another number that is unique, a value, and maybe more."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        number: its place in the rows, which no other column of the table ever has.
        missing: its value in rows that are older than the column.
    """

    name: str
    type_oid: int
    modifier: int = -1
    number: int = 0
    missing: str | None = None

    def of(self, row: Row) -> str | None:
        return row[self.number] if self.number < len(row) else self.missing


Columns: TypeAlias = tuple[Column, ...]


@dataclass(slots=True, eq=False)
class Table:
    """A table, or a partition.

    Attributes:
        shapes: the columns that it has had, latest last.
        primary, index: the columns of the primary key, and of the index of the replica identity.
        identity: d, n, f or i.
        node, index_node: the files of the table and of the index of its primary key.
        placed_by: the transaction that has put it into its schema.
        marked_by: the transaction that has made its index that of the replica identity, or no longer.
    """

    oid: int
    schema: str
    name: str
    shapes: list[Columns]
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
    def columns(self) -> Columns:
        return self.shapes[-1]

    @property
    def added(self) -> Columns:
        """The columns that it has in addition to its first ones."""
        return self.columns[_FIRST_COLUMNS:]

    @property
    def width(self) -> int:
        """The number of columns that it has ever had."""
        return max(column.number for columns in self.shapes for column in columns) + 1

    @property
    def identified_by(self) -> tuple[int, ...]:
        """The columns of old rows that the log has."""
        if self.identity == "f":
            return tuple(column.number for column in self.columns)
        by_default = () if self.is_deferrable else self.primary
        return {"d": by_default, "i": self.index, "n": ()}[self.identity]

    def filled(self, row: Row) -> Row:
        """The row with the values of columns that are younger."""
        if len(self.shapes) == 1:
            return row
        added = {column.number: column.of(row) for column in self.added}
        return (*row[:_FIRST_COLUMNS], *map(added.get, range(_FIRST_COLUMNS, self.width)))

    def part_of(self, row: Row) -> Table:
        return self.partitions[_number(row) % _STEP] if self.partitions else self

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
        is_keyed: whether the table has a primary key with the id.
        shape: the columns that the table has, as an index of its shapes.
    """

    table: int
    op: str
    number: int = 0
    before: Row | None = None
    after: Row | None = None
    messages: tuple[Relation, bytes] | None = None
    is_keyed: bool = True
    shape: int = 0

    @property
    def moves(self) -> bool:
        """Whether it gives the row another id."""
        return self.before is not None and self.after is not None and self.before[0] != self.after[0]


class PostgresServer(ModelServer):
    """The server; the random numbers decide what its users do.

    Args:
        in_mid_snapshot: what administrators do, while the many rows of the tables are copied.

    Attributes:
        impatience: how often whoever creates the slot is gone before the server has created it.
        harms: what was done after which a query may report a loss or refuse to continue.
        starts: how often the server was started; sessions end with it.
        history: where it has left its former timelines.
        undo: what will be put back, latest last.
        truncated: the tables and partitions that each transaction gives other files when it commits.
        dropped: by the name of a table, where the log was when the first table of that name was dropped.
        chunks: how often each chunk was read, by its statement and bounds.
        sends_no_key: whether a slot that was there from the beginning may send rows without their key.
    """

    def __init__(
        self, random_: random.Random, tell: Callable[[str], None], in_mid_snapshot: str | None = None
    ) -> None:
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
        self.dropped: dict[str, int] = {}
        self.locked: dict[int, tuple[int, int]] = {}
        self.chunks: Counter[tuple[str, ...]] = Counter()
        self.truncated: dict[int, list[Table]] = {}
        self.decodable = 0
        self.admins = random_.choice((0.0, 0.1, 0.3))
        # One act hides another: a loss that was reported explains every difference.
        self.acts = random_.sample(ACTS, random_.choice((1, 1, 1, 2, 5)))
        self.kills = random_.choice((0.0, 0.0, 0.1))
        self.readers = random_.choice((0.0, 0.0, 0.05))
        self.impatience = random_.choice((0.0, 0.0, 0.3))
        self._oids = 16_384
        self._rows = 0
        self.sends_no_key = False
        self._is_long = in_mid_snapshot is not None
        if in_mid_snapshot is not None:
            self.acts, self.admins = [in_mid_snapshot], 0.1
        self._make_tables(in_mid_snapshot)

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

    def seen_in(self, table: Table) -> dict[Row, list[dict[str, str]]]:
        """What readers may have seen in each row since it was last written: values by names of columns."""
        writes = (write for one in self.log for write in one.writes if write.table == table.oid)
        last = {w.after[:_FIRST_COLUMNS]: (w.after, w.shape) for w in writes if w.after is not None}
        return {
            first: [
                {column.name: str(column.of(row)) for column in columns} for columns in table.shapes[shape:]
            ]
            for first, (row, shape) in last.items()
        }

    def columns_digest(self, table: Table) -> str:
        columns = [(column.number, column.type_oid, column.modifier) for column in table.columns]
        # The catalog keeps the numbers of columns that were dropped.
        known = repr((columns, table.width))
        return hashlib.md5(known.encode()).hexdigest()[:8]  # noqa: S324 - as the query has it

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
        self.admins = self.kills = self.readers = self.impatience = 0.0
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

    def _make_tables(self, in_mid_snapshot: str | None) -> None:
        for number in range(self.random.randint(1, 2)):
            is_text = self.random.random() < (0.2 if in_mid_snapshot != "key_is_widened" else 1.0)
            table = self._new_table("public", f"t{number}", is_text=is_text)
            self.tables[table.oid] = table
            if self.random.random() < (0.25 if in_mid_snapshot is None else 0.0):
                parts = [self._new_table("public", f"t{number}_{part}") for part in range(_STEP)]
                table.partitions = [replace(part, shapes=table.shapes) for part in parts]
            table.identity = self.random.choice("dff" if "key_is_dropped" in self.acts else "dddfi")
            for part in table.partitions:
                part.identity = table.identity
            self._refuse(table)
        for table in self.tables.values() if self._is_long else ():
            self._fill(table, range(0, _PLACES, 2))
        for _ in range(3):
            self.begin()
            for _ in range(4):
                self._write(self.running[-1])
            self._end(self.running[-1], commits=True)
        if self.random.random() < 0.2:
            self.slot = Slot(self.durable, self.durable)
            for _ in range(10):
                self._work()
        kind = self.random.choice(_KINDS.get(self.random.choice(self.acts), ("", "", "schema", "all")))
        if kind:
            self.create_publication(kind)

    def _refuse(self, table: Table) -> None:
        """Give some tables what a first start refuses."""
        refused = self.identity_of_a_partition_is_set if table.partitions else self._deferrable
        act = refused(table)
        if self.random.random() < 0.1 and next(act, None) is not None:
            self.undo.append((refused.__name__, act))
            self.sends_no_key |= bool(table.partitions)

    def _new_table(self, schema: str, name: str, *, is_text: bool = False) -> Table:
        key = Column("id", VARCHAR, LONGEST + 4) if is_text else Column("id", INT4)
        node = self.new_oid(4)
        columns = (key, Column("other", INT4, number=1), Column("value", TEXT, number=2))
        table = Table(node, schema, name, [columns], node, self.new_oid(), self._next_xid)
        if "column_is_dropped" in self.acts:
            self._add_column(table)
        return table

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
        for part in self.truncated.pop(transaction.xid, ()) if transaction.commit is not None else ():
            part.node, part.index_node = self.new_oid(), self.new_oid()
        self.prepared.discard(transaction.xid)
        self._complete_slot()

    def _complete_slot(self) -> None:
        slot, running = self.slot, {transaction.xid for transaction in self.running}
        if slot is not None and slot.confirmed is None and not slot.waits_for & running:
            slot.confirmed = slot.saved = self.durable

    def _write(self, transaction: Transaction, table: Table | None = None) -> None:
        """Insert, update, move or delete a row of this table or of any, unless another transaction has it."""
        if transaction.commit is not None or transaction.xid in self.prepared:
            return
        table = table or self.random.choice(list(self.tables.values()))
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
            place = self.random.randrange(_PLACES)
            if self._key(table, place) not in taken:
                self._insert(transaction, table, place)
        else:
            self._change(transaction, table, {number: rows[number] for number in numbers}, taken)

    def _fill(self, table: Table, places: Iterable[int]) -> None:
        """Insert rows in a transaction."""
        self.begin()
        for place in places:
            self._rows += 1
            self._insert(self.running[-1], table, place)
        self._end(self.running[-1])

    def _insert(self, transaction: Transaction, table: Table, place: int) -> None:
        row: Row = (self._key(table, place), str(1000 * self._rows + place % _STEP), str(self._rows))
        if len(table.shapes) > 1:
            row = self._with_added(table, (*row, *[None] * (table.width - _FIRST_COLUMNS)))
        self._log(transaction, table, "c", self._rows, None, row)

    def _change(self, transaction: Transaction, table: Table, rows: dict[int, Row], taken: set[str]) -> None:
        """Update, delete or move one of these rows, or swap the keys of two; ids that are taken stay so."""
        # Which key a window has matters only where keys are moved.
        number = self.random.choice(list(rows))
        kind = self.random.randrange(10 if "key_is_dropped" in self.acts else 7)
        before = table.filled(rows[number])
        if kind < 3:
            after = (*before[:2], str(self._rows), *before[_FIRST_COLUMNS:])
            self._log(transaction, table, "u", number, before, self._with_added(table, after))
        elif kind < 5:
            self._log(transaction, table, "d", number, before, None)
        elif table.is_deferrable and len(rows) > 1:
            other = self.random.choice([one for one in rows if one != number])
            for one, its in ((number, rows[other][0]), (other, before[0])):
                row = table.filled(rows[one])
                self._log(transaction, table, "u", one, row, (its, *row[1:]))
        else:
            moved = self._key(table, self.random.randrange(20) * _STEP + _number(before) % _STEP)
            if moved not in taken:
                self._log(transaction, table, "u", number, before, (moved, *before[1:]))

    def _with_added(self, table: Table, row: Row) -> Row:
        """The row with another value, or none, in the added column; or as it is."""
        for column in table.added:
            value = self.random.choice((str(self._rows), None, row[column.number]))
            row = (*row[: column.number], value, *row[column.number + 1 :])
        return row

    def _key(self, table: Table, place: int) -> str:
        # Many keys that are texts have the same beginning, which is as long as their type was at first.
        column = table.columns[0]
        if column.type_oid != VARCHAR:
            return str(place)
        if column.modifier == LONGEST + 4:
            return f"k{place:03}"
        return f"k{place - place % 4 if self._is_long else place // 20:03}.{place:02}"

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
                is_keyed=0 in table.primary,
                shape=len(table.shapes) - 1,
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
        if entry.is_filtered and _number(after or before or ()) % 4 < 2:
            return None
        named = table if publication.is_via_root else part
        listed = range(_FIRST_COLUMNS - 1) if entry.is_cut else range(table.width)
        relation = relation_of(named, listed)
        shown = [column.number for column in table.columns if column.number in listed]

        def texts(row: Row | None, kept: tuple[int, ...]) -> list[bytes | None]:
            assert row is not None
            values = [row[number] if number in kept else None for number in shown]
            return [None if value is None else value.encode() for value in values]

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
            messages = relation_of(named[0], range(table.width)), pg.truncate(*(one.oid for one in named))
        self.truncated.setdefault(transaction.xid, []).extend(table.files)
        self._record(transaction.xid)
        transaction.writes.append(RowChange(table=table.oid, op="t", messages=messages))  # type: ignore[arg-type]

    # Administrators: each does something, yields whether changes may be lost, and puts it back when resumed.

    def _administrate(self) -> None:
        if self.undo and self.random.random() < 0.5:
            self._undo(self.random.randrange(len(self.undo)))
        elif self.random.random() < 0.3:
            self.alter_for_a_while()
        else:
            self._alter_something(self.random.choice(list(self.tables.values())))

    def alter_for_a_while(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Write rows after doing something, often before it too, and put it back."""
        table = self.random.choice(list(self.tables.values()))
        if self.random.random() < 0.8:  # a server that is upgraded must have sent everything
            self.write_rows(table)
        if self._alter_something(table):
            self.write_rows(table)
            meanwhile()
            self._undo(-1)

    def write_rows(self, table: Table) -> None:
        """A short transaction, unless the table was dropped."""
        if table.oid in self.tables:
            self.begin()
            for _ in range(self.random.randint(1, 4)):
                self._write(self.running[-1], table)
            self._end(self.running[-1])

    def _alter_something(self, table: Table) -> bool:
        name = self.random.choice(self.acts)
        act = getattr(self, name)(table)
        is_harmful = next(act, None)
        if is_harmful is not None:
            self.tell(f"an administrator: {name}, {self.end}")
            self.undo.append((name, act))
        if is_harmful:
            self.harms.add(name)
        return is_harmful is not None

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
        # Without a key, a first start does not refuse the table, and keys that were swapped while the key was
        # DEFERRABLE again cannot be told from others once it no longer is.
        if table.is_deferrable or table.partitions or table.primary != (0,) or not self._is_free(table):
            return
        table.primary = ()
        self._statement()
        yield table.identity == "d"
        while not self._is_free(table):
            yield True
        table.primary = (0,)
        self._statement()

    def key_is_moved(self, table: Table) -> Act:
        if table.partitions or table.primary != (0,) or not self._is_free(table):
            return
        for columns in ((1,), (0,)):
            table.primary = columns
            self._statement()
            if columns == (1,):
                yield True
                while not self._is_free(table):
                    yield True

    def key_is_renamed(self, table: Table) -> Act:
        if table.columns[0].name != "id" or not self._is_free(table):
            return
        for name in ("id2", "id"):
            self._alter_column(table, 0, name=name)
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
            self._alter_column(table, 0, type_oid=wider[0], modifier=wider[1])
            if self._is_long:
                self._fill(table, range(_PLACES))
            yield False

    def key_becomes_a_text(self, table: Table) -> Act:
        key = table.columns[0]
        if key.type_oid in (INT4, INT8) and self._is_free(table) and self.random.random() < 0.5:
            self._alter_column(table, 0, type_oid=TEXT)
            yield True

    def column_is_renamed(self, table: Table) -> Act:
        column = self.random.choice(table.columns[2:])
        if column.name.endswith("2") or not self._is_free(table):
            return
        for name in (f"{column.name}2", column.name):
            if column.number in [other.number for other in table.columns]:
                self._alter_column(table, column.number, name=name)
            if name != column.name:
                yield False
                while not self._is_free(table):
                    yield False

    def column_is_added(self, table: Table) -> Act:
        if table.added or not self._is_free(table):
            return
        self._add_column(table)
        yield False
        while not self._is_free(table):
            yield False
        # Half of them stay.
        if table.added and self.random.random() < 0.5:
            self._set_columns(table, table.columns[:_FIRST_COLUMNS])

    def column_is_dropped(self, table: Table) -> Act:
        if not table.added or not self._is_free(table):
            return
        self._set_columns(table, table.columns[:_FIRST_COLUMNS])
        yield False
        while not self._is_free(table):
            yield False
        if not table.added:
            self._add_column(table)

    def _set_columns(self, table: Table, columns: Columns) -> None:
        table.shapes.append(columns)
        self._statement()

    def _alter_column(self, table: Table, number: int, **changed: Any) -> None:
        altered = (replace(c, **changed) if c.number == number else c for c in table.columns)
        self._set_columns(table, tuple(altered))

    def _add_column(self, table: Table) -> None:
        """Add a column, with a default or without; a default may write the table again."""
        missing = self.random.choice((None, "default"))
        column = Column("added", TEXT, number=table.width, missing=missing)
        if missing is not None and self.random.random() < 0.5:
            for part in table.files:
                part.node, part.index_node = self.new_oid(3), self.new_oid(2)
        self._set_columns(table, (*table.columns, column))

    def table_is_recreated(self, table: Table) -> Act:
        if table.partitions or table.is_unlogged or not self._is_free(table) or self.random.random() < 0.7:
            return
        del self.tables[table.oid]
        self.dropped.setdefault(table.name, self.end)
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
        self._next_xid += 50  # the objects are created again
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


ACTS = [
    name
    for name, method in vars(PostgresServer).items()
    if getattr(method, "__annotations__", {}).get("return") == "Act" and not name.startswith("_")
    for _ in range(3 if name in ("server_is_upgraded", "key_is_dropped") else 1)
]
"""What administrators do."""

IN_MID_SNAPSHOT = ("identity_is_set", "key_is_moved", "key_is_widened", "key_becomes_a_text")
"""What matters while tables are cut into chunks, and their chunks are read."""

_KINDS = {
    "schema_is_removed": ("schema",), "schema_is_set": ("schema",), "is_unlogged": ("schema", "all"),
}  # fmt: skip
"""The kinds of publications for acts that need one; the query itself creates one of tables."""


def _number(row: Row) -> int:
    """The number that is unique, and stays as it is."""
    return int(row[1] or 0)


def relation_of(table: Table, shown: Container[int]) -> Relation:
    """What the log says about a table."""
    identified_by = table.identified_by
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
                is_key=column.number in identified_by,
            )
            for column in table.columns
            if column.number in shown
        ),
    )
