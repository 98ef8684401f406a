"""Edits of a source's state: requests and their results (KIP-875). Pure values.

An edit is applied between two batches and leads to a new checkpoint, which records it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import islice
from typing import Any

NAMED = 20
"""Maximum number of splits that an applied edit names; all of them are counted."""


class EditOperation(StrEnum):
    SKIP = "skip"
    """Remove splits that have not been read yet."""
    REPLAY = "replay"
    """Read splits of retained batches again, as they were."""
    REWIND = "rewind"
    """Return to the state after a retained checkpoint."""
    SET_POSITION = "set-position"
    """Move a split that is read in parts to another position."""
    QUARANTINE_RETRY = "quarantine retry"
    """Try quarantined splits again."""
    QUARANTINE_DROP = "quarantine drop"
    """Drop quarantined splits for good."""
    FORGET = "forget"
    """Make the enumerator forget splits, so that discovery finds them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A requested edit, as stored in the history.

    Attributes:
        request_id: a UUID; the edit of one request is applied once.
        who, why: author and reason, for the history.
        requested_us: time of the request, microseconds since the epoch; edits are applied in this order.
        selected: how the splits were selected, for people.
        checkpoint: REWIND only: the name of the checkpoint to go back to.
        position: SET_POSITION only: fields of the split and their new values.
    """

    request_id: str
    operation: EditOperation
    who: str
    why: str
    requested_us: int
    selected: str = ""
    checkpoint: str | None = None
    position: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest(Edit):
    """An edit that waits for the next batch boundary.

    Attributes:
        lineage: the lineage that it applies to.
        split_ids: the selected splits; not for REPLAY and REWIND.
        plans: REPLAY: ids of splits by the name of the checkpoint whose batch contained them. For a
            QUARANTINE_DROP that of the newest batch that had a part of them; later parts are not dropped.
    """

    lineage: str
    split_ids: tuple[str, ...] = ()
    plans: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEdit(Edit):
    """An edit and its result; stored in the checkpoint that it led to.

    Attributes:
        splits: number of changed splits; for a REWIND, the splits of the batches that it undoes. split_ids:
            the first of them.
        left_alone: the first splits that could not be changed, with the reason. left_alone_count: their
            number.
        refused: why the edit was refused as a whole; None if it was not.
        dropped_actions: number of side effects that are not performed, because their data is read again.
    """

    splits: int = 0
    split_ids: tuple[str, ...] = ()
    left_alone: Mapping[str, str] = field(default_factory=dict)
    left_alone_count: int = 0
    refused: str | None = None
    dropped_actions: int = 0

    @classmethod
    def of(
        cls,
        request: Edit,
        *,
        changed: Iterable[str] = (),
        left_alone: Mapping[str, str] | None = None,
        refused: str | None = None,
        dropped_actions: int = 0,
    ) -> AppliedEdit:
        ids, rest = tuple(changed), left_alone or {}
        return cls(
            **{asked.name: getattr(request, asked.name) for asked in fields(Edit)},
            splits=len(ids),
            split_ids=ids[:NAMED],
            left_alone=dict(islice(rest.items(), NAMED)),
            left_alone_count=len(rest),
            refused=refused,
            dropped_actions=dropped_actions,
        )
