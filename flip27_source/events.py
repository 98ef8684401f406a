"""Events between the coordinator and its subtasks, and the marks a reader yields between rows.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from .split import SplitT


class SourceEvent:
    """Base of custom events between a SplitEnumerator and its SplitReaders (FLIP-27 SourceEvent).

    Subclasses are frozen dataclasses; they are stored and sent as JSON through their field types.
    The side that receives says which ones it takes, by the annotation of its
    ``handle_source_event``; their class names have to differ.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Progress(Generic[SplitT]):
    """Yielded by a reader after the rows it covers: the split as it stands after those rows.

    Here the runtime may end the split's share of the batch; the split then goes on from ``split``
    in the next batch (reader-bounded splits, see :class:`~flip27_source.YieldsProgress`).

    Attributes:
        split: the same split, with its ``split_id``, at its new position; None when it is
            finished for good and is never to be read again.
    """

    split: SplitT | None


class ReturnSplit(Exception):  # noqa: N818 - not an error: what the reader decides
    """Raised by ``read`` before its first row: the split goes back to the enumerator, unread.

    It reaches ``add_splits_back`` when the batch is complete, exactly once.
    """
