"""Progress events that Spark 4.3 has sent, reduced to one source or two."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

QUERY_ID = "f3d74195-0848-4d3c-82e8-7fa68e7e9a32"


def _offset(number: int, digest: str, **summary: int) -> dict[str, Any]:
    state = {"digest": digest, "file": f"files-0ddc217636a03cba/checkpoints/{number}-{digest}.json"}
    return {"checkpoint": number, "format": 1, "state": state, "summary": summary}


FIRST_OFFSET = _offset(
    1, "217539b57fa614b53dff56f4b384361d", bytes=8, files=2, finishedSplits=2, pendingSplits=3, splits=2
)
SECOND_OFFSET = _offset(
    2, "3a9283a85ed0192b8ac3870506f9ae84", bytes=8, files=2, finishedSplits=4, pendingSplits=1, splits=2
)
INLINE_OFFSET: dict[str, Any] = {
    "checkpoint": 1,
    "format": 1,
    "state": {"inline": {"id": 1, "source": {"enumerator": "files", "reader": "text", "uid": "orders/eu"}}},
    "summary": {"bytes": 20, "files": 5, "finishedSplits": 5, "pendingSplits": 0, "splits": 5},
}

FIRST: dict[str, Any] = {
    "id": QUERY_ID,
    "runId": "fe8bd79f-5ff2-4b27-9273-b9919836ba1c",
    "name": "lines",
    "timestamp": "2026-11-21T01:37:04.012Z",
    "batchId": 0,
    "batchDuration": 3813,
    "numInputRows": 4,
    "durationMs": {"addBatch": 3351, "latestOffset": 76, "triggerExecution": 3810},
    "stateOperators": [],
    "sources": [
        {
            "description": "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@13fe",
            "startOffset": None,
            "endOffset": FIRST_OFFSET,
            "latestOffset": {"checkpoint": 1, "pendingSplits": 3},
            "numInputRows": 4,
        }
    ],
    "sink": {"description": "NoopTable", "numOutputRows": 4},
}
SECOND: dict[str, Any] = FIRST | {
    "timestamp": "2026-11-21T01:37:07.843Z",
    "batchId": 1,
    "batchDuration": 319,
    "durationMs": {"addBatch": 188, "latestOffset": 3},
    "sources": [
        {
            "startOffset": FIRST_OFFSET,
            "endOffset": SECOND_OFFSET,
            "latestOffset": {
                "checkpoint": 2, "lastBytes": 20, "lastRetriedSubtasks": 1, "lastRows": 4,
                "lastSlowestSubtaskMs": 141, "pendingSplits": 1,
            },
            "numInputRows": 4,
        }
    ],
}  # fmt: skip


def at(text: str) -> dt.datetime:
    """A time on the day of the events, in UTC."""
    return dt.datetime.fromisoformat(f"2026-11-21T{text}+00:00")


def changed(
    progress: dict[str, Any],
    *,
    summary: dict[str, Any] | None = None,
    report: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A copy of the event, with changes in its source: in the offset's summary, the report, and fields."""
    event = copy.deepcopy(progress)
    source = event["sources"][0]
    source["endOffset"]["summary"] |= summary or {}
    source["latestOffset"] |= report or {}
    source |= fields
    return event
