"""The views of stored state: their names, columns and rows, declared once.

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
"""What Spark calls the types of columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its name, its type, and what it says; nullable where that may be unknown."""

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
_BATCH = _column("batch_id", _LONG, "Spark's number of its batch; known where Spark's checkpoint was given")
_SPLIT_ID = _key(
    "split_id", _STRING, "the split's id; its JSON where the id is computed by a class that is not of files"
)
_SPLIT = _key("split", _STRING, "the split, JSON")

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
            "`complete`: a later checkpoint follows, or Spark's commit log holds its batch; `pending`: the "
            "batch is not known to be complete; `orphan`: the query went back and left it",
        ),
        _key("created_at", _TIME, "when it was made"),
        _key("kind", _STRING, "`checkpoint` or `savepoint`"),
        _key("splits", _LONG, "splits that its batch reads"),
        _key("files", _LONG, "files among them; ranges of a file count once, with the first"),
        _key("subtasks", _LONG, "tasks that they are packed into"),
        _key("live", _LONG, "splits that go on after it"),
        _key("waiting", _LONG, "splits that a limit has put off to a later batch"),
        _key("finished", _LONG, "splits finished since the source began, those of its batch included"),
        _key("quarantined", _LONG, "splits set aside before it"),
        _key("ignored", _LONG, "splits left out before it because they cannot be read, by an option"),
        _key("data_losses", _LONG, "how often data was gone before it was read, since the source began"),
        _key("actions", _LONG, "side effects that are still to be done"),
        _key("report_demand", _STRING, "whether its tasks report: `none`, `wanted` or `required`"),
        _key("state", _STRING, "the enumerator's state, JSON; bulk state as names of segments"),
        _key("state_version", _LONG, "the version of that state"),
        _key("library", _STRING, "the version of flip27-source that wrote it"),
        _key("document_bytes", _LONG, "size of its document"),
        _key(
            "segment_bytes", _LONG, "size of the segments beside the document, shared with other checkpoints"
        ),
        _key("digest", _STRING, "what its content is named by"),
        _column(
            "parent", _STRING, "the checkpoint before it, `<id>-<digest>`; none for the first, or inline"
        ),
        _column(
            "edits", _STRING, "the edits that it has applied: who, what, why and what came of each; JSON list"
        ),
        _column("restored_from", _STRING, "the savepoint that the source was started from with it"),
    ),
)

_SPLITS = View(
    name="splits",
    doc="One row for each split that a retained checkpoint has planned, or that is under way or set aside.",
    rows=split_rows,
    columns=(
        _LINEAGE,
        _SPLIT_ID,
        _key(
            "status",
            _STRING,
            "`waiting`: put off by a limit; `planned`: in the newest batch, which is not known to be "
            "complete; `finished`; `live`: read in parts, goes on at `position`; `returned`: given back by "
            "the reader, not read; `quarantined`: set aside; `ignored`: it cannot be read, and an option "
            "leaves such splits out (of older checkpoints than those retained, the last 20)",
        ),
        _SPLIT,
        _column("position", _STRING, "live splits: the split as it stands, JSON"),
        _column("first_checkpoint", _LONG, "first retained checkpoint whose batch had it"),
        _column("last_checkpoint", _LONG, "last one"),
        _column("subtask", _LONG, "the task that had it last, or that it waits for"),
        _key("attempts", _LONG, "how many failures to read it are on record"),
        _column("error", _STRING, "how reading it failed last"),
        _column("rows", _LONG, "rows read in these batches, where its tasks reported and read nothing else"),
        _column("bytes", _LONG, "the same in bytes of Arrow data"),
    ),
)

_FILES = View(
    name="files",
    doc="One row for each batch that had a file, or a range of one; and for each file that waits.",
    rows=file_rows,
    columns=(
        _LINEAGE,
        _key("path", _STRING, "the file"),
        _column("checkpoint_id", _LONG, "the checkpoint whose batch had it; none while it waits"),
        _BATCH,
        _column("planned_at", _TIME, "when that checkpoint was made"),
        _key("status", _STRING, "as in `splits`, for this batch"),
        _column("subtask", _LONG, "the task that had it"),
        _column("start", _LONG, "first byte of the range; 0 for a whole file"),
        _column("end", _LONG, "first byte after the range; none for the end of the file"),
        _column("length", _LONG, "size of the whole file in bytes"),
        _column("modified_at", _TIME, "modification time of the file"),
        _SPLIT_ID,
    ),
)

_QUARANTINE = View(
    name="quarantine",
    doc="One row for each split that cannot be read and was set aside: none of its rows were delivered.",
    rows=quarantine_rows,
    columns=(
        _LINEAGE,
        _SPLIT_ID,
        _column("path", _STRING, "the file, where it is one"),
        _SPLIT,
        _key("checkpoint_id", _LONG, "the checkpoint whose batch it was to be read in"),
        _BATCH,
        _key("attempts", _LONG, "how often reading it was tried"),
        _key("error", _STRING, "how it failed last"),
    ),
)

_REPORTS = View(
    name="reports",
    doc="One row for each task that has reported; set `taskReports=always` for those of every source.",
    rows=report_rows,
    columns=(
        _LINEAGE,
        _CHECKPOINT,
        _BATCH,
        _key("subtask", _LONG, "the task, from 0"),
        _key("attempt", _LONG, "Spark's number of the attempt that counts, from 0"),
        _key("host", _STRING, "where it ran"),
        _key("rows", _LONG, "rows given to Spark"),
        _key("bytes", _LONG, "their size as Arrow data; 0 for readers of tuples"),
        _key("splits", _LONG, "splits read"),
        _key("duration_ms", _LONG, "how long the attempt took"),
        _column("max_event_time", _TIME, "largest value of `eventTimeColumn`; as UTC where it has no zone"),
        _key("events", _LONG, "events that the reader sent to the enumerator"),
        _key("results", _STRING, "what became of splits that did not simply finish, JSON"),
    ),
)

_ACTIONS = View(
    name="actions",
    doc="One row for each side effect (archive, delete, acknowledge) that the newest checkpoint has to do.",
    rows=action_rows,
    columns=(
        _LINEAGE,
        _key("checkpoint_id", _LONG, "the newest checkpoint"),
        _key("due_checkpoint", _LONG, "the checkpoint after whose completion it is due"),
        _key("action", _STRING, "what is to be done, JSON"),
        _key("attempts", _LONG, "how often it has failed"),
        _column("error", _STRING, "how it failed last"),
    ),
)

_LOSSES = View(
    name="losses",
    doc="One row for each time that data was gone before it was read, with `onDataLoss=report`; the last 20.",
    rows=loss_rows,
    columns=(
        _LINEAGE,
        _key("checkpoint_id", _LONG, "the checkpoint whose batch goes on behind the loss"),
        _column("split_id", _STRING, "the split that has lost data, where it was a single one"),
        _key("what", _STRING, "what is gone"),
    ),
)

_SOURCE = View(
    name="source",
    doc="One row for each lineage: what it belongs to, who drives it, how far it has come.",
    rows=source_rows,
    columns=(
        _LINEAGE,
        _key("uid", _STRING, "the source's uid"),
        _key("enumerator", _STRING, "its enumerator"),
        _key("reader", _STRING, "its reader"),
        _key("state_version", _LONG, "version of the enumerator's state"),
        _key("split_version", _LONG, "version of its splits"),
        _key("library", _STRING, "the version of flip27-source that began it"),
        _key("start_options", _TEXTS, "options that only mattered at the first start"),
        _key("checkpoints", _LONG, "checkpoints that are retained"),
        _column("newest_checkpoint", _LONG, "the newest of them"),
        _column("epoch", _LONG, "how many drivers have driven it so far"),
        _column("driver_host", _STRING, "where the last of them runs, or ran"),
        _column("driver_process", _LONG, "its process"),
        _column("driver_started_at", _TIME, "when it took over"),
    ),
)

VIEWS = {
    view.name: view
    for view in (_CHECKPOINTS, _SPLITS, _FILES, _QUARANTINE, _LOSSES, _REPORTS, _ACTIONS, _SOURCE)
}
DEFAULT_VIEW = _CHECKPOINTS.name
