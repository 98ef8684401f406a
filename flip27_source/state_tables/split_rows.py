"""Rows of the views ``splits``, ``files`` and ``quarantine``: the status of splits.

The status of a split is what the newest state says: the reports on the newest checkpoint, or else its ledger.
Only if both no longer have the split, the status comes from the last batch that had it and that no rewind has
undone. Older batches otherwise say when and where the split was read. Read-only, through a History.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from ..coordination.subtask_reports import ReportDemand, SplitStatus
from ..snapshots.documents import CheckpointDocument, StoredQuarantined, timestamp
from ..snapshots.file_names import CheckpointName
from ..snapshots.report_contents import StoredReport, StoredResult
from ..values.stored_json import decode_json
from ..values.times import datetime_or_none
from .history import COMPLETE, Ancestry, History, StoredSplit, canonical_text
from .predicates import Predicate
from .unassigned_splits import known_splits, unassigned_by_class, unassigned_splits


class ShownStatus(StrEnum):
    """The statuses of a split, as the views explain them."""

    WAITING = "waiting"
    PLANNED = "planned"
    FINISHED = "finished"
    LIVE = "live"
    RETURNED = "returned"
    QUARANTINED = "quarantined"
    IGNORED = "ignored"
    DROPPED = "dropped"
    UNDONE = "undone"


WAITING, PLANNED, FINISHED, LIVE, RETURNED, QUARANTINED, IGNORED, DROPPED, UNDONE = ShownStatus


Row = dict[str, Any]

_Unread = tuple[StoredSplit, int, int, str]  # with the checkpoint, the attempts and the error

_OUTCOMES = {
    SplitStatus.LIVE: LIVE,
    SplitStatus.RETURNED: RETURNED,
    SplitStatus.FAILED: QUARANTINED,
    SplitStatus.IGNORED: IGNORED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The splits of one subtask in one batch.

    Attributes:
        splits: the wanted ones.
        alone: whether the subtask had one split, to which the report's numbers belong.
        line: the line that its batch is on. is_undone: whether a rewind has undone the batch.
        aside: the ids of the splits that are quarantined in the newest ledger.
    """

    name: CheckpointName
    document: CheckpointDocument
    subtask: int
    splits: list[StoredSplit]
    alone: bool
    report: StoredReport | None
    line: Ancestry
    is_undone: bool
    aside: Collection[str]

    @property
    def is_newest(self) -> bool:
        return self.name == self.line.names[-1]

    def result(self, split_id: str) -> StoredResult | None:
        """The reported result of a split; None if the split simply finished."""
        results = () if self.report is None else self.report.results
        return next((item for item in results if item.split == split_id), None)

    def quarantined(self) -> Iterator[tuple[StoredSplit, StoredResult]]:
        by_ids = {split.split_id: split for split in self.splits}
        for result in () if self.report is None else self.report.results:
            if result.status != SplitStatus.FAILED:
                continue
            split = StoredSplit.of(result.position) if bytes(result.position) else by_ids.get(result.split)
            if split is not None:
                yield split, result

    def status(self, split_id: str) -> str:
        """The status of a split of this share, if neither a later batch nor the ledger has the split.

        A report is final even while the batch is running: each later attempt repeats its result.
        """
        if self.is_undone:
            return UNDONE
        result = self.result(split_id)
        if result is not None and result.status in _OUTCOMES:
            status = _OUTCOMES[result.status]
            is_gone = status == QUARANTINED and not self.is_newest and split_id not in self.aside
            return DROPPED if is_gone else status
        unknown = self.report is None and self.document.raw.reports is ReportDemand.REQUIRED
        if self.is_newest and (unknown or self.line.status[self.name] != COMPLETE):
            return PLANNED
        # The query has continued without a required report (onMissingReport=repeat).
        return RETURNED if unknown else FINISHED


