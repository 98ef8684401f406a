"""Diff: the differences between two checkpoints, of one query or of two. Needs no authors' code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from flip27_source.errors import MissingStateError
from flip27_source.snapshots.documents import CheckpointDocument, timestamp
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.state_tables.history import History, StoredSplit
from flip27_source.state_tables.split_rows import IGNORED, LIVE, QUARANTINED, WAITING

from .rows import Place, StoredState, named_checkpoint

_AT_CHECKPOINT = re.compile(r"(.+)@(\d{1,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference.

    Attributes:
        part: ``source``, ``state`` (the enumerator's), ``ledger`` (numbers) or ``splits``.
        what: a dotted path, the name of a number, or a split id.
        before, after: the values; None if the value does not exist.
    """

    part: str
    what: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    history: History
    name: CheckpointName
    document: CheckpointDocument

    def described(self) -> dict[str, Any]:
        return {
            "lineage": self.history.lineage.name,
            "checkpoint_id": self.name.checkpoint_id,
            "digest": self.name.digest,
            "created_at": timestamp(self.document.timestamp_ms),
        }


def point_at(text: str, stored: StoredState) -> Point:
    """The checkpoint at ``LOCATION`` or ``LOCATION@CHECKPOINT``.

    Raises:
        StateError, OptionError: the checkpoint does not exist.
    """
    match = _AT_CHECKPOINT.fullmatch(text)
    location, checkpoint_id = (match[1], int(match[2])) if match else (text, None)
    history = Place(location=location, stored=stored).history()
    name = named_checkpoint(history, checkpoint_id)
    document = history.document(name)
    if document is None:
        raise _cleaned_up(name)
    return Point(history=history, name=name, document=document)


def changes(before: Point, after: Point) -> list[Change]:
    """The differences, part by part.

    Raises:
        MissingStateError: clean-up has meanwhile removed one of the checkpoints.
    """
    waiting = [{block.splits for block in point.document.raw.ledger.waiting} for point in (before, after)]
    in_both = set.intersection(*waiting)  # splits that wait at both: they may be very many

    def splits(point: Point) -> dict[str, Any]:
        return _splits(point, in_both)

    parts = {"source": _source, "ledger": _numbers, "state": _state, "splits": splits}
    return [change for part, of in parts.items() for change in _compared(part, of(before), of(after))]


def _compared(part: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for what in dict.fromkeys([*before, *after]):
        if before.get(what) != after.get(what):
            yield Change(part=part, what=what, before=before.get(what), after=after.get(what))


def _source(point: Point) -> dict[str, Any]:
    return _leaves(msgspec.to_builtins(point.document.source))


def _state(point: Point) -> dict[str, Any]:
    stored = point.document.raw.enumerator
    return _leaves(msgspec.json.decode(stored.state)) | {"version": stored.version}


def _numbers(point: Point) -> dict[str, Any]:
    ledger = point.document.raw.ledger
    return {
        "finished": ledger.finished,
        LIVE: len(ledger.live),
        QUARANTINED: ledger.quarantined_count,
        IGNORED: ledger.ignored_count,
        "segments": len(point.document.raw.segments),
    }


def _splits(point: Point, left_out: Collection[str]) -> dict[str, Any]:
    """The status of each split in the ledger that is in no segment left out, with its position or error."""
    ledger = point.document.raw.ledger
    statuses: dict[str, Any] = {}
    for block in ledger.waiting:
        if block.splits in left_out:
            continue
        splits = point.history.splits(point.name, point.document, block.splits)
        if splits is None:
            raise _cleaned_up(point.name)
        statuses |= {split.split_id: {"status": WAITING} for split in splits}
    for item in point.history.quarantined(point.name, point.document):
        statuses[StoredSplit.of(item.split).split_id] = {"status": QUARANTINED, "error": item.error}
    for item in ledger.ignored:
        statuses[StoredSplit.of(item.split).split_id] = {"status": IGNORED, "error": item.error}
    for split in map(StoredSplit.of, ledger.live):
        statuses[split.split_id] = {"status": LIVE, "position": msgspec.json.decode(split.text)}
    return statuses


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The values inside a JSON value that are not objects, by their dotted paths."""
    if not isinstance(value, Mapping):
        return {path or "value": value}
    leaves: dict[str, Any] = {}
    for name, item in value.items():
        leaves |= _leaves(item, f"{path}.{name}" if path else str(name))
    return leaves


def _cleaned_up(name: CheckpointName) -> MissingStateError:
    return MissingStateError(
        f"checkpoint {name.checkpoint_id} was cleaned up meanwhile",
        remedy="compare newer checkpoints, or retain more of them (option retainedCheckpoints)",
    )
