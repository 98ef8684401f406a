"""Defects that the postgres source once had, put back to check that the life ``postgres`` finds them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from flip27_source.enumerators.postgres import catalog, chunks, poller, server
from flip27_source.enumerators.postgres.assigner import Assigner
from flip27_source.enumerators.postgres.enumerator import PostgresEnumerator
from flip27_source.enumerators.postgres.poller import ServerPoller
from flip27_source.readers.postgres import chunk_rows, delivered_changes
from flip27_source.readers.postgres.window_delivery import WindowDelivery
from tests.mutating import Patch, around

_NO_DIGEST = re.compile(r"( storage \d+) \w+")


def _changed(found: Any, change: Callable[[str, str], str | None]) -> Any:
    """The marks of the publication, each as ``change`` returns it by its name and value; None: left out."""
    marks = {} if found is None else {name: change(name, mark) for name, mark in found.marks.items()}
    return found and replace(found, marks={name: mark for name, mark in marks.items() if mark})


@around(poller, "publication_marks")
def kinds_of_changes_that_were_left_out_for_a_while_are_not_noticed(marks: Any, *arguments: Any) -> Any:
    return _changed(marks(*arguments), lambda name, mark: None if name == "publication" else mark)


@around(poller, "publication_marks")
def a_schema_that_was_removed_for_a_while_is_not_noticed(marks: Any, *arguments: Any) -> Any:
    return _changed(marks(*arguments), lambda _, mark: "schema" if mark.startswith("schema") else mark)


@around(poller, "publication_marks")
def a_table_that_was_unlogged_for_a_while_is_not_noticed(marks: Any, *arguments: Any) -> Any:
    return _changed(marks(*arguments), lambda name, mark: None if "storage" in name else mark)


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


@around(Assigner, "keep")
def a_table_that_was_left_out_is_read_again_as_if_it_were_new(keep: Any, self: Any, is_wanted: Any) -> None:
    left = dict(self._left)
    keep(self, is_wanted)
    self._left = left


@around(WindowDelivery, "__init__")
def keys_are_those_of_the_present_catalog(
    init: Any, self: Any, window: Any, *more: Any, **named: Any
) -> None:
    init(self, replace(window, keys=None), *more, **named)


@around(chunk_rows, "columns_of")
def a_table_keeps_the_columns_of_its_first_chunk(look_up: Any, connection: Any, oid: int) -> Any:
    known = vars(connection._server).setdefault("columns_of", {})
    return known.setdefault(oid, look_up(connection, oid))


@around(poller, "publication_marks")
def a_table_with_other_columns_counts_as_written_while_it_was_unlogged(marks: Any, *arguments: Any) -> Any:
    found = marks(*arguments)
    named = {} if found is None else {_NO_DIGEST.sub(r"\1", name): m for name, m in found.marks.items()}
    return found and replace(found, marks=named)


@around(delivered_changes, "_check_key")
def rows_that_the_log_identifies_by_other_columns_than_the_chunks_are_delivered(*_: Any) -> None:
    pass


@around(catalog, "_key_columns")
def bounds_are_cut_to_the_length_that_the_key_had(columns: Any, connection: Any, *arguments: Any) -> Any:
    with_length = SimpleNamespace(
        execute=lambda sql, *parameters: connection.execute(
            sql.replace(", -1),", ", a.atttypmod),", 1), *parameters
        )
    )
    return columns(with_length, *arguments)


@around(chunks, "_order")
def an_altered_key_is_compared_by_its_new_order(*_: Any) -> str:
    return ""


_BRIEFLY = {
    kinds_of_changes_that_were_left_out_for_a_while_are_not_noticed: (
        "publishes_inserts_only", "publishes_partitions",
    ),
    a_schema_that_was_removed_for_a_while_is_not_noticed: ("schema_is_removed", "schema_is_set"),
    a_table_that_was_unlogged_for_a_while_is_not_noticed: ("is_unlogged",),
    a_table_that_was_removed_for_a_while_is_not_noticed: (
        "table_is_removed", "table_has_a_filter", "table_has_a_column_list",
    ),
    a_publication_that_was_replaced_for_a_while_is_not_noticed: (
        "publication_is_recreated_without_a_table", "publication_is_replaced_by_one_with_a_filter",
    ),
}  # fmt: skip
"""What administrators do for a while, where each of several acts must show the defect by itself."""

SNAPSHOT_MUTATIONS: list[tuple[Patch, str]] = [
    (rows_that_the_log_identifies_by_other_columns_than_the_chunks_are_delivered, "identity_is_set"),
    (rows_that_the_log_identifies_by_other_columns_than_the_chunks_are_delivered, "key_is_moved"),
    (bounds_are_cut_to_the_length_that_the_key_had, ""),
    (an_altered_key_is_compared_by_its_new_order, "key_becomes_a_text"),
]
"""Those of the life ``snapshot``, each with what alone must show it."""

_OTHERS: list[Patch] = [
    a_table_keeps_the_columns_of_its_first_chunk,
    a_table_with_other_columns_counts_as_written_while_it_was_unlogged,
    a_table_that_was_left_out_is_read_again_as_if_it_were_new,
    keys_are_those_of_the_present_catalog,
    what_the_publication_was_is_forgotten_at_a_restart,
    deferrable_keys_are_accepted,
    partitions_with_an_identity_of_their_own_are_accepted,
    a_slot_that_the_server_still_creates_counts_as_complete,
    a_driver_that_hangs_advances_the_slot_of_its_successor,
    an_upgraded_server_counts_as_another_one,
    a_slot_that_is_older_than_the_publication_stays,
    a_first_start_does_not_wait_for_open_transactions,
]

POSTGRES_MUTATIONS: list[tuple[Patch, str]] = [
    *((patch, act) for patch, acts in _BRIEFLY.items() for act in acts),
    *((patch, "") for patch in _OTHERS),
]
"""Each with what alone must show it; anything if that is empty."""
