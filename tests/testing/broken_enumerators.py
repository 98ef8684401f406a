"""Enumerators with one defect each, by the law that they break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from flip27_source.enumerator import BoundedRange, Budget, SplitEnumerator
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerator_mixins import CutsSomeSplits, FollowsEventTime
from flip27_source.options import Options
from flip27_source.source_progress import LooksIntoSource, ProgressTable

FOUND = ["a", "b", "c", "d"]
"""The names that the enumerators find. Tests that add to it remove the additions at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A split; ``extra`` may hold a value that JSON returns changed, such as a tuple."""

    split_id: str
    row: int = 0
    extra: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The number of names found, the splits that wait, and a number that some subclasses use."""

    found: int
    waiting: list[Piece]
    number: int = 0
    note: str = ""


class Sound(SplitEnumerator[Piece]):
    """A correct enumerator: it finds the names of FOUND on a thread and assigns them one by one."""

    def __init__(self, context: Any, options: Options, state: QueueState | None = None) -> None:
        super().__init__(context, options, state)
        self.found = 0 if state is None else state.found
        self.waiting = [] if state is None else list(state.waiting)
        self.number = 0 if state is None else state.number

    def start(self) -> None:
        self.context.call_async(
            self.list_pieces, self.handle_pieces, argument=lambda _: self.found, period_s=1.0
        )

    def list_pieces(self, found: int) -> list[Piece]:
        return [Piece(split_id=name) for name in FOUND[found:]]

    def handle_pieces(self, pieces: list[Piece] | None, error: BaseException | None) -> None:
        assert pieces is not None, error
        self.found += len(pieces)
        self.waiting.extend(pieces)

    def handle_split_request(self, subtask_id: int) -> None:
        if self.waiting:
            self.context.assign_split(self.waiting.pop(0))

    def add_splits_back(self, splits: Sequence[Piece], subtask_id: int) -> None:
        self.waiting = [*splits, *self.waiting]

    def snapshot_state(self, checkpoint_id: int) -> QueueState:
        return QueueState(found=self.found, waiting=list(self.waiting), number=self.number)


@dataclass
class Thawed:
    split_id: str
    position: int = 0


class AssignsWhatCanChange(Sound):
    """Its splits have a class that is not frozen."""

    split_type = Thawed


class NeverEnds(Sound):
    def handle_split_request(self, subtask_id: int) -> None:
        self.number += 1
        self.context.assign_split(Piece(split_id=str(self.number)))


class UsesAnIdTwice(Sound):
    def list_pieces(self, found: int) -> list[Piece]:
        return [
            replace(piece, split_id=piece.split_id.replace("b", "a")) for piece in super().list_pieces(found)
        ]


class NamesBySerialNumber(Sound):
    serial: ClassVar[int] = 0

    def list_pieces(self, found: int) -> list[Piece]:
        NamesBySerialNumber.serial += 1
        return [
            replace(piece, split_id=f"{piece.split_id}-{self.serial}") for piece in super().list_pieces(found)
        ]


class HandsOutTuples(Sound):
    def list_pieces(self, found: int) -> list[Piece]:
        return [replace(piece, extra=(1, 2)) for piece in super().list_pieces(found)]


class StartsAtOnce(Sound):
    def __init__(self, context: Any, options: Options, state: QueueState | None = None) -> None:
        super().__init__(context, options, state)
        super().start()

    def start(self) -> None:
        pass


class LooksFromTheStart(Sound):
    def list_pieces(self, found: int) -> list[Piece]:
        return [Piece(split_id=name) for name in FOUND]


class NeedsTwoSubtasks(Sound):
    def handle_split_request(self, subtask_id: int) -> None:
        if self.waiting and subtask_id == len(self.waiting) % 2:
            super().handle_split_request(subtask_id)


class RotatesWhenAsked(Sound):
    def snapshot_state(self, checkpoint_id: int) -> QueueState:
        self.waiting = [*self.waiting[1:], *self.waiting[:1]]
        return super().snapshot_state(checkpoint_id)


class GivesItsOwnList(Sound):
    def snapshot_state(self, checkpoint_id: int) -> QueueState:
        return QueueState(found=self.found, waiting=self.waiting)


class ForgetsWhatWaits(Sound):
    def snapshot_state(self, checkpoint_id: int) -> QueueState:
        return QueueState(found=self.found, waiting=[])


class KeepsTheRestoredApart(Sound):
    """Adds restored splits to the queue only at the first request; until then they are in no snapshot."""

    def __init__(self, context: Any, options: Options, state: QueueState | None = None) -> None:
        super().__init__(context, options, state)
        self.restored, self.waiting = self.waiting, []

    def handle_split_request(self, subtask_id: int) -> None:
        self.waiting = [*self.restored, *self.waiting]
        self.restored = []
        super().handle_split_request(subtask_id)


