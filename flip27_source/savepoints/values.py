"""What is known of savepoints: values alone."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from ..snapshots.file_names import CheckpointName


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSavepoint:
    """A savepoint that was made.

    Attributes:
        directory: where it is; what ``.option("savepoint", ...)`` takes.
        checkpoint_id: the checkpoint that it holds.
        batch_id: Spark's batch that this checkpoint ends with; None when Spark's checkpoint was
            not known. A copy is then of the newest checkpoint that is surely complete.
        requested: the running query has made it, at a batch boundary, and its readers were told; False
            for a copy of a checkpoint that was there.
    """

    directory: str
    checkpoint_id: int
    batch_id: int | None
    requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSavepoint:
    """A savepoint that is asked for.

    Attributes:
        request_id: of the request, a file that waits in the lineage until it is answered.
        lineage: the directory of that, in the state location.
        target: the directory in which the savepoint gets a directory of its own.
    """

    request_id: str
    lineage: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSavepoint:
    """A savepoint that is asked for and not made.

    Attributes:
        request_id, lineage, target: as RequestedSavepoint has them.
        error: why it was not made and never will be; None as long as it waits.
        failed_at: when that was found; None as long as it waits.
    """

    request_id: str
    lineage: str
    target: str
    error: str | None = None
    failed_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestBatch:
    """The newest committed batch of a query.

    Attributes:
        checkpoint: the query's Spark checkpoint location.
        named: lineage and checkpoint of each source whose state is in files.
    """

    checkpoint: str
    batch_id: int
    named: tuple[tuple[str, CheckpointName], ...]
