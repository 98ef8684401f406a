"""The views of stored state: their names, columns and rows, declared once, and the options to read them.

``format("flip27_state")``, its documentation and its tests read these tables. Needs no pyspark.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from ..options import Option
from .checkpoint_rows import action_rows, checkpoint_rows, loss_rows, report_rows, source_rows
from .history import History
from .predicates import EVERYTHING, Predicate
from .split_rows import file_rows, quarantine_rows, split_rows

_LONG, _STRING, _BINARY = pa.int64(), pa.string(), pa.binary()
_TIME = pa.timestamp("us", "UTC")
_TEXTS = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, type and meaning; nullable if the value may be unknown."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One view; ``found`` gives its rows, without the lineage and columns that are null."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    found: Callable[[History, Predicate], Iterator[dict[str, Any]]]

    def rows(self, history: History, asked: Predicate = EVERYTHING) -> Iterator[dict[str, Any]]:
        """The rows, with every column in its order; ``asked`` only limits the files that are read."""
        for row in self.found(history, asked):
            row["lineage"] = history.lineage.name
            yield {column.name: row.get(column.name) for column in self.columns}

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])


_key = partial(Column, nullable=False)

_LINEAGE = _key(
    "lineage", _STRING, "the lineage: its directory; `inline-<n>` for state in Spark's offset log"
)
_CHECKPOINT = _key("checkpoint_id", _LONG, "the checkpoint, from 1")
_BATCH = Column("batch_id", _LONG, "Spark's number of its batch; known if Spark's checkpoint was given")
_SPLIT_ID = _key(
    "split_id", _STRING, "the split's id; the split's JSON if its class computes the id, except for files"
)
_SPLIT = _key("split", _STRING, "the split, JSON")

VIEWS: dict[str, View] = {}


def _view(
    name: str, doc: str, found: Callable[[History, Predicate], Iterator[dict[str, Any]]], *columns: Column
) -> None:
    VIEWS[name] = View(name=name, doc=doc, columns=(_LINEAGE, *columns), found=found)


_view(
    "checkpoints",
    "One row for each retained checkpoint.",
    checkpoint_rows,
    _CHECKPOINT,
    _BATCH,
    _key(
        "status",
        _STRING,
        "`complete`: a later checkpoint follows, or Spark's commit log contains its batch; `pending`: "
        "the batch is not known to be complete; `orphan`: the query continued from an earlier checkpoint",
    ),
    _key("created_at", _TIME, "when it was created"),
    _key("kind", _STRING, "`checkpoint` or `savepoint`"),
    _key("splits", _LONG, "splits that its batch reads"),
    _key("files", _LONG, "files among these splits; a file counts once, with its first range"),
    _key("subtasks", _LONG, "tasks that the splits are packed into"),
    _key("live", _LONG, "splits that continue after it"),
    _key("waiting", _LONG, "splits that a limit has postponed, and ranges that are to be read again"),
    _key("finished", _LONG, "splits finished since the source's first start; its batch counts as read"),
    _key("quarantined", _LONG, "splits quarantined before it"),
    _key("ignored", _LONG, "splits ignored before it by an option, because they cannot be read"),
    _key("data_losses", _LONG, "how often data was lost before it was read, since the source's first start"),
    Column(
        "sized", _STRING, "the limits of its batch by `targetBatchDuration`, and why they are these; JSON"
    ),
    Column(
        "event_time",
        _STRING,
        "how far batches are with `eventTimeOrder`: the largest time in a batch, the smallest watermark "
        "delay that loses nothing of its batch and the backlog, and how many splits were found too "
        "late; JSON",
    ),
    Column(
        "horizon",
        _STRING,
        "with `maxEventTimeDrift` or `replaySpeed`: the event time after which nothing is in its batch, what "
        "holds the others back, and how many splits are paused; JSON",
    ),
    _key("actions", _LONG, "side effects that are due and still to be performed"),
    _key("delayed_actions", _LONG, "side effects that wait for a time, such as the deletion of files"),
    _key("report_demand", _STRING, "whether its tasks report: `none`, `wanted` or `required`"),
    _key("state", _STRING, "the enumerator's state, JSON; bulk state as names of segments"),
    _key("state_version", _LONG, "the version of that state"),
    _key("library", _STRING, "the version of flip27-source that wrote it"),
    _key("document_bytes", _LONG, "size of its document"),
    _key("segment_bytes", _LONG, "size of the segments, which are shared with other checkpoints"),
    _key("digest", _STRING, "digest of its content, part of its name"),
    Column(
        "parent",
        _STRING,
        "the checkpoint before it, `<id>-<digest>`; null for the first, and for inline state",
    ),
    Column(
        "edits", _STRING, "the edits that it has applied, each with who, what, why and the result; JSON list"
    ),
    Column("restored_from", _STRING, "the savepoint that the source started from with this checkpoint"),
)

_view(
    "splits",
    "One row for each split that a retained checkpoint has planned, or that is in progress or "
    "quarantined. A range that cannot be read has its own row if its split was read on.",
    split_rows,
    _SPLIT_ID,
    _key(
        "status",
        _STRING,
        "`waiting`: postponed by a limit, or a chunk of a PostgreSQL table that is not assigned yet; "
        "`planned`: in the newest batch, which is not known to be "
        "complete; `finished`; `live`: read in parts, continues at `position`; `returned`: not read, and "
        "returned to the enumerator, by its reader or because its report is missing "
        "(`onMissingReport=repeat`); `quarantined`: it cannot be read, and can be retried or dropped; "
        "`dropped`: it could not be read, and an edit has taken it out of the quarantine; `undone`: a "
        "rewind has undone its batches, and it is read again once it is found again; "
        "`ignored`: it cannot be read, and is only counted (of checkpoints that are no longer retained, "
        "the last 20)",
    ),
    _SPLIT,
    Column("position", _STRING, "live splits: the split at its current position, JSON"),
    Column("first_checkpoint", _LONG, "first retained checkpoint whose batch contains it"),
    Column("last_checkpoint", _LONG, "last such checkpoint"),
    Column("subtask", _LONG, "the task that it was last assigned to, or that it waits for"),
    _key("attempts", _LONG, "recorded failures to read it"),
    Column("error", _STRING, "the last error on reading it"),
    Column("rows", _LONG, "rows read in these batches, if its tasks reported and read nothing else"),
    Column("bytes", _LONG, "the same, in bytes of Arrow data"),
)

_view(
    "files",
    "One row for each batch that contains a file or a range of it, and one for each waiting file.",
    file_rows,
    _key("path", _STRING, "the file"),
    Column("checkpoint_id", _LONG, "the checkpoint whose batch contains it; null while it waits"),
    _BATCH,
    Column("planned_at", _TIME, "when that checkpoint was created"),
    _key("status", _STRING, "as in `splits`, for this batch; `dropped` also if it was retried since"),
    Column("subtask", _LONG, "the task that it is assigned to"),
    Column("start", _LONG, "first byte of the range; 0 for a whole file"),
    Column("end", _LONG, "first byte after the range; null for the end of the file"),
    Column("length", _LONG, "size of the whole file in bytes"),
    Column("modified_at", _TIME, "modification time of the file"),
    _SPLIT_ID,
)

_view(
    "quarantine",
    "One row for each quarantined split, and for each quarantined Kafka record, which cannot be decoded. "
    "Their rows were not delivered.",
    quarantine_rows,
    _SPLIT_ID,
    Column("path", _STRING, "the file, if the split is one"),
    _SPLIT,
    _key("checkpoint_id", _LONG, "the checkpoint whose batch should have read it"),
    _BATCH,
    _key("attempts", _LONG, "attempts to read it"),
    _key("error", _STRING, "the last error"),
    Column("topic", _STRING, "the topic of a Kafka record; null otherwise, like the columns below"),
    Column("partition", _LONG, "its partition"),
    Column("offset", _LONG, "its offset"),
    Column("timestamp", _TIME, "its time"),
    Column("key", _BINARY, "its key"),
    Column("value", _BINARY, "its value, as it was sent"),
)

_view(
    "losses",
    "One row for each time that data was lost before it was read, with `onDataLoss=report`; the last 20.",
    loss_rows,
    _key("checkpoint_id", _LONG, "the checkpoint whose batch continues after the loss"),
    Column("split_id", _STRING, "the split that has lost data, if it was a single one"),
    _key("what", _STRING, "the lost data"),
)

_view(
    "reports",
    "One row for each task that has reported. With `taskReports=always`, the tasks of every source report.",
    report_rows,
    _CHECKPOINT,
    _BATCH,
    _key("subtask", _LONG, "the task, from 0"),
    _key("attempt", _LONG, "Spark's number of the attempt that counts, from 0"),
    _key("host", _STRING, "where it ran"),
    _key("rows", _LONG, "rows passed to Spark"),
    _key("bytes", _LONG, "their size as Arrow data; 0 for readers of tuples"),
    _key("splits", _LONG, "splits read"),
    _key("duration_ms", _LONG, "duration of the attempt"),
    Column("max_event_time", _TIME, "largest value of `eventTimeColumn`; as UTC if it has no zone"),
    _key("events", _LONG, "events that the reader sent to the enumerator"),
    _key("results", _STRING, "results of splits that did not simply finish, JSON"),
)

_view(
    "actions",
    "One row for each side effect (archive, delete, acknowledge) still to be performed.",
    action_rows,
    _key("checkpoint_id", _LONG, "the newest checkpoint"),
    _key("due_checkpoint", _LONG, "the checkpoint after whose completion it is due"),
    Column("waits_since", _TIME, "from when it waits for a time; null if it is due"),
    Column("due_at", _TIME, "when it is due, by the options of the run that wrote the checkpoint"),
    _key("action", _STRING, "what to do, JSON"),
    _key("attempts", _LONG, "failures so far"),
    Column("error", _STRING, "the last error"),
)

_view(
    "source",
    "One row for each lineage: its source, its driver and its newest checkpoint.",
    source_rows,
    _key("uid", _STRING, "the source's uid"),
    _key("enumerator", _STRING, "its enumerator"),
    _key("reader", _STRING, "its reader"),
    _key("state_version", _LONG, "version of the enumerator's state"),
    _key("split_version", _LONG, "version of its splits"),
    _key("library", _STRING, "the version of flip27-source that created it"),
    _key("start_options", _TEXTS, "options that only count at the first start"),
    _key("checkpoints", _LONG, "number of retained checkpoints"),
    Column("newest_checkpoint", _LONG, "the newest checkpoint"),
    Column("epoch", _LONG, "number of drivers that have run it so far"),
    Column(
        "driver",
        _STRING,
        "`running`, `stopped`, `failed`, `lost` (it ended without a word) or `unknown`: the last driver",
    ),
    Column("driver_since", _TIME, "since when; if it is lost, when it was last heard of"),
    Column("error", _STRING, "the error with which it failed"),
    Column("remedy", _STRING, "what to do about that error"),
    Column("failed_checkpoints", _LONG, "failures to plan a batch or to store it that are kept, at most 10"),
    Column("last_failure", _STRING, "the newest of them: when, and why"),
    Column("driver_host", _STRING, "host on which the last driver runs, or ran"),
    Column("driver_process", _LONG, "process id of that driver"),
    Column("driver_started_at", _TIME, "when that driver started to run it"),
)

DEFAULT_VIEW = "checkpoints"


def _view_of(value: str) -> View:
    name = value.strip().lower()
    if name not in VIEWS:
        near = difflib.get_close_matches(name, VIEWS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError("one of " + ", ".join(VIEWS) + " is expected" + hint)
    return VIEWS[name]


PATH: Option[str | None] = Option(
    name="path",
    doc="A state location, a lineage in it, a savepoint or the checkpoint location of a query; set by "
    "load(path).",
)
VIEW: Option[View] = Option(
    name="view",
    parse=_view_of,
    default=VIEWS[DEFAULT_VIEW],
    default_text=f"`{DEFAULT_VIEW}`",
    doc="Which table: " + ", ".join(f"`{name}`" for name in VIEWS) + ".",
)
LINEAGE: Option[str | None] = Option(
    name="lineage",
    default_text="all lineages, or those that the query's checkpoint names",
    doc="Name of the lineage to read, if there are several.",
)
STATE_LOCATION: Option[str | None] = Option(
    name="stateLocation",
    default_text="searched for in the query's checkpoint",
    doc="Where the state is, if load(path) names a query's checkpoint that does not contain it.",
)

STATE_OPTIONS: tuple[Option[Any], ...] = (PATH, VIEW, LINEAGE, STATE_LOCATION)
