"""The views of stored state: their names, columns and rows.

``format("flip27_state")``, its documentation and its tests read this table. Needs no pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .checkpoint_rows import action_rows, checkpoint_rows, loss_rows, report_rows, source_rows
from .history import History
from .predicates import Predicate
from .split_rows import file_rows, quarantine_rows, split_rows

_LONG, _STRING = pa.int64(), pa.string()
_TIME = pa.timestamp("us", "UTC")
_TEXTS = pa.map_(pa.string(), pa.string())

SPARK_NAMES = {_LONG: "long", _STRING: "string", _TIME: "timestamp", _TEXTS: "map<string,string>"}
"""Spark's names of the column types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its name, type and meaning; nullable if the value may be unknown."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One view."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    rows: Callable[[History, Predicate], Iterator[dict[str, Any]]]

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])


def _key(name: str, kind: pa.DataType, doc: str) -> Column:
    return Column(name=name, type=kind, doc=doc, nullable=False)


def _column(name: str, kind: pa.DataType, doc: str) -> Column:
    return Column(name=name, type=kind, doc=doc)


_LINEAGE = _key(
    "lineage", _STRING, "the lineage: its directory; `inline-<n>` for state in Spark's offset log"
)
_CHECKPOINT = _key("checkpoint_id", _LONG, "the checkpoint, from 1")
_BATCH = _column("batch_id", _LONG, "Spark's batch id; null unless Spark's checkpoint was given")
_SPLIT_ID = _key(
    "split_id", _STRING, "the split's id; its JSON if a class other than that of files computes the id"
)
_SPLIT = _key("split", _STRING, "the split as JSON")

_CHECKPOINTS = View(
    name="checkpoints",
    doc="One row for each retained checkpoint.",
    rows=checkpoint_rows,
    columns=(
        _LINEAGE,
        _CHECKPOINT,
        _BATCH,
        _key(
            "status",
            _STRING,
            "`complete`: a later checkpoint follows, or Spark's commit log has its batch; `pending`: the "
            "batch is not known to be complete; `orphan`: the query restarted from an earlier checkpoint",
        ),
        _key("created_at", _TIME, "when it was created"),
        _key("kind", _STRING, "`checkpoint` or `savepoint`"),
        _key("splits", _LONG, "splits in its batch"),
        _key("files", _LONG, "files among them; a file in ranges counts once, with its first range"),
        _key("subtasks", _LONG, "tasks of its batch"),
        _key("live", _LONG, "splits that continue after it"),
        _key("waiting", _LONG, "splits that a limit has deferred to a later batch"),
        _key("finished", _LONG, "splits finished since the source began, including its batch"),
        _key("quarantined", _LONG, "splits set aside before it"),
        _key("ignored", _LONG, "unreadable splits left out before it because of an option"),
        _key("data_losses", _LONG, "number of losses of data before it was read, since the source began"),
        _key("actions", _LONG, "pending side effects"),
        _key("report_demand", _STRING, "whether its tasks report: `none`, `wanted` or `required`"),
        _key("state", _STRING, "the enumerator's state as JSON; bulk state as names of segments"),
        _key("state_version", _LONG, "the version of that state"),
        _key("library", _STRING, "the version of flip27-source that wrote it"),
        _key("document_bytes", _LONG, "size of its document in bytes"),
        _key("segment_bytes", _LONG, "size of its segments in bytes; other checkpoints may share them"),
        _key("digest", _STRING, "the digest of its content, part of its name"),
        _column(
            "parent",
            _STRING,
            "the previous checkpoint, `<id>-<digest>`; null for the first, and for inline state",
        ),
        _column(
            "edits",
            _STRING,
            "the edits applied by it: who, what, why and the outcome of each, as a JSON list",
        ),
        _column(
            "restored_from", _STRING, "the savepoint from which the source was started with this checkpoint"
        ),
    ),
)

_SPLITS = View(
    name="splits",
    doc="One row for each split that a retained checkpoint has planned, or that waits, is live or set aside.",
    rows=split_rows,
    columns=(
        _LINEAGE,
        _SPLIT_ID,
        _key(
            "status",
            _STRING,
            "`waiting`: deferred by a limit; `planned`: in the newest batch, which is not known to be "
            "complete; `finished`; `live`: read in parts, continues at `position`; `returned`: given back by "
            "the reader, not read; `quarantined`: set aside; `ignored`: unreadable, and left out because of "
            "an option (of checkpoints older than the retained ones, the last 20)",
        ),
        _SPLIT,
        _column("position", _STRING, "live splits: the split at its current position, as JSON"),
        _column("first_checkpoint", _LONG, "the first retained checkpoint whose batch had it"),
        _column("last_checkpoint", _LONG, "the last one"),
        _column("subtask", _LONG, "the task that had it last, or for which it waits"),
        _key("attempts", _LONG, "number of recorded failures to read it"),
        _column("error", _STRING, "the last error of reading it"),
        _column(
            "rows",
            _LONG,
            "rows read in these batches; null unless its tasks reported and read only this split",
        ),
        _column("bytes", _LONG, "bytes of Arrow data read, under the same condition"),
    ),
)