@dataclass(slots=True)
class _Known:
    """The state of one split while the documents are read, oldest first.

    Attributes:
        decided: the checkpoint that the status comes from, if no rewind has undone its batch.
        is_wanted: whether one of its checkpoints is.
    """

    split: StoredSplit
    status: str
    first: int | None = None
    last: int | None = None
    subtask: int | None = None
    position: str | None = None
    attempts: int = 0
    error: str | None = None
    rows: int | None = 0
    bytes: int | None = 0
    decided: int | None = None
    is_wanted: bool = True

    def read_in(self, share: Share, split: StoredSplit) -> None:
        """Add a further batch that had the split."""
        result = share.result(split.split_id)
        self.split = split
        if not share.is_undone:
            self.decided = share.name.checkpoint_id
            self.status = share.status(split.split_id)
        self.first = share.name.checkpoint_id if self.first is None else self.first
        self.last, self.subtask = share.name.checkpoint_id, share.subtask
        metrics = share.report.metrics if share.report is not None and share.alone else None
        self.rows = None if metrics is None or self.rows is None else self.rows + metrics.rows
        self.bytes = None if metrics is None or self.bytes is None else self.bytes + metrics.bytes
        self.position = None
        if result is not None and bytes(result.position):
            self.position = canonical_text(result.position)
        if result is not None and result.error is not None:
            self.attempts, self.error = result.attempts, result.error


def split_rows(history: History, asked: Predicate) -> Iterator[Row]:
    line = history.line()
    head = history.head(line)
    if head is None:
        return
    known: dict[str, _Known] = {}
    last: list[tuple[StoredSplit, StoredResult]] = []
    # Batches that are not wanted have a say in the status, too.
    for share in shares(history, line, Predicate(split_ids=asked.split_ids, text=asked.text)):
        if share.is_newest:
            last += share.quarantined()
        for split in share.splits:
            entry = known.setdefault(split.split_id, _Known(split, UNDONE, is_wanted=False))
            entry.read_in(share, split)
            entry.is_wanted |= asked.checkpoint(share.name.checkpoint_id)
    _apply_head(history, line.names[-1], head, asked, known)
    for split in unassigned_by_class(history, head):
        if asked.split(split.split_id):
            known.setdefault(split.split_id, _Known(split, WAITING))
    ignored = [item for item in map(_of, head.raw.ledger.ignored) if asked.split(item[0].split_id)]
    ranges = [
        *_add_unread(_not_superseded(history, line, known, ignored), IGNORED, known),
        *_add_unread(_quarantined(history, line, head, asked, known, last), QUARANTINED, known),
    ]
    _apply_enumerator(history, head, known)
    for entry in (*known.values(), *ranges):
        if not entry.is_wanted:
            continue
        if entry.error is None and entry.last is not None:
            entry.attempts, entry.error = history.failure(entry.split.split_id)
        yield {
            "split_id": entry.split.split_id,
            "status": entry.status,
            "split": entry.split.text,
            "position": entry.position if entry.status == LIVE else None,
            "first_checkpoint": entry.first,
            "last_checkpoint": entry.last,
            "subtask": entry.subtask,
            "attempts": entry.attempts,
            "error": entry.error,
            "rows": None if entry.last is None else entry.rows,
            "bytes": None if entry.last is None else entry.bytes,
        }


def file_rows(history: History, asked: Predicate) -> Iterator[Row]:
    line = history.line()
    for share in shares(history, line, asked):
        for split in share.splits:
            if isinstance(split.fields.get("path"), str):
                yield _file_row(split, share.status(split.split_id)) | {
                    "checkpoint_id": share.name.checkpoint_id,
                    "batch_id": history.batch_id(share.name),
                    "planned_at": timestamp(share.document.timestamp_ms),
                    "subtask": share.subtask,
                }
    head = history.head(line)
    if head is None or asked.bounds_checkpoints:
        return
    for split, _ in _waiting(history, line.names[-1], head, asked):
        if isinstance(split.fields.get("path"), str):
            yield _file_row(split, WAITING)


def quarantine_rows(history: History, asked: Predicate) -> Iterator[Row]:
    line = history.line()
    head = history.head(line)
    if head is None:
        return
    names = {name.checkpoint_id: name for name in line.names}
    for split, checkpoint_id, attempts, error in _quarantined(history, line, head, asked):
        if asked.checkpoint(checkpoint_id):
            name = names.get(checkpoint_id)
            path = split.fields.get("path")
            yield {
                "split_id": split.split_id,
                "path": path if isinstance(path, str) else None,
                "split": split.text,
                "checkpoint_id": checkpoint_id,
                "batch_id": None if name is None else history.batch_id(name),
                "attempts": attempts,
                "error": error,
                **_record_columns(split),
            }


