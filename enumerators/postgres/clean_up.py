"""The end of a query's life: what it has left on the server, and dropping its slot and its publication."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from flip27_source.enumerators.postgres.connection import Connection, ServerError, checked, connect, row_of
from flip27_source.enumerators.postgres.own_slot import reading_purpose
from flip27_source.enumerators.postgres.publication import find_publication
from flip27_source.enumerators.postgres.server import Slot, drop_slot, slot_of
from flip27_source.enumerators.postgres.split import lsn_text
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import some_of
from flip27_source.leftovers import Leftover
from flip27_source.options import Options

ResultT = TypeVar("ResultT")

_READERS = """
SELECT pid, application_name FROM pg_stat_activity
WHERE pid = %s OR (datname = current_database() AND application_name = %s)
ORDER BY pid
"""
_OTHER_SLOT = """
SELECT o.slot_name, pg_wal_lsn_diff(o.restart_lsn, s.restart_lsn)::bigint
FROM pg_replication_slots s JOIN pg_replication_slots o ON o.slot_name <> s.slot_name
WHERE s.slot_name = %s AND o.restart_lsn IS NOT NULL
ORDER BY o.restart_lsn LIMIT 1
"""

_SLOTS_OF_FORKS = """
SELECT slot_name::text FROM pg_replication_slots
WHERE slot_name <> %s AND plugin = 'pgoutput' AND database = current_database()
ORDER BY 1
"""


class StateOfSlot(msgspec.Struct, frozen=True):
    """What the enumerator's state says about the server."""

    system: str
    slot: str | None
    publication: str | None
    start: int = 0
    planned_to: int = 0

    @property
    def own_publication(self) -> str | None:
        """The publication that the query has created, which has the name of the slot; None if it has not."""
        return self.publication if self.publication == self.slot else None

    @property
    def read_to(self) -> int:
        """The position up to which the query has read the log."""
        return max(self.start, self.planned_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What a query has left on the server, and what dropping it releases.

    Attributes:
        slot, publication: their names; None if it does not exist, or stays.
        shared_publication: the publication if it stays, because the query of another slot may read it.
        tables: the tables of either.
        other_slots: the other slots of the database whose queries may read the publication: the server does
            not know which publication a slot is read with.
        kept_bytes: WAL that the server keeps for the slot.
        released_bytes: the part of it that no other slot needs.
        held_by: the slot that needs the rest.
    """

    slot: str | None
    publication: str | None
    shared_publication: str | None = None
    tables: tuple[str, ...] = ()
    other_slots: tuple[str, ...] = ()
    kept_bytes: int = 0
    released_bytes: int = 0
    held_by: str | None = None

    @property
    def statements(self) -> tuple[str, ...]:
        """What :func:`drop` runs, as SQL."""
        statements = [] if self.slot is None else [f"SELECT pg_drop_replication_slot('{self.slot}')"]
        if self.publication is not None:
            statements.append(f"DROP PUBLICATION {quoted(self.publication)}")
        return tuple(statements)

    @property
    def readers(self) -> str:
        """The queries that may read the publication, for people."""
        return f"the query of slot {some_of(self.other_slots, 3)}"


def leftovers(
    connection: Connection,
    slot: str,
    publication: str | None,
    *,
    is_named: bool = False,
    system: str | None = None,
    read_to: int | None = None,
) -> Leftovers:
    """What exists of a slot and a publication; nothing is changed.

    Args:
        publication: None to leave every publication as it is.
        is_named: whether the user says that the publication is to be dropped, whoever may read it.
        system: the identifier of the server on which they were created; None if it is not known.
        read_to: the position up to which the query has read the log; None if it is not known.
    """
    here = str(row_of(connection, "SELECT system_identifier::text FROM pg_control_system()")[0])
    if system not in (None, here):
        raise ServerError(
            f"the state belongs to the server with the system identifier {system}, and this one has {here}",
            remedy="connect to the server that the query read, or give --slot instead of the state",
        )
    owned = None if publication is None else find_publication(connection, publication)
    others = tuple(name for (name,) in connection.execute(_SLOTS_OF_FORKS, [slot]))
    stays = bool(others) and not is_named
    if owned is not None and not owned.is_owned and not stays:
        raise ServerError(
            f"publication {publication} belongs to role {owned.owner}, so this role may not drop it",
            remedy=f"connect as role {owned.owner}, or have it run: DROP PUBLICATION {quoted(owned.name)};",
        )
    left = Leftovers(
        slot=None,
        publication=None if owned is None or stays else owned.name,
        shared_publication=owned.name if owned is not None and stays else None,
        tables=() if owned is None else tuple(sorted(".".join(table) for table in owned.tables)),
        other_slots=others,
    )
    present = slot_of(connection, slot)
    if present is None:
        return left
    _check_place(connection, present)
    if read_to is not None and present.confirmed > read_to:
        raise ServerError(
            f"slot {slot} begins at {lsn_text(present.confirmed)}, and this query has read up to "
            f"{lsn_text(read_to)}: another query has taken it over, such as one from a savepoint",
            remedy="give the state of that query if it will not run again, or --slot instead of a state",
        )
    _check_unread(connection, slot, present.active_pid)
    other = connection.execute(_OTHER_SLOT, [slot]).fetchone()
    released = present.kept_bytes if other is None else min(present.kept_bytes, max(0, other[1]))
    return replace(
        left,
        slot=slot,
        kept_bytes=present.kept_bytes,
        released_bytes=released,
        held_by=None if other is None or released == present.kept_bytes else other[0],
    )


def drop(connection: Connection, left: Leftovers) -> None:
    """Drop them; the server removes the WAL at its next checkpoint.

    Raises:
        psycopg.Error: the role lacks the right, or the slot is in use by now.
    """
    if left.slot is not None:
        drop_slot(connection, left.slot)
    if left.publication is not None:
        connection.execute(f"DROP PUBLICATION {quoted(left.publication)}")


def leftovers_of(options: Options, state: Any) -> Iterator[Leftover]:
    """The slot, and the publication that the query has created; it stays while a fork may read it.

    Args:
        options: those of the connection.
        state: the enumerator's state, as JSON.
    """
    known = msgspec.convert(state, StateOfSlot)
    if known.slot is None:
        return
    left = _on_server(options, known, lambda _, found: found)

    def dropping(**kept: Any) -> Callable[[], None]:
        return lambda: _on_server(
            options, known, lambda connection, found: drop(connection, replace(found, **kept))
        )

    if left.slot is not None:
        yield Leftover(
            kind="slot",
            name=left.slot,
            details=f"keeps {left.kept_bytes:,} bytes of WAL",
            remove=dropping(publication=None),
        )
    publication = left.publication or left.shared_publication
    if publication is not None:
        details = ", ".join(left.tables)
        if left.shared_publication is not None:
            details += (
                f"; {left.readers} may read it; if it does not, drop it by name: flip27 postgres "
                f"drop --slot {known.slot} --publication {publication}"
            )
        remove = None if left.publication is None else dropping(slot=None)
        yield Leftover(kind="publication", name=publication, details=details, remove=remove)
    elif known.own_publication is None and known.publication is not None:
        yield Leftover(kind="publication", name=known.publication, details="the query has not created it")


def _on_server(
    options: Options, known: StateOfSlot, act: Callable[[Connection, Leftovers], ResultT]
) -> ResultT:
    """Call ``act`` with what exists now, unless a query uses it."""
    assert known.slot is not None
    slot = known.slot
    with connect(options, purpose="drop") as connection:
        return checked(
            options,
            "querying or dropping the slot and the publication",
            lambda: act(
                connection,
                leftovers(
                    connection, slot, known.own_publication, system=known.system, read_to=known.read_to
                ),
            ),
        )


def _check_place(connection: Connection, slot: Slot) -> None:
    if slot.plugin != "pgoutput":
        raise ServerError(
            f"slot {slot.name} has the plugin {slot.plugin}, and queries of this source read pgoutput",
            remedy="give the slot of a query: SELECT slot_name, plugin FROM pg_replication_slots; lists them",
        )
    if slot.database != connection.info.dbname:
        raise ServerError(
            f"slot {slot.name} belongs to database {slot.database}, and option database is "
            f"{connection.info.dbname}",
            remedy=f"set option database to {slot.database}",
        )


def _check_unread(connection: Connection, slot: str, active_pid: int | None) -> None:
    # Between two batches a query does not hold its slot, and is recognised by the name of its session.
    name = f"flip27 {reading_purpose(slot)}"
    readers = connection.execute(_READERS, [active_pid, name]).fetchall()
    if active_pid is not None or readers:
        listed = ", ".join(f"{pid} ({name})" for pid, name in readers) or str(active_pid)
        raise ServerError(
            f"slot {slot} is in use: a query reads it, in the backend {listed}",
            remedy="stop the query first; if it has ended and its session has not: "
            + " ".join(
                f"SELECT pg_terminate_backend({pid});" for pid in [row[0] for row in readers] or [active_pid]
            ),
        )
