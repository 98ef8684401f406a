"""What is known of a source besides numbers: discovery, edits, savepoints, and what its enumerator tells."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flip27_source.coordination.edit_values import AppliedEdit
from flip27_source.errors import StateError, kept_text
from flip27_source.savepoints.claims import owned
from flip27_source.snapshots import file_names
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.documents import CheckpointDocument
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.snapshots.request_mailbox import EDIT, Mailbox
from flip27_source.source_progress import ProgressTable, TellsProgress
from flip27_source.split import size_of
from flip27_source.state_tables.history import History
from flip27_source.state_tables.unassigned_splits import class_of
from flip27_source.values.times import datetime_or_none

from ..rendering import counted

if TYPE_CHECKING:
    from .view import Batch

_BACKLOG = ("backlogRows", "backlogBytes", "backlogOldestEventTime")
"""An offset without these says that they are not known."""
_MOST = 3
"""How many edits, and savepoints, are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """An edit or a savepoint.

    Attributes:
        at: when it was asked for, or has failed, or its checkpoint was made.
        checkpoint_id: the checkpoint with it; None: there is none yet.
        said: what it is, and what came of it.
    """

    at: dt.datetime | None
    checkpoint_id: int | None
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known of a source besides numbers.

    Attributes:
        heard_at: when its driver has last said that it is alive, or has ended.
        discovered_at: when its driver has last found out what is new; up to a minute old.
        edits, savepoints: the newest ones, the newest first; those that wait come first.
        started_from: the savepoint that it has started from; None: it has not, or that is no longer known.
        owns: the savepoint that it has claimed and will delete.
        progress: what its enumerator tells from the newest checkpoint.
    """

    heard_at: dt.datetime | None = None
    discovered_at: dt.datetime | None = None
    edits: Sequence[Deed] = ()
    savepoints: Sequence[Deed] = ()
    started_from: str | None = None
    owns: str | None = None
    progress: Sequence[ProgressTable] = field(default=())


def edit_said(edit: AppliedEdit) -> str:
    """What an edit was, and what came of it."""
    came_of_it = f"refused: {edit.refused}" if edit.refused else counted(edit.splits, "split")
    return f"{edit.operation} by {edit.who}: {edit.why} ({came_of_it})"


def of_driver(history: History) -> Standing:
    """What the record of the driver tells, also before the first checkpoint."""
    driver, record = history.driver, history.record
    return Standing(
        heard_at=datetime_or_none(None if driver is None else driver.said_ms),
        discovered_at=datetime_or_none(None if record is None else record.discovered_ms),
    )


def standing(
    history: History, batches: Sequence[Batch], started_from: str | None, progress: Sequence[ProgressTable]
) -> Standing:
    """The standing of a source.

    Args:
        batches: the newest ones, the newest last.
    """
    done = {edit.request_id for batch in batches for edit in batch.edits}
    edits, savepoints, waiting = _requested(history, done)
    for batch in reversed(batches):
        at, number = batch.row["created_at"], batch.row["checkpoint_id"]
        edits += [Deed(at=at, checkpoint_id=number, said=edit_said(edit)) for edit in batch.edits]
        # The request stays until the savepoint is complete; after a restart another checkpoint becomes it.
        if batch.target is not None and batch.target not in waiting:
            savepoints.append(Deed(at=at, checkpoint_id=number, said=f"taken in {batch.target}"))
    return replace(
        of_driver(history),
        edits=edits[:_MOST],
        savepoints=savepoints[:_MOST],
        started_from=started_from,
        owns=None if started_from is None else _owned(history),
        progress=progress,
    )


def _requested(history: History, done: Collection[str]) -> tuple[list[Deed], list[Deed], set[str]]:
    """The edits and savepoints that wait, and those that have failed, the newest first; the waiting targets.

    Args:
        done: the ids of edits that do not wait.
    """
    lineage = history.lineage
    if lineage.is_savepoint or lineage.parent is None:
        return [], [], set()
    if not history.stored.listed(file_names.REQUESTS):
        return [], [], set()
    mailbox = Mailbox(history.stored.store, history.stored.folder)
    found, failed = mailbox.waiting(), mailbox.failed()[::-1]
    edits = [
        Deed(
            at=datetime_or_none(edit.requested_us // 1000),
            checkpoint_id=None,
            said=f"{edit.operation} by {edit.who}: {edit.why} (waits for the next batch boundary)",
        )
        for edit in reversed(found.edits)
        if edit.request_id not in done
    ]
    savepoints = [
        Deed(
            at=datetime_or_none(asked.requested_ms),
            checkpoint_id=None,
            said=f"to {asked.target} (waits for a batch, and for the trigger after it)",
        )
        for asked in reversed(found.savepoints)
    ]
    for item in failed:
        said = f"failed: {item.reason}" if item.kind == EDIT else f"to {item.asked}, failed: {item.reason}"
        deed = Deed(at=datetime_or_none(item.failed_ms), checkpoint_id=None, said=said)
        (edits if item.kind == EDIT else savepoints).append(deed)
    return edits, savepoints, {asked.target for asked in found.savepoints}


def _owned(history: History) -> str | None:
    with suppress(StateError):
        return owned(history.stored.store, history.stored.folder)
    return None


def numbers_of(history: History, name: CheckpointName) -> Mapping[str, Any]:
    """The numbers at a checkpoint: those that its driver has told last, and those in its offset."""
    told: Mapping[str, Any] = {} if history.record is None else history.record.numbers
    logged, at = history.summary(name), told.get("checkpoint")
    told = {**told, "checkpoint": at if isinstance(at, int) else 0}
    # The record is renewed every ten seconds, so it may tell of an earlier checkpoint.
    if told["checkpoint"] >= name.checkpoint_id:
        return {**logged, **told}
    outdated = _BACKLOG if logged else ()
    return {**{key: value for key, value in told.items() if key not in outdated}, **logged}


def progress_of(
    history: History, document: CheckpointDocument, numbers: Mapping[str, Any]
) -> Sequence[ProgressTable]:
    """What the class of the enumerator tells of a checkpoint; nothing if it cannot be found here."""
    kind = class_of(document)
    if kind is None or not issubclass(kind, TellsProgress):
        return ()
    try:
        codec, version = SnapshotCodec(kind), document.source.split_version
        state = codec.decode_state(document, history.stored.segment_loader(document))
        live = [codec.decode_split(version, raw) for raw in document.raw.ledger.live]
        return tuple(kind.progress(state, live, numbers))
    except Exception as error:  # noqa: BLE001 - classes of authors raise any error, and hide nothing else
        return (ProgressTable(title="progress", said=f"not known: {kept_text(error)}"),)


def rows_planned(history: History, name: CheckpointName, document: CheckpointDocument) -> int | None:
    """The rows of the splits that a batch reads, if all of them tell it; there may be fewer in the end."""
    kind = class_of(document)
    if kind is None or not document.raw.plan:
        return None
    rows = 0
    try:
        codec, version = SnapshotCodec(kind), document.source.split_version
        for item in document.raw.plan:
            for raw in history.raw_splits(name, document, item.splits) or ():
                known = size_of(codec.decode_split(version, raw)).rows
                if known is None:
                    return None
                rows += known
    except Exception:  # noqa: BLE001 - classes of authors raise any error, and then it is not known
        return None
    return rows
