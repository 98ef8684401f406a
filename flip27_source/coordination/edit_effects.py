"""Editing: the effect of each edit on a coordinator's state. Pure: it maps a snapshot to another one.

The snapshot belongs to a coordinator between two batches; a new coordinator is created from the edited
snapshot, as at a restart. Callers pass everything that an edit needs (older plans, an older state).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from types import MappingProxyType
from typing import Any, Generic

import msgspec

from ..enumerator import SplitEnumerator
from ..enumerator_mixins import ForgetsSplits, HoldsSplits, LimitsEdits, PerformsActions, SplitRange
from ..errors import EditError
from ..options import Options
from ..split import SplitT
from ..values.stored_values import stored_actions
from .action_pages import ActionPage, actions_of, kept_where
from .actions import PendingAction
from .checkpoints import LedgerState, Snapshot, WaitingSplit
from .split_rules import SplitRules

_AGAIN = "is found and read again"
_NOT_BY_RANGES = (
    "set the position of the split, or rewind the source: ranges from bound_split cannot be read alone"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited(Generic[SplitT]):
    """The result of an edit.

    Attributes:
        changed: ids of the changed splits.
        left_alone: ids of the splits that could not be changed, with the reason.
        dropped_actions: number of side effects that are dropped because their data is read again.
        counted: ids of splits that a rewind counts as read again, after an earlier one had undone them.
        fork: the id of the newest checkpoint that the state is based on before and after a rewind.
        notes: what a rewind does to other edits.
    """

    snapshot: Snapshot[SplitT]
    changed: tuple[str, ...] = ()
    left_alone: Mapping[str, str] = field(default_factory=dict)
    dropped_actions: int = 0
    counted: tuple[str, ...] = ()
    fork: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Editing(Generic[SplitT]):
    """Edits snapshots of one source.

    Attributes:
        rules: the kinds of split of the source.
        options: the source's options, which a ``ForgetsSplits`` may need.
    """

    rules: SplitRules[SplitT]
    options: Options

    @property
    def enumerator_type(self) -> type[SplitEnumerator[SplitT]]:
        """The class whose hooks know the state."""
        return self.rules.enumerator_type

    def skip(self, snapshot: Snapshot[SplitT], split_ids: Collection[str]) -> Edited[SplitT]:
        """Remove splits that wait, are live, or are held by the enumerator."""
        ledger, state = snapshot.ledger, snapshot.enumerator_state
        fixed = self._fixed(ledger, split_ids)
        wanted = frozenset(split_ids) - fixed.keys()
        held = wanted & {split.split_id for split in self._held(snapshot)}
        if held:
            state = self._holder.without_splits(state, held)
        taken = held | (wanted & _under_way(ledger))
        ledger = replace(
            ledger,
            waiting=tuple(item for item in ledger.waiting if item.split.split_id not in wanted),
            live=tuple(split for split in ledger.live if split.split_id not in wanted),
            ranges=tuple(cut for cut in ledger.ranges if cut.split_id not in wanted),
            pins={name: pin for name, pin in ledger.pins.items() if name not in wanted},
        )
        return Edited(
            snapshot=replace(snapshot, enumerator_state=state, ledger=ledger),
            changed=_in_order(split_ids, taken),
            left_alone={
                **dict.fromkeys(_in_order(split_ids, wanted - taken), self._not_to_be_read()),
                **fixed,
            },
        )

    def replay(self, snapshot: Snapshot[SplitT], planned: Sequence[SplitT]) -> Edited[SplitT]:
        """Read splits again as they were in ``planned``, which is in the order of the batches.

        A split that the reader bounds continues where the first of these batches started.
        """
        ranges = tuple(dict.fromkeys(split.split_id for split in planned if self.rules.is_range(split)))
        if ranges and len(ranges) == len({split.split_id for split in planned}):
            raise EditError(
                f"{', '.join(ranges[:3])}{' and others' if len(ranges) > 3 else ''}: read in ranges, which "
                "cannot be replayed",
                remedy=_NOT_BY_RANGES,
            )
        planned = [split for split in planned if split.split_id not in ranges]
        ordered = reversed(planned) if self.rules.reader_bounds_splits else planned
        splits = {split.split_id: split for split in ordered}
        ledger = snapshot.ledger
        live = {split.split_id for split in ledger.live} if self.rules.reader_bounds_splits else set()
        found = self._found_again(snapshot, tuple(splits.values())) or {}
        left_alone = dict.fromkeys(ranges, f"is read in ranges: {_NOT_BY_RANGES}")
        taken = _Taken(self._range_of)
        for split, why in self._busy(snapshot):
            taken.add(split, why)
        others = (split for name, split in splits.items() if name not in live)
        for split in sorted(others, key=taken.smallness):
            why_not = taken.why_not(split)
            if why_not is None and found.get(split.split_id) == "":
                why_not = f"is not known: it {_AGAIN}"
            if why_not is None:
                taken.add(split, "is read again")
            else:
                left_alone[split.split_id] = why_not
        again = {name: split for name, split in splits.items() if name not in left_alone}
        ended = again.keys() - live
        counted = ended - {item.split.split_id for item in ledger.ignored}
        ledger = replace(
            ledger,
            live=tuple(again.get(split.split_id, split) for split in ledger.live),
            waiting=(*_waiting(again[name] for name in splits if name in ended), *ledger.waiting),
            finished=max(0, ledger.finished - len(counted)),
        )
        parts_of = {self._range_of(split)[0] for split in again.values()}
        return self._read_again(snapshot, ledger, tuple(again), left_alone, parts_of)

    def set_position(
        self, snapshot: Snapshot[SplitT], split_ids: Collection[str], moved: Callable[[SplitT], SplitT]
    ) -> Edited[SplitT]:
        """Move live splits to the positions that ``moved`` returns."""
        ledger = snapshot.ledger
        # Whether a range is before or after the position is not known.
        in_ranges = {cut.split_id for cut in ledger.ranges}
        fixed = self._fixed(ledger, split_ids)
        wanted = frozenset(split_ids) - in_ranges - fixed.keys()
        live = tuple(moved(split) if split.split_id in wanted else split for split in ledger.live)
        if [split.split_id for split in live] != [split.split_id for split in ledger.live]:
            raise EditError("the id of a split cannot change", remedy="change only its position")
        there = wanted & {split.split_id for split in live}
        found = {new.split_id for old, new in zip(ledger.live, live, strict=True) if old != new}
        why = "is not read in parts, or is finished: replay it"
        left_alone = dict.fromkeys(_in_order(split_ids, wanted - there), why)
        left_alone |= dict.fromkeys(_in_order(split_ids, there - found), "is at this position")
        waits = "a range of it waits to be read again: set the position after the next batch"
        left_alone |= {**dict.fromkeys(_in_order(split_ids, in_ranges), waits), **fixed}
        return self._read_again(snapshot, replace(ledger, live=live), _in_order(split_ids, found), left_alone)

    def retry(self, snapshot: Snapshot[SplitT], split_ids: Collection[str]) -> Edited[SplitT]:
        """Read quarantined splits again, the first of each id.

        Ranges that have no id of their own are read again as they are, all of them.
        """
        ledger, wanted = snapshot.ledger, frozenset(split_ids)
        waiting: dict[str, SplitT] = {}
        ranges: list[SplitT] = []
        kept = []
        under_way = _under_way(ledger)
        for item in ledger.quarantined:
            name = item.split.split_id
            if name in wanted and self.rules.is_range(item.split) and not self.rules.names_ranges:
                ranges.append(item.split)
            elif name in wanted and name not in under_way and name not in waiting:
                waiting[name] = item.split
            else:
                kept.append(item)
        chosen = waiting.keys() | {cut.split_id for cut in ranges}
        quarantined = {item.split.split_id for item in ledger.quarantined_as(wanted)}
        ledger = replace(
            ledger,
            quarantined=tuple(kept),
            waiting=(*_waiting(waiting.values()), *ledger.waiting),
            ranges=(*ledger.ranges, *ranges),
        )
        left_alone = {
            name: "is not read yet" if name in quarantined else "is not quarantined"
            for name in split_ids
            if name not in chosen
        }
        parts_of = {self._range_of(split)[0] for split in waiting.values()}
        return self._read_again(snapshot, ledger, _in_order(split_ids, chosen), left_alone, parts_of)

    def drop(
        self,
        snapshot: Snapshot[SplitT],
        split_ids: Collection[str],
        newest: Mapping[str, int] = MappingProxyType({}),
    ) -> Edited[SplitT]:
        """Remove splits from the quarantine.

        Args:
            newest: by id, the last checkpoint whose parts of a split are meant; later parts stay.
        """
        ledger, wanted = snapshot.ledger, frozenset(split_ids)
        found: set[str] = set()
        kept = []
        for item in ledger.quarantined:
            name = item.split.split_id
            if name in wanted and item.checkpoint_id <= newest.get(name, item.checkpoint_id):
                found.add(name)
            else:
                kept.append(item)
        return Edited(
            snapshot=replace(snapshot, ledger=replace(ledger, quarantined=tuple(kept))),
            changed=_in_order(split_ids, found),
            left_alone=dict.fromkeys(_in_order(split_ids, wanted - found), "is not quarantined"),
        )

    def forget(self, snapshot: Snapshot[SplitT], split_ids: Collection[str]) -> Edited[SplitT]:
        if not issubclass(self.enumerator_type, ForgetsSplits):
            raise EditError(
                f"{self.enumerator_type.__qualname__} cannot forget splits: it is not a ForgetsSplits",
                remedy="replay the splits, or rewind the source",
            )
        busy = [split for split, _ in self._busy(snapshot)]
        state, left_alone = self.enumerator_type.forget_splits(
            snapshot.enumerator_state, split_ids, busy=busy, options=self.options
        )
        forgotten = tuple(name for name in dict.fromkeys(split_ids) if name not in left_alone)
        edited = replace(snapshot, enumerator_state=state)
        return self._read_again(edited, snapshot.ledger, forgotten, left_alone, parts_of=None)

    def rewind(
        self, present: Snapshot[SplitT], older: Snapshot[SplitT], undone: Sequence[SplitT], fork: int
    ) -> Edited[SplitT]:
        """The state of ``older``, a complete checkpoint, with the present checkpoint's id.

        Side effects that were pending then are pending again, so they may happen twice; later ones are
        dropped, because their data is read again.

        Args:
            undone: the splits in the batches that ``present`` is based on, and ``older`` is not.
            fork: the id of the newest checkpoint that both are based on.

        Raises:
            EditError: it is not older, or the enumerator cannot go back to it.
        """
        last, at = older.metadata.checkpoint_id, present.metadata.checkpoint_id
        if last >= at:
            raise EditError(
                f"the source is at checkpoint {at} and cannot be rewound to checkpoint {last}",
                remedy="choose an earlier checkpoint",
            )
        if issubclass(self.enumerator_type, LimitsEdits):
            self.enumerator_type.check_rewind(present.enumerator_state, older.enumerator_state, tuple(undone))
        pending = {msgspec.json.encode(item.action) for item in older.actions}
        pending |= {bytes(raw) for page in older.delayed for group in page.groups() for raw in group.actions}

        def stays(due: int, action: bytes) -> bool:
            # ``older`` lacks those that became due with its own batch, and those that an edit has dropped.
            return due <= fork and (due == last or action in pending)

        kept = [
            item
            for item in present.actions
            if stays(item.due_checkpoint_id, msgspec.json.encode(item.action))
        ]
        pages = kept_where(
            present.delayed,
            lambda group: [stays(group.due_checkpoint_id, bytes(raw)) for raw in group.actions],
        )
        known = {msgspec.json.encode(item.action) for item in kept}
        known |= {bytes(raw) for page in pages for group in page.groups() for raw in group.actions}
        again = [item for item in older.actions if msgspec.json.encode(item.action) not in known]
        pages_again = kept_where(
            older.delayed, lambda group: [bytes(raw) not in known for raw in group.actions]
        )
        changed, left_alone = self.read_after(older, undone)
        return Edited(
            snapshot=replace(
                older,
                metadata=present.metadata,
                actions=(*kept, *again),
                delayed=tuple(sorted((*pages, *pages_again), key=lambda page: page.since_ms)),
                action_delay_ms=present.action_delay_ms,
                event_time=present.event_time,
            ),
            changed=changed,
            left_alone=left_alone,
            dropped_actions=_action_count(present.actions, present.delayed) - _action_count(kept, pages),
            fork=fork,
        )

    def read_after(
        self, older: Snapshot[SplitT], splits: Iterable[SplitT]
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Ids of the splits that a source reads which continues from an older state; why not the others.

        Args:
            splits: in the order of their batches.
        """
        by_ids = {split.split_id: split for split in splits}
        found = self._found_again(older, tuple(by_ids.values()))
        found = dict.fromkeys(by_ids, "") if found is None else found
        busy, quarantined = _Taken(self._range_of), _Taken(self._range_of)
        for split, why in self._busy(older):
            busy.add(split, why)
        for item in older.ledger.quarantined:
            quarantined.add(item.split, "is quarantined")
        read: set[str] = set()
        left_alone: dict[str, str] = {}
        for name, split in by_ids.items():
            if quarantined.why_not(split) is not None:
                left_alone[name] = "is quarantined again"
            elif busy.why_not(split) is not None:
                read.add(name)
            elif name not in found:
                left_alone[name] = "was read before that checkpoint too"
            elif found[name]:
                left_alone[name] = f"{_AGAIN} {found[name]}"
            else:
                read.add(name)
        return _in_order(by_ids, read), left_alone

    @property
    def _holder(self) -> type[HoldsSplits]:
        kind: Any = self.enumerator_type
        return kind  # type: ignore[no-any-return]

    def _held(self, snapshot: Snapshot[SplitT]) -> Sequence[SplitT]:
        if not issubclass(self.enumerator_type, HoldsSplits):
            return ()
        return self._holder.splits_in(snapshot.enumerator_state)

    def _not_to_be_read(self) -> str:
        if issubclass(self.enumerator_type, HoldsSplits):
            return "is neither waiting nor live"
        return (
            "is neither waiting nor live; splits that the enumerator holds cannot be skipped, because "
            f"{self.enumerator_type.__qualname__} is not a HoldsSplits"
        )

    def _fixed(self, ledger: LedgerState[SplitT], split_ids: Collection[str]) -> dict[str, str]:
        """Those of these splits that can neither be skipped nor moved, with the reason."""
        kind = self.enumerator_type
        if not issubclass(kind, LimitsEdits):
            return {}
        splits = (*(item.split for item in ledger.waiting), *ledger.live, *ledger.ranges)
        reasons = {split.split_id: kind.left_alone(split) for split in splits if split.split_id in split_ids}
        return {name: why for name, why in reasons.items() if why is not None}

    def _busy(self, snapshot: Snapshot[SplitT]) -> Iterator[tuple[SplitT, str]]:
        """Splits whose data must not be assigned now, with the reason."""
        ledger = snapshot.ledger
        waiting = (item.split for item in ledger.waiting)
        for split in (*waiting, *ledger.live, *ledger.ranges, *self._held(snapshot)):
            yield split, "is not read yet"
        for item in ledger.quarantined:
            yield item.split, "is quarantined: use quarantine retry"

    def _range_of(self, split: SplitT) -> SplitRange:
        is_holder = issubclass(self.enumerator_type, HoldsSplits)
        return self._holder.range_of(split) if is_holder else (split.split_id, 0, 1)

    def _found_again(self, snapshot: Snapshot[SplitT], splits: Sequence[SplitT]) -> Mapping[str, str] | None:
        """As ``ForgetsSplits.found_again``; None if the enumerator cannot tell."""
        if not issubclass(self.enumerator_type, ForgetsSplits):
            return None
        return self.enumerator_type.found_again(snapshot.enumerator_state, splits, options=self.options)

    def _read_again(
        self,
        snapshot: Snapshot[SplitT],
        ledger: LedgerState[SplitT],
        split_ids: tuple[str, ...],
        left_alone: Mapping[str, str],
        parts_of: Iterable[str] | None = (),
    ) -> Edited[SplitT]:
        """Drop side effects on the data of these splits, because the data is read again.

        Args:
            parts_of: the names of what the splits are parts of; None if the state has forgotten them.
        """
        actions, delayed, state = snapshot.actions, snapshot.delayed, snapshot.enumerator_state
        dropped: list[Any] = []
        if split_ids and issubclass(self.enumerator_type, PerformsActions):
            kind: Any = self.enumerator_type
            names = tuple(dict.fromkeys((*split_ids, *(parts_of or ()))))

            def are_kept(some: list[Any]) -> list[bool]:
                concerned = kind.concerned(some, names) if some else []
                dropped.extend(compress(some, concerned))
                return [not is_concerned for is_concerned in concerned]

            actions = tuple(compress(actions, are_kept([item.action for item in actions])))
            if delayed:
                stored = stored_actions(self.enumerator_type)
                delayed = kept_where(delayed, lambda group: are_kept(actions_of(group, stored)))
            if parts_of is not None:
                state = kind.not_finished(state, split_ids, dropped)
        return Edited(
            snapshot=replace(
                snapshot, enumerator_state=state, ledger=ledger, actions=actions, delayed=delayed
            ),
            changed=split_ids,
            left_alone=left_alone,
            dropped_actions=len(dropped),
        )


