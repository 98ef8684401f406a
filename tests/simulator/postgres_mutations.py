"""Defects that the postgres source once had, put back to check that the life ``postgres`` finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flip27_source.enumerators.postgres import catalog, poller, server
from flip27_source.enumerators.postgres.enumerator import PostgresEnumerator
from flip27_source.enumerators.postgres.poller import ServerPoller
from tests.mutating import Patch, around


def _changed(found: Any, change: Callable[[str, str], str | None]) -> Any:
    """The marks of the publication, each as ``change`` returns it by its name and value; None: left out."""
    marks = {} if found is None else {name: change(name, mark) for name, mark in found.marks.items()}
    return found and replace(found, marks={name: mark for name, mark in marks.items() if mark})


@around(poller, "publication_marks")
def kinds_of_changes_that_were_left_out_for_a_while_are_not_noticed(marks: Any, *arguments: Any) -> Any:
    return _changed(marks(*arguments), lambda name, mark: None if name == "publication" else mark)


@around(poller, "publication_marks")
def a_table_that_was_removed_for_a_while_is_not_noticed(marks: Any, *arguments: Any) -> Any:
    return _changed(marks(*arguments), lambda _, mark: "entry" if mark.startswith("entry") else mark)


@around(poller, "publication_marks")
def a_publication_that_was_replaced_for_a_while_is_not_noticed(marks: Any, *arguments: Any) -> Any:
    found = _changed(marks(*arguments), lambda _, mark: "entry" if mark.startswith("entry") else mark)
    return found and replace(_changed(found, lambda name, mark: mark if name[0].isdigit() else None), oid=1)


@around(PostgresEnumerator, "_take_server")
def what_the_publication_was_is_forgotten_at_a_restart(
    take: Any, self: Any, assigner: Any, result: Any
) -> None:
    take(self, assigner, replace(result, published=None))


def _accepted(table: Any, word: str) -> Any:
    return replace(table, refused=None) if table.refused and word in table.refused[0] else table


@around(catalog, "_catalog_table")
def deferrable_keys_are_accepted(found: Any, *arguments: Any) -> Any:
    return _accepted(found(*arguments), "DEFERRABLE")


@around(catalog, "_catalog_table")
def partitions_with_an_identity_of_their_own_are_accepted(found: Any, *arguments: Any) -> Any:
    return _accepted(found(*arguments), "partition")


@around(ServerPoller, "_complete_slot")
def a_slot_that_the_server_still_creates_counts_as_complete(
    _: Any, self: Any, connection: Any, name: str
) -> Any:
    return server.slot_of(connection, name)


@around(server, "precedes_publication")
def a_driver_that_hangs_advances_the_slot_of_its_successor(*_: Any, **__: Any) -> bool:
    return True


@around(ServerPoller, "_settled")
def a_first_start_does_not_wait_for_open_transactions(
    settled: Any, self: Any, connection: Any, first: Any, horizon: Any, *, before: str = ""
) -> Any:
    return (first,) if before else settled(self, connection, first, horizon)


@around(poller, "is_upgraded")
def an_upgraded_server_counts_as_another_one(*_: Any) -> bool:
    return False


@around(ServerPoller, "_advanced")
def a_slot_that_is_older_than_the_publication_stays(
    _: Any, self: Any, connection: Any, slot: Any, *__: Any
) -> Any:
    return slot.confirmed


POSTGRES_MUTATIONS: list[Patch] = [
    a_table_that_was_removed_for_a_while_is_not_noticed,
    a_publication_that_was_replaced_for_a_while_is_not_noticed,
    what_the_publication_was_is_forgotten_at_a_restart,
    deferrable_keys_are_accepted,
    partitions_with_an_identity_of_their_own_are_accepted,
    a_slot_that_the_server_still_creates_counts_as_complete,
    a_driver_that_hangs_advances_the_slot_of_its_successor,
    an_upgraded_server_counts_as_another_one,
    a_slot_that_is_older_than_the_publication_stays,
    kinds_of_changes_that_were_left_out_for_a_while_are_not_noticed,
    a_first_start_does_not_wait_for_open_transactions,
]
