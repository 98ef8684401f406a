"""Edits of a source's state: what somebody asks for, and what came of it (KIP-875). Pure values.

An edit goes forward: it is applied between two batches and makes a new checkpoint, which names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import islice
from typing import Any

NAMED = 20
"""How many splits an applied edit names; all of them are counted."""


class EditOperation(StrEnum):
    """What is done to the state."""

    SKIP = "skip"
    """Splits that are still to be read are taken out."""
    REPLAY = "replay"
    """Splits of retained batches are read once more, as they were."""
    REWIND = "rewind"
    """Everything goes back to where it stood after a retained checkpoint."""
    SET_POSITION = "set-position"
    """A split that is read in parts goes on elsewhere."""
    QUARANTINE_RETRY = "quarantine retry"
    """Splits that were set aside are tried again."""
    QUARANTINE_DROP = "quarantine drop"
    """Splits that were set aside are given up."""
    FORGET = "forget"
    """The enumerator knows splits no longer, so discovery finds them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is asked for, as its history keeps it.

    Attributes:
        request_id: a UUID; the edit of one request is applied once.
        who, why: for the history.
        requested_us: when, microseconds since the epoch; edits of one boundary go in this order.
        selected: how the splits were chosen, for people.
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
        lineage: the one that it is meant for.
        split_ids: the splits that were chosen; not for REPLAY and REWIND.
        plans: REPLAY only: ids of splits by the name of the checkpoint whose batch had them.
    """

    lineage: str
    split_ids: tuple[str, ...] = ()
    plans: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEdit(Edit):
    """An edit and what came of it; stored in the checkpoint that it has made.

    Attributes:
        splits: how many splits it has changed; those of the batches that a REWIND takes back. split_ids: the
            first of them.
        left_alone: the first of those that it could not change, and why. left_alone_count: how many.
        refused: why nothing at all was done; None otherwise.
        dropped_actions: side effects that will not be performed, as their data is read again.
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
        """What came of ``request``."""
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
