"""Positions of live splits as people read them: in offsets, and in tables of the command line. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Any

import msgspec

from ..file_systems.url_credentials import masked
from ..split import SplitT
from ..values.stored_json import decode_json

MOST_POSITIONS = 20
"""Maximum number of live splits that an offset names."""

LONGEST_POSITION = 60
"""Maximum length, in characters, of a position, and of the split's id next to it."""

MOST_BYTES = 1200
"""Maximum size of all positions in an offset, which stays under 4 KiB."""


def readable_position(split: Any) -> str:
    """The fields of a stored split except its id, such as ``next=500``; only fields that are set.

    The fields of a nested value have the name of the value in front: ``log.first=500``.
    """
    if not isinstance(split, Mapping):
        return _short(_text(split))
    fields = {name: value for name, value in split.items() if name != "split_id"}
    return _short(" ".join(f"{name}={_text(value)}" for name, value in _set_fields(fields)))


def live_positions(live: Iterable[SplitT], encode: Callable[[SplitT], msgspec.Raw]) -> dict[str, str | int]:
    """The positions of the first live splits, by split id; ``...`` counts the others."""
    splits = list(live)
    positions: dict[str, str | int] = {}
    left = MOST_BYTES
    for split in nsmallest(MOST_POSITIONS, splits, key=lambda split: split.split_id):
        name, position = _short(masked(split.split_id)), readable_position(decode_json(encode(split)))
        left -= len(name) + len(position)
        if left < 0:
            break
        # Ids that are equal once they are shortened share one entry.
        positions.setdefault(name, position)
    if len(positions) < len(splits):
        positions["..."] = len(splits) - len(positions)
    return positions


def _set_fields(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _set_fields(value, f"{prefix}{name}.")
        elif value not in (None, []):
            yield f"{prefix}{name}", value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _short(text: str) -> str:
    # Spark's JSON writes a non-ASCII character as six or twelve characters.
    plain = ascii(masked(text))[1:-1]
    return plain if len(plain) <= LONGEST_POSITION else plain[: LONGEST_POSITION - 3] + "..."
