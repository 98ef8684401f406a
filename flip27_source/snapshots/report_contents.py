"""The stored form of a report. Authors' values stay JSON: no author code is needed to read it. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from ..coordination.data_losses import DataLoss
from ..coordination.subtask_reports import CheckpointMetrics, SplitResult, SplitStatus
from .sealed import decode_sealed

FORMAT = 1
ABSENT = msgspec.Raw()


class StoredResult(msgspec.Struct, frozen=True, omit_defaults=True):
    split: str
    status: SplitStatus
    position: msgspec.Raw = ABSENT
    caught_up: bool = False
    error: str | None = None
    attempts: int = 0

    @classmethod
    def of(cls, result: SplitResult[Any], position: msgspec.Raw = ABSENT) -> StoredResult:
        return cls(
            split=result.split_id,
            status=result.status,
            position=position,
            caught_up=result.caught_up,
            error=result.error,
            attempts=result.attempts,
        )

    def result(self, position: Any = None) -> SplitResult[Any]:
        return SplitResult(
            split_id=self.split,
            status=self.status,
            position=position,
            caught_up=self.caught_up,
            error=self.error,
            attempts=self.attempts,
        )


class StoredReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int
    checkpoint: str
    subtask: int
    split_version: int
    results: list[StoredResult] = []
    events: list[msgspec.Raw] = []
    losses: list[DataLoss] = []
    metrics: CheckpointMetrics = CheckpointMetrics()


def decode_stored_report(file: str, data: bytes) -> StoredReport:
    """Decode a report; ``file``: its name, for messages.

    Raises:
        CorruptStateError: the report is truncated or altered.
        IncompatibleStateError: this library does not know the report's format.
    """
    remedy = "restore the file from a backup of the state location"
    return decode_sealed(
        data, "report", StoredReport, what=f"report {file}", formats=(FORMAT,), remedy=remedy
    )
