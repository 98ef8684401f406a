"""Chooses the source of a Spark query that ``--source`` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from flip27_source.errors import OptionError, StateLocationError

T = TypeVar("T")


def chosen_source(found: Sequence[T], number: int | None, *, kind: str, batch: str, remedy: str) -> T:
    """The only source of one kind, or the one with the given number, from 0.

    Args:
        kind: the kind, for errors: file or Kafka.
        batch: the batch in whose offsets the sources were found.
        remedy: what to do if there is no such source.

    Raises:
        StateLocationError: there is no such source. OptionError: there are several, and no number is given.
    """
    if not found or (number is not None and not 0 <= number < len(found)):
        raise StateLocationError(f"{batch} has {len(found)} {kind} sources", remedy=remedy)
    if number is None and len(found) > 1:
        raise OptionError(
            f"the query has {len(found)} {kind} sources",
            remedy="add --source, and start a flip27 query for each of them",
        )
    return found[number or 0]
