"""Detects that Spark's checkpoint was rolled back: Spark had committed a later checkpoint than it now knows.

A killed driver leaves at most one checkpoint after Spark's newest offset: one whose offset was not returned
to Spark, or not logged by Spark. Two in a row prove that Spark had committed the first of them, so the
checkpoint location is an older copy.
"""

from __future__ import annotations

from ..errors import StateError
from . import file_names
from .documents import MOST_DOCUMENT_BYTES, decode_document
from .file_names import CheckpointName
from .offsets import Offset
from .store import Store


def committed_behind(store: Store, offset: Offset) -> CheckpointName | None:
    """The newest checkpoint after ``offset`` that Spark must have committed; None if there is none."""
    lineage, start = offset.lineage, offset.name
    if lineage is None or start is None:
        return None
    found = map(CheckpointName.parse, store.list(f"{lineage}/{file_names.CHECKPOINTS}"))
    later = sorted((name for name in found if name is not None and name > start), reverse=True)
    for name in later:
        line = _line(store, lineage, name, start)
        if len(line) > 1:
            return line[1]
    return None


def _line(store: Store, lineage: str, name: CheckpointName, start: CheckpointName) -> list[CheckpointName]:
    """The checkpoints from ``name`` back to the successor of ``start``; empty if it is not an ancestor."""
    line: list[CheckpointName] = []
    at: CheckpointName | None = name
    while at is not None and at.checkpoint_id > start.checkpoint_id:
        line.append(at)
        try:
            file = file_names.checkpoint_file(lineage, at)
            at = decode_document(store.read(file, MOST_DOCUMENT_BYTES), at).parent
        except StateError:
            return []  # a damaged or missing document proves nothing, and the query does not need it
    return line if at == start else []
