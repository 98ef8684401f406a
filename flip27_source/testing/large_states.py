"""Warnings about state that is large: each checkpoint stores it again."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import msgspec

from ..coordination.checkpoints import Snapshot
from ..segment import Segment
from ..values.differences import field_names

LARGE_BYTES = 1_000_000
"""Fields of a state or of a split that are larger, as JSON, cause a warning."""
MOST_SPLITS = 1000
"""Number of splits that are looked at; there may be millions, but then they are small."""


def warn_of_large(snapshot: Snapshot[Any]) -> None:
    """Warn of the largest field of the enumerator's state, or of a split, if it is large."""
    size, what = max(_sizes(snapshot), default=(0, ""))
    if size > LARGE_BYTES:
        warnings.warn(
            f"each checkpoint stores {size / 1e6:.1f} MB in {what}: let a position be small, such as "
            "a number or a name, and put what only grows into a Segment, which is stored once",
            stacklevel=2,
        )


def _sizes(snapshot: Snapshot[Any]) -> Iterator[tuple[int, str]]:
    for name, value in _fields(snapshot.enumerator_state):
        yield _size(value), f"field {name!r} of the state" if name else "the state"
    ledger = snapshot.ledger
    planned = (split for assignment in snapshot.plan.assignments for split in assignment.splits)
    waiting = (item.split for item in ledger.waiting)
    for split in itertools.islice(itertools.chain(ledger.live, planned, waiting), MOST_SPLITS):
        if _size(split) > LARGE_BYTES:
            for name, value in _fields(split):
                yield _size(value), f"field {name!r} of split {split.split_id!r:.100}"


def _fields(value: Any) -> list[tuple[str, Any]]:
    names = field_names(value)
    return [("", value)] if names is None else [(name, getattr(value, name)) for name in names]


def _size(value: Any) -> int:
    def named(item: Any) -> Any:
        if isinstance(item, Segment):
            return ""
        raise NotImplementedError

    return len(msgspec.json.encode(value, enc_hook=named))
