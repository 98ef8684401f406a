"""Batches that size themselves in some of the simulated queries, by the simulated clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from flip27_source.coordination import batch_sizing
from flip27_source.coordination.batch_limits import Limits
from flip27_source.coordination.batch_sizing import BatchTimes
from flip27_source.snapshots.documents import StoredDocument
from flip27_source.source_options import TARGET_BACKLOG_DURATION, TARGET_BATCH_DURATION

from .lives import DefectFound

_KINDS = frozenset({"files", "careless", "topics", "postgres", "snapshot"})
"""The lives whose readers leave it to the coordinator how much they read."""

_NAMES = (TARGET_BATCH_DURATION.name, TARGET_BACKLOG_DURATION.name)
_FEW = Limits(files=2, rows=3, bytes=100)


class Sizing:
    """The options of batches that size themselves, and the time that batches take.

    It draws from a generator of its own: seeds without such batches are the same with and without it.
    """

    def __init__(self, seed: int, kind: str) -> None:
        self._random = random.Random(f"sizing {seed}")
        self.is_used = kind in _KINDS and self._random.random() < 0.4
        self._patches = pytest.MonkeyPatch()
        if self.is_used:
            # The data of a simulation would fit into every first batch.
            self._patches.setattr(batch_sizing, "FIRST", _FEW)

    def end(self) -> None:
        self._patches.undo()

    def redraw(self, options: dict[str, str]) -> dict[str, str]:
        """The options with other targets, or without any."""
        if not self.is_used:
            return options
        others = {name: value for name, value in options.items() if name not in _NAMES}
        targets = self._random.choice(((), ("1ms",), ("3s",), ("3s",), ("3s", "10s"), ("60s",)))
        return others | dict(zip(_NAMES, targets, strict=False))

    def let_pass(self, pass_time: Callable[[int], None], rows: int) -> None:
        """Let the time of a batch pass."""
        if self.is_used:
            of_row_ms = self._random.choice((1, 700, 700, 700, 20_000))
            pass_time(self._random.randint(1, 1500) + rows * of_row_ms)


def check_sizes(before: StoredDocument | None, document: StoredDocument, summary: Mapping[str, Any]) -> None:
    """Check the limits of a batch that sizes itself.

    Args:
        before: the document of the checkpoint before it.
        document, summary: its own document, and the summary in its offset.

    Raises:
        DefectFound: a limit is 0, the batch does not keep to it, or what was measured is forgotten.
    """
    decided = None if document.times is None else document.times.decided
    if decided is None:
        return
    limits = (decided.files, decided.rows, decided.bytes)
    if any(limit is not None and limit < 1 for limit in limits):
        raise DefectFound(f"the limits of checkpoint {document.id} are {limits}")
    known = BatchTimes() if before is None or before.times is None else before.times
    if known.full and not document.edits and decided.reason == "first batch":
        raise DefectFound(f"checkpoint {document.id} has the limits of a first batch")
    files, splits = summary.get("files", 0), summary["splits"]
    if document.source.enumerator == "files" and splits > 1 and files > (decided.files or files):
        raise DefectFound(f"checkpoint {document.id} has {files} files, more than {decided.files}")
