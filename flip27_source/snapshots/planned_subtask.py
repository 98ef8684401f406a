"""PlannedSubtask: what the driver sends to one task. Only values."""

from __future__ import annotations

from dataclasses import dataclass, field

from .file_names import CheckpointName
from .report_files import ReportPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPlace:
    """The savepoint that a checkpoint becomes; it is sent to the executor.

    Attributes:
        directory: the savepoint's directory. lineage, name: the checkpoint's lineage and name.
    """

    directory: str
    lineage: str
    name: CheckpointName


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSubtask:
    """What the driver sends to one task.

    Attributes:
        contract: the driver's contract version. It stays the first field: other code may unpickle the others
            wrongly.
        splits: the splits as JSON, as stored in the plan.
        events: the enumerator's events for the subtask, as JSON, in order.
        report: where the subtask writes its report; None if it writes none.
        savepoint: the savepoint that the checkpoint becomes; None if it does not become one.
        state: the driver's absolute path of the state location, if it is on a disk; tasks use the same path,
            whatever their working directory is. Otherwise None: the option says where it is.
        traceparent: the span of the batch (W3C Trace Context); None if nothing is traced.
        reads_once: it is part of a batch read (``spark.read``), which records nothing.
        document: lineage and name of the document of the batch; None if the offset contains it.
        epoch: the driver's; 0 if it is not known.
    """

    contract: str
    checkpoint_id: int
    subtask_id: int
    split_version: int
    splits: bytes
    events: tuple[bytes, ...] = ()
    report: ReportPlace | None = None
    savepoint: SavepointPlace | None = None
    state: str | None = None
    reads_once: bool = False
    traceparent: str | None = None
    document: tuple[str, CheckpointName] | None = None
    epoch: int = field(default=0, compare=False)  # R3 is about what is read
