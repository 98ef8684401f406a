"""Defects that the postgres source once had, put back to check that the life ``postgres`` finds them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flip27_source.enumerators.postgres import poller
from flip27_source.enumerators.postgres.poller import ServerPoller
from tests.mutating import Patch, around


@around(poller, "publication_marks")
def kinds_of_changes_that_were_left_out_for_a_while_are_not_noticed(marks: Any, *arguments: Any) -> Any:
    found = marks(*arguments)
    return found and replace(
        found, marks={name: mark for name, mark in found.marks.items() if name != "publication"}
    )


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
    an_upgraded_server_counts_as_another_one,
    a_slot_that_is_older_than_the_publication_stays,
    kinds_of_changes_that_were_left_out_for_a_while_are_not_noticed,
    a_first_start_does_not_wait_for_open_transactions,
]
