"""Triggers of the server that note each change of a table, to compare the rows of a query with the notes.

A note is written in the transaction that it describes: a change that is rolled back leaves no note. Row locks
bring the notes of a key into the order in which its transactions commit. Nothing here depends on Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tests.replica import TABLE, Change, Row, ordered

if TYPE_CHECKING:
    import psycopg

AUDIT = """
CREATE SCHEMA audit;
CREATE TABLE audit.notes (
    number bigserial PRIMARY KEY, table_name text, xid bigint, op text, key int, name text
);
CREATE FUNCTION audit.note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    xid bigint := pg_current_xact_id()::text::bigint;
    noted text := TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO audit.notes (table_name, xid, op) VALUES (noted, xid, 't');
    ELSIF TG_OP = 'UPDATE' AND NEW.id = OLD.id THEN
        INSERT INTO audit.notes (table_name, xid, op, key, name) VALUES (noted, xid, 'u', NEW.id, NEW.name);
    ELSE
        IF TG_OP <> 'INSERT' THEN
            INSERT INTO audit.notes (table_name, xid, op, key) VALUES (noted, xid, 'd', OLD.id);
        END IF;
        IF TG_OP <> 'DELETE' THEN
            INSERT INTO audit.notes (table_name, xid, op, key, name)
            VALUES (noted, xid, 'c', NEW.id, NEW.name);
        END IF;
    END IF;
    RETURN NULL;
END $$;
"""

_TRIGGERS = """
CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON {name}
FOR EACH ROW EXECUTE FUNCTION audit.note();
CREATE TRIGGER emptied AFTER TRUNCATE ON {name} FOR EACH STATEMENT EXECUTE FUNCTION audit.note();
"""

Noted = tuple[str, int, str | None]
"""One change of a key: the letter of its kind, its transaction, and the name it sets."""

_ABSENT = object()


def audited_table(name: str, rows: int) -> str:
    """The statements that make a table of ``rows`` rows whose changes are noted; run them as one."""
    return (
        TABLE.format(name=name, key="int")
        + _TRIGGERS.format(name=name)
        + f"INSERT INTO {name} SELECT 3 * i, 'n' || i, repeat('y', 2000) "
        + f"FROM generate_series(0, {rows - 1}) i;"
    )


def complaints(
    connection: psycopg.Connection, table: str, changes: Iterable[Change], *, is_exact: bool = False
) -> list[str]:
    """The keys whose changes from the snapshot on differ from those that the triggers noted, and how.

    The changes of a key must be the last ones that were noted, complete and in order. The rows of the
    snapshot must show a state that the key had at that point or later: a chunk that is read again may have
    newer rows.

    Args:
        is_exact: no chunk was read again, so the rows must show the state at exactly that point.
    """
    events: dict[Any, list[Noted]] = defaultdict(list)
    snapshot: dict[Any, list[str | None]] = defaultdict(list)
    for row in ordered(changes):
        if row.op == "r":
            snapshot[row.id].append(row.name)
        elif row.op != "t":
            events[row.id].append(_event(row))
    noted = _noted(connection, table)
    found = []
    for key in {*events, *snapshot, *noted}:
        told = complaint(noted.get(key, []), events.get(key, []), snapshot.get(key, []), is_exact=is_exact)
        if told:
            found.append(f"{table}, key {key}: {told}")
    return found


def complaint(
    noted: list[Noted], events: list[Noted], snapshot: list[str | None], *, is_exact: bool = False
) -> str | None:
    """What is wrong with the changes of one key and its rows of the snapshot; None if they are right."""
    changes = [change for change in noted if change[0] != "t"]
    in_snapshot = len(changes) - len(events)
    if in_snapshot < 0 or events != changes[in_snapshot:]:
        return f"the query has {events}, and the triggers have noted {noted}"
    seen = 0
    state: str | object | None = _ABSENT
    states = [] if in_snapshot else [state]
    for op, _, name in noted:
        state = name if op in "cu" else _ABSENT
        seen += op != "t"
        if seen == in_snapshot or (seen > in_snapshot and not is_exact):
            states.append(state)
    if any(row not in states for row in snapshot or [_ABSENT]):
        return f"the snapshot has {snapshot}, {in_snapshot} changes before {events}, of {noted}"
    return None


def _event(row: Row) -> Noted:
    assert row.xid is not None
    return row.op, row.xid, None if row.op == "d" else row.name


def _noted(connection: psycopg.Connection, table: str) -> dict[Any, list[Noted]]:
    """The notes by key; a TRUNCATE is among the changes of every key."""
    rows = connection.execute(
        "SELECT op, xid, key, name FROM audit.notes WHERE table_name = %s ORDER BY number", [table]
    ).fetchall()
    keys = {key for _, _, key, _ in rows if key is not None}
    found: dict[Any, list[Noted]] = {key: [] for key in keys}
    for op, xid, key, name in rows:
        for one in keys if op == "t" else [key]:
            found[one].append((op, xid, name))
    return found
