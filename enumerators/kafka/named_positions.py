"""Positions in a partition as edits name them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.enumerators.kafka.split import AT_TIMESTAMP, EARLIEST, LATEST
from flip27_source.errors import EditError

_WORDS = {"earliest": EARLIEST, "latest": LATEST}


def fields_at(position: NamedPosition) -> Mapping[str, Any]:
    """The fields of a split at a position. The id of the topic is unset: the next batch sets it.

    Raises:
        EditError: it is not a position in a partition.
    """
    if position.word is not None:
        offset = _WORDS.get(position.word.lower())
        if offset is None:
            raise EditError(
                f"{position.word!r} is not a position in a partition",
                remedy="use earliest or latest, or an offset or a time",
            )
    else:
        offset = AT_TIMESTAMP if position.offset is None else position.offset
    if (position.offset or 0) < 0 or (position.timestamp_ms or 0) < 0:
        raise EditError(
            "an offset or a time below 0 is not a position in a partition",
            remedy="use earliest for the beginning",
        )
    return {"next": offset, "at_timestamp_ms": position.timestamp_ms, "topic_id": None}


def offsets_between(now: Mapping[str, Any], then: Mapping[str, Any]) -> int | None:
    """The number of offsets between two positions of a split; None unless both are offsets."""
    first, last = now.get("next"), then.get("next")
    if not isinstance(first, int) or not isinstance(last, int) or first < 0 or last < 0:
        return None
    return last - first
