"""PlannedSubtask: what travels from the coordinator to one task. Values alone."""

from __future__ import annotations

from dataclasses import dataclass

from .file_names import CheckpointName
from .report_files import ReportPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPlace:
    """The savepoint that a checkpoint becomes; travels to the executor.

    Attributes:
        directory: of the savepoint. lineage, name: of the checkpoint.
    """

    directory: str
    lineage: str
    name: CheckpointName


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSubtask:
    """What travels from the coordinator to one task.

    Attributes:
        library: version of flip27-source on the driver.
        splits: the splits as JSON, in the form of the plan.
        events: what the enumerator has sent, as JSON, in order.
        report: where its report goes; None when it writes none.
        savepoint: what its checkpoint becomes; None where it becomes none.
    """

    library: str
    checkpoint_id: int
    subtask_id: int
    split_version: int
    splits: bytes
    events: tuple[bytes, ...] = ()
    report: ReportPlace | None = None
    savepoint: SavepointPlace | None = None