def shares(history: History, line: Ancestry, asked: Predicate) -> Iterator[Share]:
    """The wanted shares of the batches on the line, oldest first."""
    head = history.head(line)
    names = [name for name in line.names if asked.checkpoint(name.checkpoint_id)]
    if head is None or not names:
        return
    quarantined = history.quarantined(line.names[-1], head)
    aside = frozenset(StoredSplit.of(item.split).split_id for item in quarantined)
    undone = history.undone(line, names[0])
    for name in names:
        document = history.document(name)
        found = {} if document is None else {
            item.subtask: (item.splits, history.splits(name, document, item.splits, asked.text))
            for item in document.raw.plan
        }  # fmt: skip
        if document is None or None in (splits for _, splits in found.values()):
            continue  # clean-up has removed it, or its splits
        for subtask, (segment, splits) in found.items():
            chosen = [split for split in splits or () if asked.split(split.split_id)]
            if chosen:
                yield Share(
                    name=name,
                    document=document,
                    subtask=subtask,
                    splits=chosen,
                    alone=history.counted(name, document, segment) in ((1, 0), (1, 1)),
                    report=history.report_with_late(name, subtask),
                    line=line,
                    is_undone=name in undone,
                    aside=aside,
                )


def _apply_head(
    history: History,
    name: CheckpointName,
    head: CheckpointDocument,
    asked: Predicate,
    known: dict[str, _Known],
) -> None:
    """The newest ledger overrides older batches, and the reports on the newest checkpoint override both."""
    ledger = head.raw.ledger
    live = {split.split_id: split for split in map(StoredSplit.of, ledger.live)}
    for split_id, entry in known.items():
        if entry.status == LIVE and entry.last != name.checkpoint_id and split_id not in live:
            entry.status = FINISHED
    for split, subtask in _waiting(history, name, head, asked):
        entry = known.setdefault(split.split_id, _Known(split, WAITING))
        entry.status, entry.split, entry.subtask = WAITING, split, subtask
    for split_id, split in live.items():
        if asked.split(split_id):
            entry = known.setdefault(split_id, _Known(split, LIVE))
            _set_position(entry, split, ledger.pins.get(split_id), name)
    if any(entry.status == UNDONE for entry in known.values()):
        for split in unassigned_splits(history, name, head):
            held = known.get(split.split_id)
            if held is not None and held.status == UNDONE:
                held.status = WAITING


def _apply_enumerator(history: History, head: CheckpointDocument, known: dict[str, _Known]) -> None:
    """An undone split that the state still knows was also read by a batch that is not undone."""
    undone = [entry.split for entry in known.values() if entry.status == UNDONE]
    for split_id in known_splits(history, head, undone):
        known[split_id].status = FINISHED


def _add_unread(items: Iterable[_Unread], status: str, known: dict[str, _Known]) -> Iterator[_Known]:
    """Add what is quarantined or ignored; yield the ranges of splits of which the row shows another range."""
    shown: set[str] = set()
    for split, checkpoint_id, attempts, error in items:
        own = _Known(split, status, checkpoint_id, checkpoint_id, rows=None, bytes=None)
        entry = known.setdefault(split.split_id, own)
        is_later = entry.status in (LIVE, WAITING) or (entry.decided or 0) > checkpoint_id
        if is_later or split.split_id in shown:
            yield (entry := own)
        shown.add(split.split_id)
        entry.status, entry.attempts, entry.error = status, attempts, error


def _not_superseded(
    history: History, line: Ancestry, known: Mapping[str, _Known], ignored: Iterable[_Unread]
) -> Iterator[_Unread]:
    """What is ignored, without splits that have another status since: the ledger goes on listing them.

    A range keeps its own row, because its split was read on.
    """
    names = {name.checkpoint_id: name for name in line.names}

    @functools.cache
    def live_at(checkpoint_id: int) -> Mapping[str, str]:
        document = history.document(names.get(checkpoint_id, line.names[-1]))
        live = () if document is None else map(StoredSplit.of, document.raw.ledger.live)
        return {split.split_id: split.text for split in live}

    for item in ignored:
        split, checkpoint_id, *_ = item
        entry = known.get(split.split_id)
        is_shown = entry is None or entry.status == UNDONE
        if is_shown or live_at(checkpoint_id).get(split.split_id, split.text) != split.text:
            yield item


