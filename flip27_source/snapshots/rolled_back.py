"""Whether Spark's checkpoint was rolled back: it stands before what it once had committed.

A driver that was killed leaves one checkpoint at most behind Spark's newest offset: the one that it had
written and not told of, or whose offset Spark had not logged. Two in a row prove that Spark had committed
the first of them, so that its checkpoint location is an older copy now.
"""

from __future__ import annotations

from ..errors import StateError
from . import file_names
from .documents import MOST_DOCUMENT_BYTES, decode_document
from .file_names import CheckpointName
from .offsets import Offset
from .store import Store


def committed_behind(store: Store, offset: Offset) -> CheckpointName | None:
    """The newest checkpoint behind ``offset`` that Spark is known to have committed; None where none is."""
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
    """The checkpoints from ``name`` back to the one behind ``start``; empty where that is no ancestor."""
    line: list[CheckpointName] = []
    at: CheckpointName | None = name
    while at is not None and at.checkpoint_id > start.checkpoint_id:
        line.append(at)
        try:
            file = file_names.checkpoint_file(lineage, at)
            at = decode_document(store.read(file, MOST_DOCUMENT_BYTES), at).parent
        except StateError:
            return []  # damaged or gone: it proves nothing, and the query does not need it
    return line if at == start else []
