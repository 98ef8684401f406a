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
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Progress(Generic[SplitT]):
    """Yielded by a reader after the rows it covers: the split as it stands after those rows.

    When the budget of the batch is used up the runtime cuts here, and the split goes on from
    ``split`` in the next batch (reader-bounded splits).
    """

    split: SplitT
