"""Moves: live splits that move to positions of their own, in one dry run; an edit for each position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.edit_values import EditOperation
from ..enumerator_mixins import NamedPosition
from ..errors import EditError
from .dry_run import EditPlan, check_selected, fields_at, only_lineage, plan_on
from .selection import Selection, live
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
    standing = {split.split_id: split for split in copy.standing.ledger.live}
    together: dict[bytes, tuple[Mapping[str, Any] | NamedPosition, list[str]]] = {}
    for split_id, move in moves.items():
        position = (
            _shifted(copy, split_id, standing.get(split_id), move.rows) if isinstance(move, Shift) else move
        )
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


def plan_shift(
    rows: int,
    *,
    state: str,
    why: str,
    who: str | None = None,
    lineage: str | None = None,
    splits: Iterable[str] = (),
    glob: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[EditPlan]:
    """As ``plan``: ``set-position`` of live splits, each ``rows`` further on; an edit for each position."""
    options = dict(storage_options or {})
    selection = Selection(split_ids=tuple(dict.fromkeys(splits)), glob=glob)
    check_selected(EditOperation.SET_POSITION, selection, {})
    copy = StateCopy(only_lineage(state, lineage, options), options)
    chosen = selection.chosen(live(copy, selection.asked.split_ids), "that is live")
    return plan_moves(copy, {item.split_id: Shift(rows=rows) for item in chosen}, why=why, who=who)


def _shifted(copy: StateCopy, split_id: str, now: Any, rows: int) -> NamedPosition:
    """The position so many rows away."""
    first = fields_at(NamedPosition(offset=0), copy)
    if now is None:
        return NamedPosition(offset=0)  # the dry run says that it is not live
    stands: dict[str, Any] = msgspec.json.decode(copy.text_of(now))
    kind: Any = copy.kind  # it names positions
    back = kind.rows_moved(stands, {**stands, **first})
    if back is None:
        raise EditError(
            f"the offset of {split_id} is not known yet, so it cannot be shifted",
            remedy="wait for its next batch, or give an offset, a time, earliest or latest",
        )
    return NamedPosition(offset=max(0, rows - back))
