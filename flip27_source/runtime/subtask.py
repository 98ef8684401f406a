"""A subtask: what one Spark task reads of a batch, and the reading of it.

Runs on executors. A task may be repeated or killed at any point: nothing here outlives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .._version import __version__
from ..errors import ContractError, Flip27Error, IncompatibleStateError, SplitReadError
from ..events import Progress
from ..reader import ReadsTogether, SourceReaderContext
from ..segment import Segment
from ..snapshots.codec import SnapshotCodec
from ..source import Source
from .conform import conform


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSubtask:
    """What travels from the coordinator to one task.

    Attributes:
        library: version of flip27-source on the driver.
        splits: the splits as JSON, in the form of the plan.
    """

    library: str
    checkpoint_id: int
    subtask_id: int
    split_version: int
    splits: bytes


def read_subtask(
    source: Source, planned: PlannedSubtask, context: SourceReaderContext
) -> Iterator[pa.RecordBatch | tuple[Any, ...]]:
    """The rows of one subtask, in the exact schema of ``context``."""
    if planned.library != __version__:
        raise IncompatibleStateError(
            f"the driver has flip27-source {planned.library}, this executor has {__version__}",
            remedy="install the same version on all nodes",
        )
    codec = SnapshotCodec(source.enumerator_type)
    splits = codec.decode_splits(planned.split_version, Segment("splits", data=planned.splits))
    reader = source.reader_type()
    reader.open(context)
    try:
        if isinstance(reader, ReadsTogether):
            yield from _conformed(reader.read_together, splits, splits, context)
        else:
            for split in splits:
                yield from _conformed(reader.read, split, [split], context)
    finally:
        reader.close()


def _conformed(
    read: Callable[[Any], Iterator[Any]], what: Any, splits: Sequence[Any], context: SourceReaderContext
) -> Iterator[pa.RecordBatch | tuple[Any, ...]]:
    """What ``read(what)`` yields, in the schema; an error names the ``splits`` it was reading."""
    try:
        for item in read(what):
            if isinstance(item, pa.RecordBatch):
                yield conform(item, context.schema)
            elif isinstance(item, Progress):
                raise ContractError(
                    "the reader yielded Progress; reader-bounded splits are not supported yet",
                    remedy="let the enumerator bound the splits (bound_split)",
                )
            else:
                yield item
    except Flip27Error:
        raise
    except Exception as error:
        named = ", ".join(repr(split.split_id) for split in splits[:3])
        more = f" and {len(splits) - 3} more" if len(splits) > 3 else ""
        raise SplitReadError(
            f"reading split {named}{more} failed: {type(error).__name__}: {error}",
            remedy="mend the split or the reader; the batch is tried again when the query is "
            "restarted, and no row of it was delivered",
        ) from error
