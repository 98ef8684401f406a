"""Splits that a DiscoveringEnumerator holds, as its stored state shows them: no author code is needed."""

from __future__ import annotations

import msgspec

from ..snapshots.documents import CheckpointDocument
from ..values.stored_json import decode_json


class HeldPage(msgspec.Struct):
    """The stored form of a PendingPage: all splits of a segment but the first ``taken``."""

    splits: str
    taken: int
    split_version: int


class _State(msgspec.Struct):
    pages: list[HeldPage]


def held_pages(document: CheckpointDocument) -> list[HeldPage]:
    """The pages that wait to be assigned; none where the state has another form."""
    try:
        return decode_json(document.raw.enumerator.state, _State).pages
    except msgspec.MsgspecError:
        return []
