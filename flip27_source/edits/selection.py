"""Selection: selects the splits of an edit from the candidates for its operation. Writes nothing."""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import EditError
from ..snapshots.file_names import CheckpointName
from ..state_tables.predicates import EVERYTHING, Predicate
from ..state_tables.split_rows import DROPPED, LIVE, QUARANTINED, RETURNED, WAITING, shares
from .state_copy import StateCopy

_SHOWN = 10
LEFT_ALONE = "is left alone"
"""So begins what becomes of a split that an edit does not change; the reason follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an edit would do to one split.

    Attributes:
        now: the split's current status.
        then: its status after the edit.
        checkpoint_id: the checkpoint whose batch contained it; None if no batch did.
    """

    split_id: str
    now: str
    then: str
    checkpoint_id: int | None = None

    @property
    def is_left_alone(self) -> bool:
        """Whether the edit does not change the split."""
        return self.then.startswith(LEFT_ALONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A split that can be selected.

    Attributes:
        split: the split; opaque if its class is not known.
        text: its JSON.
        now: its current status.
        name, made_ms: name and time of the checkpoint whose batch contained it; None if no batch did.
        split_id: its id; its JSON if only its class, which is not known, could compute the id.
    """

    split: Any
    text: str
    now: str
    name: CheckpointName | None = None
    made_ms: int | None = None
    split_id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "split_id", self.split.split_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects splits by id, by a glob on the id, and by the time of the checkpoint that read them.

    A split must meet all given conditions.
    """

    split_ids: tuple[str, ...] = ()
    glob: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    _ids: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", frozenset(self.split_ids))

    @property
    def is_empty(self) -> bool:
        return not self.split_ids and self.glob is None and not self.has_time

    @property
    def has_time(self) -> bool:
        return self.since is not None or self.until is not None

    @property
    def asked(self) -> Predicate:
        """The predicate that limits what is read."""
        return Predicate(split_ids=self._ids) if self.split_ids else EVERYTHING

    def __str__(self) -> str:
        ids, more = self.split_ids[:_SHOWN], len(self.split_ids) - _SHOWN
        parts = [", ".join(ids) + (f" and {more} more" if more > 0 else "")] if ids else []
        parts += [] if self.glob is None else [f"glob {self.glob}"]
        parts += [] if self.since is None else [f"since {self.since.isoformat()}"]
        parts += [] if self.until is None else [f"until {self.until.isoformat()}"]
        return "; ".join(parts)

    def has(self, candidate: Candidate) -> bool:
        split_id = candidate.split_id
        return (
            (not self.split_ids or split_id in self._ids)
            and (self.glob is None or fnmatch.fnmatchcase(split_id, self.glob))
            and (not self.has_time or self._is_in_time(candidate.made_ms))
        )

    def chosen(self, candidates: Iterable[Candidate], what: str) -> list[Candidate]:
        """The selected candidates.

        Raises:
            EditError: no split matches, a split given by id is missing, or a split has no stored id.
        """
        matching = [candidate for candidate in candidates if self.has(candidate)]
        there = {candidate.split_id for candidate in matching}
        missing = [split_id for split_id in self.split_ids if split_id not in there]
        if missing or not matching:
            named = f": {', '.join(missing[:_SHOWN])}" if missing else f" and matches {self}"
            raise EditError(
                f"there is no split {what}{named}",
                remedy="list the splits: flip27 state splits, or the view splits of flip27_state",
            )
        for candidate in matching:
            if candidate.split_id == candidate.text:
                raise EditError(
                    f"the id of split {candidate.text:.200} is computed by its class, which cannot be "
                    "imported here",
                    remedy="install the source here, or rewind it as a whole",
                )
        return matching

    def _is_in_time(self, made_ms: int | None) -> bool:
        if made_ms is None:
            return False
        made = dt.datetime.fromtimestamp(made_ms / 1000, dt.UTC)
        return (self.since is None or made >= self.since) and (self.until is None or made <= self.until)


def to_be_read(copy: StateCopy) -> Iterator[Candidate]:
    """Splits that the enumerator holds, waiting splits, and live splits."""
    ledger = copy.standing.ledger
    assigned = {split.split_id for split in (*ledger.live, *ledger.ranges)}
    assigned |= {item.split.split_id for item in ledger.waiting}
    for split in copy.unassigned():
        if split.split_id not in assigned:
            yield _candidate(copy, split, f"{WAITING}: held by the enumerator")
    for split in (*ledger.ranges, *(item.split for item in ledger.waiting)):
        if split.split_id not in copy.unreported:
            yield _candidate(copy, split, WAITING)
    yield from live(copy)


def live(copy: StateCopy, only: Collection[str] | None = None) -> Iterator[Candidate]:
    """Live splits; ``only`` those with these ids."""
    for split in copy.standing.ledger.live:
        if only is None or split.split_id in only:
            yield _candidate(copy, split, f"{LIVE} at {copy.position_of(split)}")


def quarantined(copy: StateCopy) -> Iterator[Candidate]:
    names = {name.checkpoint_id: name for name in copy.line.names}
    for item in copy.standing.ledger.quarantined:
        name = names.get(item.checkpoint_id)
        document = None if name is None else copy.history.document(name)
        made_ms = None if document is None else document.timestamp_ms
        yield _candidate(copy, item.split, f"{QUARANTINED}: {item.error}", name, made_ms)


UNREAD = frozenset({RETURNED, QUARANTINED, DROPPED})


def planned(copy: StateCopy, asked: Predicate, *, without: frozenset[str] = UNREAD) -> Iterator[Candidate]:
    """Splits that retained batches have read, in the order of the batches; ``without`` those of a status."""
    # The ids of stored splits are only certain once they are decoded.
    narrowed = asked if copy.kind is None else replace(asked, split_ids=None)
    for share in shares(copy.history, copy.line, narrowed):
        for stored in share.splits:
            split = copy.split_of(stored)
            status = share.status(split.split_id)
            if status not in without:
                made_ms = share.document.timestamp_ms
                yield Candidate(split=split, text=stored.text, now=status, name=share.name, made_ms=made_ms)


def _candidate(
    copy: StateCopy, split: Any, now: str, name: CheckpointName | None = None, made_ms: int | None = None
) -> Candidate:
    return Candidate(split=split, text=copy.text_of(split), now=now, name=name, made_ms=made_ms)
