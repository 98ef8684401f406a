"""Values that describe savepoints."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from ..snapshots.file_names import CheckpointName


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSavepoint:
    """A savepoint that was created.

    Attributes:
        directory: its directory, for ``.option("savepoint", ...)``.
        checkpoint_id: its checkpoint.
        batch_id: Spark's batch that ends with this checkpoint; None if Spark's checkpoint is not
            known. A copy then contains the newest checkpoint that is known to be complete.
        requested: whether the running query took it at a batch boundary and notified its readers; False
            for a copy of an existing checkpoint.
    """

    directory: str
    checkpoint_id: int
    batch_id: int | None
    requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSavepoint:
    """A savepoint that was requested.

    Attributes:
        request_id: id of the request, a file that waits in the lineage until it is answered.
        lineage: the directory of the lineage, in the state location.
        target: the directory in which the savepoint gets its own directory.
    """

    request_id: str
    lineage: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSavepoint:
    """A requested savepoint that does not exist yet.

    Attributes:
        request_id, lineage, target: as in RequestedSavepoint.
        error: why the request failed; None while it waits.
        failed_at: when it failed; None while it waits.
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
