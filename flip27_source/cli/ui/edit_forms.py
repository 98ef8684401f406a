"""Forms of edits: what was typed, as a dry run. Asks the functions of ``flip27 edit``; renders nothing."""

from __future__ import annotations

import datetime as dt
import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qs

from flip27_source.coordination.edit_values import EditOperation
from flip27_source.edits.dry_run import EditPlan, plan_on
from flip27_source.edits.moves import Move, plan_moves
from flip27_source.edits.selection import Selection, live
from flip27_source.edits.state_copy import StateCopy
from flip27_source.errors import EditError
from flip27_source.options import integer, refusal

from ..commands import instant
from ..edit.positions import move

T = TypeVar("T")

TICKED, ALL = "ticked", "all"
_MOST_FIELDS = 5000


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form as a browser has sent them."""

    fields: Mapping[str, Sequence[str]]

    @classmethod
    def parse(cls, body: bytes) -> Form:
        """Raises ValueError if it has too many fields."""
        text = body.decode("ascii", errors="replace")
        return cls(parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))

    def __getitem__(self, name: str) -> str:
        return next(iter(self.fields.get(name, ())), "").strip()

    @property
    def ticked(self) -> list[str]:
        """The ids of the splits that are ticked."""
        found = (split_of(text) for text in self.fields.get("split", ()))
        return [split_id for split_id in found if split_id is not None]

    @property
    def own_positions(self) -> dict[str, str]:
        """The positions that were typed beside splits, by their ids."""
        typed = {split_of(name[3:]): self[name] for name in self.fields if name.startswith("to ")}
        return {split_id: text for split_id, text in typed.items() if split_id is not None and text}


def value_of(split_id: str) -> str:
    """An id as the value of a field: browsers change line ends and what is not Unicode."""
    return json.dumps(split_id)


def split_of(value: str) -> str | None:
    try:
        split_id = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return split_id if isinstance(split_id, str) else None


def plans_of(operation: EditOperation, form: Form, copy: StateCopy) -> list[EditPlan]:
    """The dry run of a form: the edits, one for each position that splits move to.

    Raises:
        EditError: the edit is not possible, or a field cannot be read.
    """
    why, who = form["why"], form["who"] or None
    if operation is EditOperation.SET_POSITION:
        return plan_moves(copy, _moves(form, copy), why=why, who=who)
    rewinds = operation is EditOperation.REWIND
    return [
        plan_on(
            copy,
            operation,
            why=why,
            who=who,
            selection=Selection() if rewinds else _selection(form),
            to_checkpoint=_read(form, "checkpoint", integer(minimum=0)) if rewinds else None,
            to_time=_read(form, "time", _instant) if rewinds else None,
        )
    ]


def _selection(form: Form) -> Selection:
    if form["which"] == TICKED:
        if not form.ticked:
            raise EditError("no split is ticked", remedy="tick splits, or choose them by their names")
        return Selection(split_ids=tuple(dict.fromkeys(form.ticked)))
    since, until = (_read(form, name, _instant) for name in ("since", "until"))
    return Selection(glob=_glob(form), since=since, until=until)


def _glob(form: Form) -> str:
    if form["which"] != ALL and not form["glob"]:
        raise EditError("no name is given", remedy="give a pattern, such as */2026-01-03/*, or choose all")
    return "*" if form["which"] == ALL else form["glob"]


def _moves(form: Form, copy: StateCopy) -> dict[str, Move]:
    own = form.own_positions
    if form["which"] == TICKED:
        chosen = form.ticked
    else:
        glob = _glob(form)
        chosen = [item.split_id for item in live(copy) if fnmatch.fnmatchcase(item.split_id, glob)]
    if not chosen:
        raise EditError("no split is chosen", remedy="tick splits that are live, or choose all")
    aside = sorted(own.keys() - set(chosen))
    if aside:
        raise EditError(f"{aside[0]} has a position and is not ticked", remedy="tick it, or empty its field")
    missing = [split_id for split_id in chosen if not (own.get(split_id) or form["to"])]
    if missing:
        raise EditError(f"{missing[0]} has no new position", remedy="give one beside it, or one for all")
    return {split_id: _position(own.get(split_id) or form["to"]) for split_id in chosen}


def _position(text: str) -> Move:
    try:
        return move(text)
    except (ValueError, OverflowError, RecursionError) as error:
        raise EditError(
            f"{text[:200]!r} is no position: {error}",
            remedy="give an offset, +N or -N, earliest, latest, a time, or a JSON object of fields",
        ) from None


def _instant(text: str) -> dt.datetime:
    return instant(text, dt.UTC)  # as every time of the page


def _read(form: Form, name: str, parse: Callable[[str], T]) -> T | None:
    try:
        return parse(form[name]) if form[name] else None
    except (ValueError, OverflowError) as error:
        raise EditError(f"{name}: {refusal(form[name], error)}", remedy="correct the field") from None
