"""Defects that the postgres source once had, put back to check that the life ``postgres`` finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flip27_source.enumerators.postgres import catalog, poller, server
from flip27_source.enumerators.postgres.enumerator import PostgresEnumerator
from flip27_source.enumerators.postgres.poller import ServerPoller
from flip27_source.enumerators.postgres.publication import PublicationMarks
from flip27_source.readers.postgres import chunk_rows, delivered_changes, reader
from flip27_source.readers.postgres.window_delivery import WindowDelivery
from tests.mutating import Patch, around

POSTGRES_MUTATIONS: list[Patch] = []


def mutation(patch: Patch) -> Patch:
    """Add a defect."""
    POSTGRES_MUTATIONS.append(patch)
    return patch


def _with_marks(patch: pytest.MonkeyPatch, change: Callable[[PublicationMarks], PublicationMarks]) -> None:
    marks = poller.publication_marks

    def changed(*arguments: Any) -> PublicationMarks | None:
        found = marks(*arguments)
        return None if found is None else change(found)

    patch.setattr(poller, "publication_marks", changed)


def _without(found: PublicationMarks, *, prefix: str = "", part: str = "") -> PublicationMarks:
    """The marks without those whose value begins, or whose name has a part, like this."""
    left = {
        name: mark.split()[0] if prefix and mark.startswith(prefix) else mark
        for name, mark in found.marks.items()
        if not part or part not in name
    }
    return replace(found, marks=left)


@mutation
def kinds_of_changes_that_were_left_out_for_a_while_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    _with_marks(patch, lambda found: _without(found, part="publication"))


@mutation
def a_schema_that_was_removed_for_a_while_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    _with_marks(patch, lambda found: _without(found, prefix="schema"))


@mutation
def a_table_that_was_unlogged_for_a_while_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    _with_marks(patch, lambda found: _without(found, part="storage"))


@mutation
def a_publication_that_was_replaced_for_a_while_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    _with_marks(
        patch, lambda found: replace(_without(_without(found, part="publication"), prefix="entry"), oid=1)
    )


@mutation
@around(PostgresEnumerator, "_take_server")
def what_the_publication_was_is_forgotten_at_a_restart(
    take: Any, self: PostgresEnumerator, assigner: Any, result: Any
) -> None:
    take(self, assigner, replace(result, published=None))


@mutation
@around(WindowDelivery, "__init__")
def keys_are_those_of_the_present_catalog(
    init: Any, self: Any, window: Any, *more: Any, **named: Any
) -> None:
    init(self, replace(window, keys=None), *more, **named)


def _accepts(word: str) -> Patch:
    def patch_of(patch: pytest.MonkeyPatch) -> None:
        found = catalog._catalog_table

        def accepted(*arguments: Any) -> Any:
            table = found(*arguments)
            return replace(table, refused=None) if table.refused and word in table.refused[0] else table

        patch.setattr(catalog, "_catalog_table", accepted)

    return patch_of


@mutation
def deferrable_keys_are_accepted(patch: pytest.MonkeyPatch) -> None:
    _accepts("DEFERRABLE")(patch)


@mutation
def partitions_with_an_identity_of_their_own_are_accepted(patch: pytest.MonkeyPatch) -> None:
    _accepts("partition")(patch)


@mutation
@around(delivered_changes, "_check_key")
def an_identity_that_is_moved_in_mid_snapshot_is_accepted(*_: Any) -> None:
    pass


@mutation
@around(chunk_rows, "_check_key")
def a_key_that_gets_another_order_in_mid_snapshot_is_accepted(*_: Any) -> None:
    pass


@mutation
@around(ServerPoller, "_complete_slot")
def a_slot_that_is_being_created_counts_as_complete(_: Any, self: Any, connection: Any, name: str) -> Any:
    return server.slot_of(connection, name)


@mutation
def bounds_of_chunks_are_cut_to_the_length_of_the_key(patch: pytest.MonkeyPatch) -> None:
    with_length = catalog._KEY_COLUMNS.replace("(a.atttypid, -1)", "(a.atttypid, a.atttypmod)")
    patch.setattr(catalog, "_KEY_COLUMNS", with_length)


@mutation
@around(poller, "is_upgraded")
def an_upgraded_server_counts_as_another_one(*_: Any) -> bool:
    return False


@mutation
@around(ServerPoller, "_advanced")
def a_slot_that_is_older_than_the_publication_stays(
    _: Any, self: Any, connection: Any, slot: Any, *__: Any
) -> Any:
    return slot.confirmed


@mutation
@around(server, "precedes_publication")
def a_driver_that_hangs_advances_the_slot_of_its_successor(*_: Any, **__: Any) -> bool:
    return True


@mutation
@around(ServerPoller, "_settled")
def a_first_start_does_not_wait_for_open_transactions(
    settled: Any, self: Any, connection: Any, first: Any, horizon: Any, *, before: str = ""
) -> Any:
    return (first,) if before else settled(self, connection, first, horizon)


@mutation
@around(reader, "advance_if_unused")
def a_slot_that_a_crash_has_set_back_stays_there(*_: Any) -> None:
    pass
