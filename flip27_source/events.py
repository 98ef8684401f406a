"""Events between the coordinator and its subtasks, and the marks that a reader yields between rows.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from .split import SplitT


class SourceEvent:
    """Base of custom events between a SplitEnumerator and its SplitReaders (FLIP-27 SourceEvent).

    Subclasses are frozen dataclasses; they are stored and sent as JSON by their field types. The receiver
    declares the events that it takes by the annotation of its ``handle_source_event``; their class names
    must differ.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Progress(Generic[SplitT]):
    """Yielded by a reader after the rows that it covers: the split at its position after those rows.

    The runtime may end the split's share of the batch here; the next batch then continues with ``split``
    (reader-bounded splits, see :class:`~flip27_source.YieldsProgress`).

    Attributes:
        split: the same split, with its ``split_id``, at its new position; None if the split is
            finished for good and must not be read again.
    """

    split: SplitT | None


class ReturnSplit(Exception):  # noqa: N818 - not an error: a decision of the reader
    """Raised by ``read`` before its first row: the split returns to the enumerator, unread.

    The enumerator gets it by ``add_splits_back`` when the batch is complete, exactly once.
    """
