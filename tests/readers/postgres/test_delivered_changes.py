"""Which changes are delivered, and in which form, for literal messages, windows and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres.chunk_transactions import RowRule
from flip27_source.enumerators.postgres.split import (
    KeyColumn,
    LogWindow,
    PostgresSplit,
    TableKeys,
    TableName,
    TableRules,
)
from flip27_source.readers.postgres.delivered_changes import (
    DeliveredChanges,
    are_delivered,
    delivered_changes,
    is_truncated_between,
)
from flip27_source.readers.postgres.pgoutput import PgOutputDecoder
from flip27_source.readers.postgres.relations import Relation
from flip27_source.readers.postgres.window_delivery import PART_BYTES, WindowDelivery, with_values_read
from flip27_source.source import Source
from tests.postgres_server import PostgresServer
from tests.readers.postgres.changing import changed, in_log, ranges_of
from tests.readers.postgres.pgoutput_messages import (
    UNCHANGED,
    begin,
    commit,
    delete,
    described,
    insert,
    relation,
    truncate,
    update,
)
from tests.readers.postgres.pgoutput_rows import decode

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection

TABLE = relation(columns=("id", "name"))
NAME = TableName(oid=TABLE.oid, schema="public", name="orders")
EPOCH = 1 << 32
SEES, SEES_NOT = f"{EPOCH + 701}:{EPOCH + 701}:", f"{EPOCH + 700}:{EPOCH + 700}:"
"""Snapshots that see the transaction 700, and do not see it."""


def changes(*transactions: tuple[int, Sequence[bytes]], table: Relation = TABLE) -> DeliveredChanges:
    """Decode transactions, given with their ids. The first commits at LSN 1000, the next at 2000, ..."""
    messages = [described(table)]
    for number, (xid, statements) in enumerate(transactions, 1):
        messages += [begin(1000 * number, xid=xid), *statements, commit(1000 * number)]
    # The description of the table must be inside a transaction.
    messages[0], messages[1] = messages[1], messages[0]
    (found,) = decode(PgOutputDecoder(first=0, end=1 << 62), messages)
    return delivered_changes(found, key=[0], xid_near=EPOCH + 900)


def rules(*snapshots: str | None) -> TableRules:
    """The rules of chunks with these snapshots and ten keys each: below 10, below 20, ..."""
    return TableRules(
        table=NAME,
        key=(KeyColumn(name="id", type="integer"),),
        bounds=tuple((str(10 * (number + 1)),) for number in range(len(snapshots) - 1)),
        rules=tuple(RowRule(snapshot=snapshot) for snapshot in snapshots),
    )


def never(rules: TableRules, keys: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    raise AssertionError("no key needs to be compared")


def delivered(found: DeliveredChanges, rules: TableRules) -> list[tuple[str, str | None]]:
    """The operations and keys of the changes that are kept."""
    mask = are_delivered(found, rules, [0], ranges_of)
    return [shown for shown, is_kept in zip(shown_all(found), mask.tolist(), strict=True) if is_kept]


def shown_all(found: DeliveredChanges) -> list[tuple[str, str | None]]:
    after, before = (
        [None if text is None else str(text) for text in column[0].cast(pa.string()).to_pylist()]
        for column in (found.after, found.before)
    )
    return [
        (chr(op), old if chr(op) == "d" else new)
        for op, new, old in zip(found.op, after, before, strict=True)
    ]


def test_the_transaction_ids_of_changes_get_an_epoch() -> None:
    found = changes(
        (700, [insert(TABLE, b"1", b"a"), update(TABLE, b"1", b"b"), delete(TABLE, key=[b"1", None])]),
        (EPOCH - 1, [truncate(TABLE)]),
    )
    assert shown_all(found) == [("c", "1"), ("u", "1"), ("d", "1"), ("t", None)]
    assert found.xid.tolist() == [EPOCH + 700] * 3 + [EPOCH - 1]
    assert found.lsn.tolist() == [1000, 1000, 1000, 2000]
    assert found.seq.tolist() == [1, 2, 3, 1]


def test_an_update_of_the_key_is_a_delete_and_an_insert() -> None:
    found = changes((700, [update(TABLE, b"5", b"x", key=[b"1", None]), insert(TABLE, b"7", b"y")]))
    assert shown_all(found) == [("d", "1"), ("c", "5"), ("c", "7")]
    assert found.seq.tolist() == [1, 1, 2]
    assert found.after[1].to_pylist()[0] is None
    assert found.has_before.tolist() == [True, True, False]


def test_an_update_with_the_whole_old_row_and_the_same_key_stays_an_update() -> None:
    full = relation(identity="f", keys=("id", "name"))
    found = changes((700, [update(full, b"1", b"b", old=[b"1", b"a"])]), table=full)
    assert shown_all(found) == [("u", "1")]
    assert found.before[1].cast(pa.string()).to_pylist() == ["a"]


def test_an_unchanged_value_is_taken_from_the_whole_old_row() -> None:
    full = relation(identity="f", keys=("id", "name"))
    found = changes((700, [update(full, b"1", UNCHANGED, old=[b"1", b"long"])]), table=full)
    assert found.after[1].cast(pa.string()).to_pylist() == ["long"]
    assert found.unchanged[1] is None or not found.unchanged[1].any()


@pytest.mark.parametrize(
    ("table", "before"),
    [
        (TABLE, {"key": [b"1", None]}),
        # The partition has another replica identity than its root, which describes the row.
        (relation(identity="f", keys=("id", "name")), {"old": [b"1", None]}),
    ],
)
def test_an_unchanged_value_that_the_old_row_lacks_is_unknown_but_not_for_its_delete(
    table: Relation, before: dict[str, list[bytes | None]]
) -> None:
    found = changes((700, [update(table, b"2", UNCHANGED, **before)]), table=table)
    assert shown_all(found) == [("d", "1"), ("c", "2")]
    assert found.unchanged[1] is not None
    assert found.unchanged[1].tolist() == [False, True]


def test_an_unchanged_value_is_unknown_without_the_old_row() -> None:
    found = changes((700, [update(TABLE, b"1", UNCHANGED)]))
    assert found.unchanged[1] is not None
    assert found.unchanged[1].tolist() == [True]


def test_an_unchanged_large_key_is_taken_from_the_old_key() -> None:
    found = changes((700, [update(TABLE, UNCHANGED, b"b", key=[b"15", None])]))
    assert shown_all(found) == [("u", "15")]
    assert found.unchanged[0] is None or not found.unchanged[0].any()
    assert delivered(found, rules(f"{EPOCH + 900}:{EPOCH + 900}:", f"{EPOCH + 1}:{EPOCH + 1}:")) == [
        ("u", "15")
    ]


def test_changes_that_the_snapshot_of_their_chunk_does_not_see_are_delivered() -> None:
    found = changes(
        (700, [insert(TABLE, b"1", b""), insert(TABLE, b"11", b"")]),
        (701, [insert(TABLE, b"2", b""), insert(TABLE, b"12", b"")]),
        (702, [insert(TABLE, b"3", b""), insert(TABLE, b"13", b"")]),
    )
    earlier, later = (f"{EPOCH + 700}:{EPOCH + xmax}:{EPOCH + 700}" for xmax in (701, 702))
    assert delivered(found, rules(earlier)) == [
        ("c", "1"), ("c", "11"), ("c", "2"), ("c", "12"), ("c", "3"), ("c", "13")
    ]  # fmt: skip
    assert delivered(found, rules(earlier, later)) == [
        ("c", "1"), ("c", "11"), ("c", "2"), ("c", "3"), ("c", "13")
    ]  # fmt: skip


def test_a_commit_before_the_snapshots_position_need_not_be_visible_to_it() -> None:
    """A commit is in the log before it is visible, so its id may still be in progress for the snapshot."""
    found = changes((700, [insert(TABLE, b"1", b"")]), (701, [insert(TABLE, b"2", b"")]))
    assert delivered(found, rules(f"{EPOCH + 700}:{EPOCH + 702}:{EPOCH + 700}")) == [("c", "1")]


def test_changes_of_an_unread_chunk_are_not_delivered() -> None:
    found = changes((700, [insert(TABLE, b"1", b""), insert(TABLE, b"11", b"")]))
    assert delivered(found, rules(None)) == []
    assert delivered(found, rules(None, f"{EPOCH}:{EPOCH}:")) == [("c", "11")]


def test_an_update_of_the_key_is_judged_by_each_of_its_chunks() -> None:
    found = changes((700, [update(TABLE, b"15", b"", key=[b"5", None])]))
    assert delivered(found, rules(SEES, SEES_NOT)) == [("c", "15")]
    assert delivered(found, rules(SEES_NOT, SEES)) == [("d", "5")]
    assert delivered(found, rules(SEES_NOT, SEES_NOT)) == [("d", "5"), ("c", "15")]


def test_keys_are_compared_only_if_chunks_have_different_rules() -> None:
    found = changes((700, [insert(TABLE, b"1", b"")]), (900, [insert(TABLE, b"11", b"")]))
    one_more = f"{EPOCH + 702}:{EPOCH + 702}:"
    assert are_delivered(found, rules(SEES, one_more), [0], never).tolist() == [False, True]


def test_a_truncate_is_delivered_if_any_chunk_does_not_see_it() -> None:
    found = changes((700, [truncate(TABLE)]))
    assert delivered(found, rules(SEES, SEES_NOT)) == [("t", None)]
    assert delivered(found, rules(SEES_NOT)) == [("t", None)]
    assert delivered(found, rules(SEES, SEES)) == []
    assert delivered(found, rules(None, None)) == []
    assert delivered(found, rules(None, SEES_NOT)) == [("t", None)]


def test_a_truncate_that_only_some_chunks_see_happened_between_chunks() -> None:
    found = changes((700, [truncate(TABLE)]))
    assert is_truncated_between(found, rules(SEES, SEES_NOT))
    assert not is_truncated_between(found, rules(SEES, SEES))
    assert not is_truncated_between(found, rules(SEES_NOT, SEES_NOT))
    assert not is_truncated_between(found, rules(SEES_NOT))
    assert not is_truncated_between(changes((700, [insert(TABLE, b"1", b"")])), rules(SEES, SEES_NOT))


ORDERS = relation("orders", oid=16_400)
SALES = relation("sales", oid=16_500)
SPLIT = b'{"split_id":"log","log":{"first":0,"end":2000,"slot":"s","publication":"p",%s}}'


def is_delivered(window: LogWindow, table: Relation, *, tables: str = "public.orders") -> bool:
    """Return whether an insert into the table is delivered."""
    options = Source.resolve({"enumerator": "postgres", "database": "shop", "tables": tables}).options
    changes = in_log(table, insert(table, b"1", b"a"))
    return WindowDelivery(window, options, near=900, side=unused).delivered(changes, {}) is not None


def unused() -> Connection:
    raise AssertionError("nothing has to be read from the server")


def window(known: tuple[int, ...], *, by_name: bool = False) -> LogWindow:
    return LogWindow(first=0, end=2000, known=known, also_by_name=by_name)


def test_a_table_is_known_by_its_oid() -> None:
    assert is_delivered(window((SALES.oid,)), SALES)
    assert not is_delivered(window((SALES.oid,)), ORDERS)


def test_without_a_snapshot_a_table_is_known_by_its_oid_or_its_name() -> None:
    assert is_delivered(window((SALES.oid,), by_name=True), SALES)
    assert is_delivered(window((), by_name=True), ORDERS)
    assert not is_delivered(window((), by_name=True), SALES)


def test_a_table_that_has_a_key_since_its_chunk_was_planned_has_it_in_the_log() -> None:
    table = relation(identity="f", keys=())
    options = Source.resolve({"enumerator": "postgres", "database": "shop", "tables": "public.*"}).options
    without = replace(rules("1:1:"), key=())
    with_key = replace(window(()), rules=(without,), keys=(TableKeys(oid=table.oid, keys=(("id",),)),))
    moved = in_log(table, update(table, b"2", b"a", old=[b"1", b"a"]))
    found = WindowDelivery(with_key, options, near=900, side=unused).delivered(moved, {})
    assert found is not None
    assert bytes(found.op) == b"dc"
    without_key = WindowDelivery(replace(window(()), rules=(without,)), options, near=900, side=unused)
    assert without_key.key_names(table) == ()


@pytest.mark.parametrize(
    ("stored", "delivered"),
    [(b'"known":null', [ORDERS]), (b'"known":[16500]', [SALES])],
    ids=["without a snapshot", "with a snapshot"],
)
def test_a_window_that_an_older_version_stored_has_the_same_tables(
    stored: bytes, delivered: list[Relation]
) -> None:
    log = msgspec.json.decode(SPLIT % stored, type=PostgresSplit).log
    assert log is not None
    assert [table for table in (ORDERS, SALES) if is_delivered(log, table)] == delivered


MB = 1 << 20


def updates(oid: int, *ids: int) -> DeliveredChanges:
    """Updates of these rows, which do not change the column ``name``."""
    table = relation(oid=oid)
    return changed(table, *(update(table, str(number).encode(), UNCHANGED) for number in ids))


def test_large_values_are_read_in_parts(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id text PRIMARY KEY, name text)")
        connection.execute(
            "INSERT INTO orders SELECT i, repeat(i::text, CASE i WHEN 5 THEN 10 ELSE 3 END * 1024 * 1024) "
            "FROM generate_series(1, 9) i"
        )
        ((oid,),) = connection.execute("SELECT 'orders'::regclass::oid::int8").fetchall()
        # Row 10 does not exist; row 1 changes several times, and its value is then read as often.
        given = [1, 1, 1, 10, 5, 2, 3, 1, 1, 4]
        changes = updates(oid, *given)
        parts = list(with_values_read(connection, changes, key=[0], rows=np.ones(len(given), np.bool_)))
    assert [texts for part in parts for texts in part.after[0].cast(pa.string()).to_pylist()] == [
        str(number) for number in given
    ]
    sizes = [[len(text or b"") for text in part.after[1].to_pylist()] for part in parts]
    assert sizes == [[3 * MB, 3 * MB], [3 * MB, 0], [10 * MB], [3 * MB, 3 * MB], [3 * MB, 3 * MB], [3 * MB]]
    assert all(sum(part) <= PART_BYTES or len(part) == 1 for part in sizes)
    unknown = [mask for part in parts if part.unchanged[1] is not None for mask in part.unchanged[1].tolist()]
    assert unknown == [number == 10 for number in given]


def test_small_values_are_read_at_once(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id text PRIMARY KEY, name text)")
        connection.execute("INSERT INTO orders VALUES ('1', 'a'), ('2', NULL)")
        ((oid,),) = connection.execute("SELECT 'orders'::regclass::oid::int8").fetchall()
        (part,) = with_values_read(connection, updates(oid, 1, 2), key=[0], rows=np.ones(2, np.bool_))
    assert part.after[1].to_pylist() == [b"a", None]
