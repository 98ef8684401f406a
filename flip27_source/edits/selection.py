"""Selection: selects the splits of an edit from the candidates for its operation.

Like the views, it reads stored state without the classes of the source, and writes nothing.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from ..errors import EditError
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from ..state_tables.held_splits import held_splits
from ..state_tables.history import COMPLETE, Ancestry, History, StoredSplit
from ..state_tables.predicates import EVERYTHING, Predicate
from ..state_tables.split_rows import LIVE, QUARANTINED, RETURNED, WAITING, quarantine_rows, shares

_SHOWN = 10


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A split that can be selected.

    Attributes:
        now: its current status.
        name, made_ms: name and time of the checkpoint whose batch contained it; None if no batch did.
    """

    split: StoredSplit
    now: str
    name: CheckpointName | None = None
    made_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects splits by id, by a glob on the id, and by the time of the checkpoint that read them.

    A split must meet all given conditions.
    """

    split_ids: tuple[str, ...] = ()
    glob: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no condition is given."""
        return not self.split_ids and self.glob is None and not self.has_time

    @property
    def has_time(self) -> bool:
        """Whether the selection has a time condition."""
        return self.since is not None or self.until is not None

    @property
    def asked(self) -> Predicate:
        """The predicate that limits what is read."""
        return Predicate(split_ids=frozenset(self.split_ids)) if self.split_ids else EVERYTHING

    def __str__(self) -> str:
        ids, more = self.split_ids[:_SHOWN], len(self.split_ids) - _SHOWN
        parts = [", ".join(ids) + (f" and {more} more" if more > 0 else "")] if ids else []
        parts += [] if self.glob is None else [f"glob {self.glob}"]
        parts += [] if self.since is None else [f"since {self.since.isoformat()}"]
        parts += [] if self.until is None else [f"until {self.until.isoformat()}"]
        return "; ".join(parts)

    def has(self, candidate: Candidate) -> bool:
        """Whether a split is selected."""
        split_id = candidate.split.split_id
        return (
            (not self.split_ids or split_id in self.split_ids)
            and (self.glob is None or fnmatch.fnmatchcase(split_id, self.glob))
            and (not self.has_time or self._is_in_time(candidate.made_ms))
        )

    def chosen(self, candidates: Iterable[Candidate], what: str) -> list[Candidate]:
        """The selected candidates.

        Raises:
            EditError: no split matches, a split given by id is missing, or a split has no stored id.
        """
        found = [candidate for candidate in candidates if self.has(candidate)]
        there = {candidate.split.split_id for candidate in found}
        missing = [split_id for split_id in self.split_ids if split_id not in there]
        if missing or not found:
            named = f": {', '.join(missing[:_SHOWN])}" if missing else f" and matches {self}"
            raise EditError(
                f"there is no split {what}{named}",
                remedy="list the splits: flip27 state splits, or the view splits of flip27_state",
            )
        for candidate in found:
            if candidate.split.split_id == candidate.split.text:
                raise EditError(
                    f"the id of split {candidate.split.text:.200} is computed by its class and not stored",
                    remedy="splits of such a source cannot be edited one by one: rewind the source",
                )
        return found

    def _is_in_time(self, made_ms: int | None) -> bool:
        if made_ms is None:
            return False
        made = dt.datetime.fromtimestamp(made_ms / 1000, dt.UTC)
        return (self.since is None or made >= self.since) and (self.until is None or made <= self.until)


def to_be_read(history: History, name: CheckpointName, head: CheckpointDocument) -> Iterator[Candidate]:
    """Waiting splits, splits that the enumerator holds, and live splits; ``head`` is the newest document."""
    assigned = [*live(head)]
    for block in head.raw.ledger.waiting:
        waiting = history.splits(name, head, block.splits) or ()
        assigned += [Candidate(split=split, now=WAITING) for split in waiting]
    known = {candidate.split.split_id for candidate in assigned}
    for split in held_splits(history, name, head):
        if split.split_id not in known:
            yield Candidate(split=split, now=f"{WAITING}: held by the enumerator")
    yield from assigned


def live(head: CheckpointDocument) -> Iterator[Candidate]:
    """Live splits, which continue in each batch."""
    for raw in head.raw.ledger.live:
        split = StoredSplit.of(raw)
        yield Candidate(split=split, now=f"{LIVE} at {split.text}")


def planned(history: History, line: Ancestry, asked: Predicate) -> Iterator[Candidate]:
    """Splits that retained batches have read, in the order of the batches."""
    for share in shares(history, line, asked):
        for split in share.splits:
            is_complete = line.status[share.name] == COMPLETE
            status = share.outcome(share.result(split.split_id), is_complete=is_complete)
            if status not in (RETURNED, QUARANTINED):
                yield Candidate(split=split, now=status, name=share.name, made_ms=share.document.timestamp_ms)


def quarantined(history: History, line: Ancestry) -> Iterator[Candidate]:
    """Quarantined splits."""
    names = {name.checkpoint_id: name for name in line.names}
    for row in quarantine_rows(history, EVERYTHING):
        name = names.get(row["checkpoint_id"])
        document = None if name is None else history.document(name)
        yield Candidate(
            split=StoredSplit.of(msgspec.Raw(row["split"].encode())),
            now=f"{QUARANTINED}: {row['error']}",
            name=name,
            made_ms=None if document is None else document.timestamp_ms,
        )
