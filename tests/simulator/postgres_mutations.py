"""Defects that the postgres source once had, put back to check that the life ``postgres`` finds them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flip27_source.enumerators.postgres import poller
from tests.mutating import Patch, around


@around(poller, "publication_marks")
def kinds_of_changes_that_were_left_out_for_a_while_are_not_noticed(marks: Any, *arguments: Any) -> Any:
    found = marks(*arguments)
    return found and replace(
        found, marks={name: mark for name, mark in found.marks.items() if name != "publication"}
    )


POSTGRES_MUTATIONS: list[Patch] = [kinds_of_changes_that_were_left_out_for_a_while_are_not_noticed]
