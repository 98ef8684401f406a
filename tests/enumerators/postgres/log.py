"""The messages that a slot delivers, for tests of the server itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from flip27_source.enumerators.postgres.split import lsn_text
from flip27_source.readers.postgres.relations import Relation
from tests.readers.postgres.pgoutput_messages import Value
from tests.readers.postgres.pgoutput_rows import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The messages from Begin to Commit.

    Attributes:
        final_lsn: position of the commit record.
        end_lsn: the position after the commit record.
        changes: the new values of each change, as text; None if it is a delete.
    """

    xid: int
    final_lsn: int
    end_lsn: int
    changes: list[dict[str, Any] | None] = field(default_factory=list)


def messages(
    connection: psycopg.Connection, slot: str, upto: int | None = None, publication: str = "p"
) -> list[bytes]:
    """Return the messages of a peek, which does not advance the slot."""
    found = connection.execute(
        "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s, NULL,"
        " 'proto_version', '1', 'publication_names', %s)",
        [slot, None if upto is None else lsn_text(upto), publication],
    )
    return [data for (data,) in found]


def peek(
    connection: psycopg.Connection, slot: str, upto: int | None = None, publication: str = "p"
) -> list[Transaction]:
    """Return the transactions of a peek."""
    return list(transactions(messages(connection, slot, upto, publication)))


def transactions(found: list[bytes]) -> Iterator[Transaction]:
    """Group the messages into transactions; each must be complete."""
    relations: dict[int, Relation] = {}
    begin: tuple[int, int] | None = None
    changes: list[dict[str, Any] | None] = []
    for message in found:
        kind, reading = chr(message[0]), Reading(message)
        if kind == "B":
            assert begin is None, "a transaction begins inside another one"
            final_lsn, _committed_at, xid = (reading.take(form) for form in (">Q", ">q", ">I"))
            begin, changes = (final_lsn, xid), []
        elif kind == "C":
            assert begin is not None, "a transaction ends without a beginning"
            _flags, commit_lsn, end_lsn = (reading.take(form) for form in (">B", ">Q", ">Q"))
            assert commit_lsn == begin[0], "a transaction ends at another position than it says"
            yield Transaction(final_lsn=commit_lsn, xid=begin[1], end_lsn=end_lsn, changes=changes)
            begin = None
        elif kind == "R":
            relation = reading.relation()
            relations[relation.oid] = relation
        elif kind in "IUDT":
            assert begin is not None, "a change is outside of a transaction"
            changes += [_texts(relations[change.oid], change.new) for change in reading.changes(kind)]
    assert begin is None, "the last transaction has no end"


def _texts(table: Relation, values: tuple[Value, ...] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    texts = [value.decode() if isinstance(value, bytes) else value for value in values]
    return dict(zip((column.name for column in table.columns), texts, strict=True))