def _of(item: StoredQuarantined) -> _Unread:
    return StoredSplit.of(item.split), item.checkpoint_id, item.attempts, item.error


def _quarantined(
    history: History,
    line: Ancestry,
    head: CheckpointDocument,
    asked: Predicate,
    known: Collection[str] = (),
    last: Iterable[tuple[StoredSplit, StoredResult]] | None = None,
) -> Iterator[_Unread]:
    """The wanted splits and parts of splits that are quarantined, oldest first.

    Args:
        last: those of the newest checkpoint's reports on ``known`` splits, if they have been read.
    """
    by_text = {item[0].text: item for item in map(_of, history.quarantined(line.names[-1], head))}
    newest = line.names[-1].checkpoint_id
    there = {*known, *(split.split_id for split, *_ in by_text.values())}
    if last is None or not (asked.split_ids or there) <= there:
        last = _quarantined_last(history, line, asked, there)
    for split, result in last:
        # A part that is quarantined again, after its split was moved back, is listed once.
        by_text[split.text] = split, newest, result.attempts, result.error or ""
    return (item for item in by_text.values() if asked.split(item[0].split_id))


def _quarantined_last(
    history: History, line: Ancestry, asked: Predicate, known: Collection[str]
) -> Iterator[tuple[StoredSplit, StoredResult]]:
    """The wanted splits and parts that the reports on the newest checkpoint quarantine.

    The reports of other splits are opened only to find a part whose id is wanted and not ``known``.
    """
    narrowed = asked.narrowed("checkpoint_id", "=", [line.names[-1].checkpoint_id])
    if asked.split_ids is not None and not asked.split_ids.issubset(known):
        narrowed = replace(narrowed, split_ids=None)
    for share in shares(history, line, narrowed):
        yield from ((split, result) for split, result in share.quarantined() if asked.split(split.split_id))


def _set_position(entry: _Known, split: StoredSplit, pin: int | None, head: CheckpointName) -> None:
    """Set the current position of a split that is live in the newest checkpoint."""
    if entry.last == head.checkpoint_id:
        if entry.status == LIVE and entry.position is not None:
            return  # its report has the position that the batch reached
        # If the reader ends the share, the plan holds the split itself, and the report decides. If the
        # enumerator has cut off a range, the live split is the rest after the range.
        if entry.status in (RETURNED, QUARANTINED, IGNORED, FINISHED) and entry.split.text == split.text:
            return
    entry.status, entry.position = LIVE, split.text
    if entry.subtask is None:
        entry.subtask = pin


def _waiting(
    history: History, name: CheckpointName, head: CheckpointDocument, asked: Predicate
) -> Iterator[tuple[StoredSplit, int | None]]:
    for block in head.raw.ledger.waiting:
        for split in history.splits(name, head, block.splits, asked.text) or ():
            if asked.split(split.split_id):
                yield split, block.subtask
    for split in map(StoredSplit.of, head.raw.ledger.ranges):
        if asked.split(split.split_id):
            yield split, None


def _file_row(split: StoredSplit, status: str) -> Row:
    modified = split.fields.get("modified_us")
    return {
        "path": split.fields["path"],
        "split_id": split.split_id,
        "status": status,
        "start": split.fields.get("start"),
        "end": split.fields.get("end"),
        "length": split.fields.get("length"),
        "modified_at": datetime_or_none(0, modified) if isinstance(modified, int) else None,
    }


class _Record(msgspec.Struct):
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None


def _record_columns(split: StoredSplit) -> dict[str, Any]:
    """The columns of the record of Kafka that a split keeps; none of them if the split keeps none.

    ``timestamp`` is also None if its year is not in 1 to 9999.
    """
    text = split.fields.get("record")
    topic, _, place = split.split_id.rpartition("/")
    partition, _, offset = place.partition("@")
    if not (isinstance(text, str) and topic and partition.isdigit() and offset.isdigit()):
        return {}
    try:
        record = decode_json(text.encode(), _Record)
    except msgspec.MsgspecError:
        return {}
    return {
        "topic": topic,
        "partition": int(partition),
        "offset": int(offset),
        "timestamp": datetime_or_none(record.timestamp_ms),
        "key": record.key,
        "value": record.value,
    }