class _Taken(Generic[SplitT]):
    """Data that waits to be read or is quarantined: a split with a part of it is not read too."""

    def __init__(self, range_of: Callable[[SplitT], SplitRange]) -> None:
        self._range_of = range_of
        self._ranges: dict[str, list[tuple[SplitRange, str, str]]] = {}

    def add(self, split: SplitT, why: str) -> None:
        part = self._range_of(split)
        self._ranges.setdefault(part[0], []).append((part, split.split_id, why))

    def why_not(self, split: SplitT) -> str | None:
        """Why a split cannot be read; None if it can."""
        part = self._range_of(split)
        for other, name, why in self._ranges.get(part[0], ()):
            if part[3:] != other[3:] or (other[1] < part[2] and part[1] < other[2]):
                return why if name == split.split_id else f"overlaps {name}, which {why}"
        return None

    def smallness(self, split: SplitT) -> int:
        """A key that sorts splits which may cover others first."""
        part = self._range_of(split)
        return part[1] - part[2]


def _action_count(actions: Sequence[PendingAction], delayed: Sequence[ActionPage]) -> int:
    return len(actions) + sum(page.left for page in delayed)


def _under_way(ledger: LedgerState[Any]) -> frozenset[str]:
    waiting = (item.split.split_id for item in ledger.waiting)
    return frozenset((*waiting, *(split.split_id for split in (*ledger.live, *ledger.ranges))))


def _waiting(splits: Iterable[SplitT]) -> tuple[WaitingSplit[SplitT], ...]:
    return tuple(WaitingSplit(split=split, subtask_id=None) for split in splits)


def _in_order(split_ids: Iterable[str], wanted: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(split_ids) if name in wanted)