class CountsRestarts(Sound):
    def __init__(self, context: Any, options: Options, state: QueueState | None = None) -> None:
        super().__init__(context, options, state)
        self.number += 1


class MovesOnItsThread(Sound):
    def list_pieces(self, found: int) -> list[Piece]:
        pieces = super().list_pieces(found)
        self.found += len(pieces)
        return pieces

    def handle_pieces(self, pieces: list[Piece] | None, error: BaseException | None) -> None:
        self.waiting.extend(pieces or [])


class DropsWhatComesBack(Sound):
    def add_splits_back(self, splits: Sequence[Piece], subtask_id: int) -> None:
        pass


class GivesUpTooEarly(Sound):
    """Ends a bounded run at the first request for which it has no split."""

    at_its_end: bool = False

    def handle_split_request(self, subtask_id: int) -> None:
        if not self.waiting and self.context.boundedness is Boundedness.BOUNDED:
            self.at_its_end = True
        if not self.at_its_end:
            super().handle_split_request(subtask_id)


class CountsCompletions(Sound):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.number += 1


class RemembersItsCuts(Sound):
    def bound_split(self, split: Piece, budget: Budget) -> BoundedRange[Piece] | None:
        self.number += 1
        return BoundedRange(read=split, rest=replace(split, row=self.number))


class LooksByCount(Sound):
    """Finds all names again when their number has changed."""

    def list_pieces(self, found: int) -> list[Piece]:
        if len(FOUND) == found:
            return []
        self.found = 0
        return [Piece(split_id=name) for name in FOUND]


class CallsRangesWhole(CutsSomeSplits, Sound):
    """Cuts three rows from each split, and says that none of its ranges is one."""

    @classmethod
    def is_cut_off(cls, split: Any) -> bool:
        return False

    def bound_split(self, split: Piece, budget: Budget) -> BoundedRange[Piece] | None:
        if split.row == 3:
            return None
        return BoundedRange(read=split, rest=replace(split, row=split.row + 1))


class LooksBehindTheHorizon(FollowsEventTime[Piece], Sound):
    """Reads a record a second, whatever the horizon is."""

    def bound_split(self, split: Piece, budget: Budget) -> BoundedRange[Piece] | None:
        if split.row == 3:
            return None
        return BoundedRange(read=split, rest=replace(split, row=split.row + 1))

    def event_time_at(self, split: Piece) -> int | None:
        return split.row * 1_000_000


class GivesItsThreadTheList(Sound):
    """Its thread gets the list of what waits, from which the coordinator takes splits."""

    def start(self) -> None:
        self.context.call_async(
            self.list_others, self.handle_pieces, argument=lambda _: self.waiting, period_s=1.0
        )

    def list_others(self, waiting: list[Piece]) -> list[Piece]:
        return [piece for piece in self.list_pieces(self.found) if piece not in waiting]


class AssignsWhenLookedAt(Sound, LooksIntoSource):
    def look(self, live: Sequence[Any]) -> list[ProgressTable]:
        self.context.assign_split(Piece(split_id="looked"))
        return []


BROKEN_ENUMERATORS: dict[str, type[SplitEnumerator[Any]]] = {
    "a split is a value that nobody changes": AssignsWhatCanChange,
    "the enumerator runs out of splits": NeverEnds,
    "split ids are unique": UsesAnIdTwice,
    "another enumerator finds the same splits with the same ids": NamesBySerialNumber,
    "a stored split equals the original": HandsOutTuples,
    "nothing is done before start()": StartsAtOnce,
    "no split is found twice": LooksFromTheStart,
    "the splits do not depend on which subtask asks": NeedsTwoSubtasks,
    "taking a snapshot changes nothing": RotatesWhenAsked,
    "a snapshot does not change after it was taken": GivesItsOwnList,
    "a restored enumerator assigns the rest, once and in order": ForgetsWhatWaits,
    "a snapshot between restore and the first assignment is complete (S91)": KeepsTheRestoredApart,
    "a snapshot right after a restore has the same bytes (S100)": CountsRestarts,
    "splits found by a round are not lost before its handler runs": MovesOnItsThread,
    "splits that come back are assigned again, once (S58)": DropsWhatComesBack,
    "a bounded run assigns all splits and then ends": GivesUpTooEarly,
    "a completion may be reported twice (R7)": CountsCompletions,
    "cutting a split is repeatable and leaves less of it": RemembersItsCuts,
    "event times of live splits never go back, and horizons are kept": LooksBehindTheHorizon,
    "is_cut_off tells ranges from splits that are read whole": CallsRangesWhole,
    "what asynchronous work is given does not change": GivesItsThreadTheList,
    "what is told of progress and of a look changes nothing": AssignsWhenLookedAt,
    "added splits are found once": LooksByCount,
}
