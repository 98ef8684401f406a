"""Defects put into the mysql source, to check that the life ``mysql`` finds them."""

from __future__ import annotations

from typing import Any

from flip27_source.readers.mysql import changes
from tests.mutating import Patch, around


@around(changes, "_has")
def a_chunk_counts_as_if_it_had_the_transaction_after_its_snapshot(_: Any, read: Any, rules: Any) -> Any:
    return [read.pos <= (1 << 62 if mark is None else int(mark)) for mark in rules.marks]


@around(changes, "is_emptied_between")
def chunks_that_a_truncate_has_emptied_are_not_read_again(*_: Any) -> bool:
    return False


@around(changes, "_with_moves")
def a_change_of_a_key_is_an_update(_: Any, read: Any) -> Any:
    return read


MYSQL_MUTATIONS: tuple[Patch, ...] = (
    a_chunk_counts_as_if_it_had_the_transaction_after_its_snapshot,
    chunks_that_a_truncate_has_emptied_are_not_read_again,
    a_change_of_a_key_is_an_update,
)
