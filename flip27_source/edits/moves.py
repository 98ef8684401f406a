"""Moves: live splits that move to positions of their own, in one dry run; an edit for each position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.edit_values import EditOperation
from ..enumerator_mixins import NamedPosition, NamesPositions
from ..errors import EditError
from .dry_run import EditPlan, plan_on
from .selection import Selection
from .state_copy import StateCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A position by its distance, in rows, from the one where the split stands; negative: further back."""

    rows: int


Move = Mapping[str, Any] | NamedPosition | Shift


def plan_moves(copy: StateCopy, moves: Mapping[str, Move], *, why: str, who: str | None) -> list[EditPlan]:
    """Plan ``set-position`` of several live splits: a dry run that changes nothing.

    Args:
        moves: the new position of each split, by id.

    Raises:
        EditError: a position is not possible, or is where the split stands already.
    """
    together: dict[bytes, tuple[Mapping[str, Any] | NamedPosition, list[str]]] = {}
    for split_id, move in moves.items():
        position = _shifted(copy, split_id, move.rows) if isinstance(move, Shift) else move
        key = msgspec.json.encode(position, order="sorted")
        together.setdefault(key, (position, []))[1].append(split_id)
    return [
        plan_on(
            copy,
            EditOperation.SET_POSITION,
            why=why,
            who=who,
            selection=Selection(split_ids=tuple(split_ids)),
            position=position,
        )
        for position, split_ids in together.values()
    ]


def _shifted(copy: StateCopy, split_id: str, rows: int) -> NamedPosition:
    at = offset_of(copy, split_id)
    if at is None:
        raise EditError(
            f"where {split_id} stands is not known as a number of rows, so it cannot be shifted",
            remedy="give a position; a partition that waits for its first offset has it after a batch",
        )
    return NamedPosition(offset=max(0, at + rows))


def offset_of(copy: StateCopy, split_id: str) -> int | None:
    """The number of rows before a live split's position, if its enumerator names positions by it."""
    kind = copy.kind
    if kind is None or not issubclass(kind, NamesPositions):
        return None
    for split in copy.standing.ledger.live:
        if split.split_id == split_id:
            now = msgspec.json.decode(copy.text_of(split))
            back = kind.rows_moved(now, {**now, **kind.fields_at(NamedPosition(offset=0))})
            return None if back is None else -back
    return None