_FILES = View(
    name="files",
    doc="One row for each file, or range of a file, in a batch, and one for each waiting file.",
    rows=file_rows,
    columns=(
        _LINEAGE,
        _key("path", _STRING, "the file"),
        _column("checkpoint_id", _LONG, "the checkpoint whose batch had it; null while it waits"),
        _BATCH,
        _column("planned_at", _TIME, "when that checkpoint was created"),
        _key("status", _STRING, "as in `splits`, for this batch"),
        _column("subtask", _LONG, "the task that had it"),
        _column("start", _LONG, "first byte of the range; 0 for a whole file"),
        _column("end", _LONG, "first byte after the range; null for the end of the file"),
        _column("length", _LONG, "size of the whole file in bytes"),
        _column("modified_at", _TIME, "modification time of the file"),
        _SPLIT_ID,
    ),
)

_QUARANTINE = View(
    name="quarantine",
    doc="One row for each unreadable split that was set aside; none of its rows were delivered.",
    rows=quarantine_rows,
    columns=(
        _LINEAGE,
        _SPLIT_ID,
        _column("path", _STRING, "the file, if the split is one"),
        _SPLIT,
        _key("checkpoint_id", _LONG, "the checkpoint whose batch had it"),
        _BATCH,
        _key("attempts", _LONG, "number of attempts to read it"),
        _key("error", _STRING, "the last error"),
    ),
)

_REPORTS = View(
    name="reports",
    doc="One row for each task that has reported. With `taskReports=always`, all tasks report.",
    rows=report_rows,
    columns=(
        _LINEAGE,
        _CHECKPOINT,
        _BATCH,
        _key("subtask", _LONG, "the task, from 0"),
        _key("attempt", _LONG, "Spark's number of the accepted attempt, from 0"),
        _key("host", _STRING, "where it ran"),
        _key("rows", _LONG, "rows delivered to Spark"),
        _key("bytes", _LONG, "their size as Arrow data; 0 for readers of tuples"),
        _key("splits", _LONG, "splits read"),
        _key("duration_ms", _LONG, "how long the attempt took"),
        _column("max_event_time", _TIME, "largest value of `eventTimeColumn`; read as UTC if it has no zone"),
        _key("events", _LONG, "events that the reader sent to the enumerator"),
        _key("results", _STRING, "the results of splits that did not simply finish, as JSON"),
    ),
)

_ACTIONS = View(
    name="actions",
    doc="One row for each pending side effect (archive, delete, acknowledge) of the newest checkpoint.",
    rows=action_rows,
    columns=(
        _LINEAGE,
        _key("checkpoint_id", _LONG, "the newest checkpoint"),
        _key("due_checkpoint", _LONG, "the checkpoint after whose completion it is due"),
        _key("action", _STRING, "the action as JSON"),
        _key("attempts", _LONG, "number of failures"),
        _column("error", _STRING, "the last error"),
    ),
)

_LOSSES = View(
    name="losses",
    doc="One row for each of the last 20 losses of data before it was read, with `onDataLoss=report`.",
    rows=loss_rows,
    columns=(
        _LINEAGE,
        _key("checkpoint_id", _LONG, "the checkpoint whose batch continues after the loss"),
        _column("split_id", _STRING, "the split that lost data, if it was a single one"),
        _key("what", _STRING, "what was lost"),
    ),
)

_SOURCE = View(
    name="source",
    doc="One row for each lineage: its source, its driver and its newest checkpoint.",
    rows=source_rows,
    columns=(
        _LINEAGE,
        _key("uid", _STRING, "the source's uid"),
        _key("enumerator", _STRING, "its enumerator"),
        _key("reader", _STRING, "its reader"),
        _key("state_version", _LONG, "version of the enumerator's state"),
        _key("split_version", _LONG, "version of its splits"),
        _key("library", _STRING, "the version of flip27-source that created it"),
        _key("start_options", _TEXTS, "options that took effect only at the first start"),
        _key("checkpoints", _LONG, "number of retained checkpoints"),
        _column("newest_checkpoint", _LONG, "the newest of them"),
        _column("epoch", _LONG, "number of drivers so far"),
        _column("driver_host", _STRING, "host of the last driver"),
        _column("driver_process", _LONG, "its process id"),
        _column("driver_started_at", _TIME, "when it took over"),
    ),
)

VIEWS = {
    view.name: view
    for view in (_CHECKPOINTS, _SPLITS, _FILES, _QUARANTINE, _LOSSES, _REPORTS, _ACTIONS, _SOURCE)
}
DEFAULT_VIEW = _CHECKPOINTS.name
