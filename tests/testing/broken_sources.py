"""Sources and engines with one defect each, by the law that they break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from flip27_source.enumerator import BoundedRange, Budget, SplitEnumerator
from flip27_source.options import Options
from flip27_source.reader import SplitReader
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.testing import Batch, MicroBatchEngine
from flip27_source.testing.change_laws import Changes
from tests.testing import changing_table
from tests.testing.broken_enumerators import (
    FOUND,
    AssignsWhatCanChange,
    ForgetsWhatWaits,
    NeedsTwoSubtasks,
    Piece,
    QueueState,
    Sound,
)
from tests.testing.broken_readers import ROWS, EndsAtAnError, GivesLessToLaterAttempts, PieceReader
from tests.testing.changing_table import ChangeReader, FollowsChanges
from tests.testing.table_and_log import Part, TableThenLog

EVERYTHING = [(row,) for name in FOUND for row in ROWS[name]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The source and engine that break a law; the defaults are correct ones."""

    enumerator: type[SplitEnumerator[Any]] = Sound
    reader: type[SplitReader[Any]] = PieceReader
    engine: type[MicroBatchEngine] = MicroBatchEngine
    promised: list[Any] | None = None
    grow: Callable[[], object] | None = None
    update: Callable[[], object] | None = None
    changes: Changes | None = None


class HandsOutTwoAtATime(Sound):
    """Assigns only two splits per checkpoint, so that a batch read, which has one, lacks the rest."""

    handed_out = 0

    def handle_split_request(self, subtask_id: int) -> None:
        if self.handed_out < 2 and self.waiting:
            self.handed_out += 1
            super().handle_split_request(subtask_id)

    def snapshot_state(self, checkpoint_id: int) -> QueueState:
        self.handed_out = 0
        return super().snapshot_state(checkpoint_id)


class LosesTheRestOfACut(Sound):
    def bound_split(self, split: Piece, budget: Budget) -> BoundedRange[Piece] | None:
        return BoundedRange(read=split if budget.bytes is None else replace(split, extra="half"), rest=None)


class ReadsHalves(PieceReader):
    def read(self, split: Piece) -> Iterator[Any]:
        yield from list(super().read(split))[: None if split.extra is None else 1]


class FindsGhosts(Sound):
    """Finds a split without rows in one round."""

    rounds = 0

    def list_pieces(self, found: int) -> list[Piece]:
        self.rounds += 1
        ghosts = [Piece(split_id="ghost")] if self.rounds == 15 else []
        return [*super().list_pieces(found), *ghosts]


class SeesNoGhosts(PieceReader):
    def read(self, split: Piece) -> Iterator[Any]:
        if split.split_id != "ghost":
            yield from super().read(split)


class PublishesTooMuch(Sound):
    def snapshot_state(self, checkpoint_id: int) -> QueueState:
        for number in range(20):
            self.context.metrics.gauge(f"gauge{number}", 10**300)
        return super().snapshot_state(checkpoint_id)


class StartsAgainWhenNothingWaits(Sound):
    def __init__(self, context: Any, options: Options, state: QueueState | None = None) -> None:
        super().__init__(context, options, state if state and state.waiting else None)


class BearsOneRestart(Sound):
    def __init__(self, context: Any, options: Options, state: QueueState | None = None) -> None:
        super().__init__(context, options, state)
        if state is not None:
            self.number += 1
        if self.number > 1:
            self.waiting.clear()


class KeepsAQueueForEachSubtask(Sound):
    """Keeps splits for the subtask that was chosen first, even if that subtask no longer exists."""

    def handle_pieces(self, pieces: list[Piece] | None, error: BaseException | None) -> None:
        before = len(self.waiting)
        super().handle_pieces(pieces, error)
        count = self.context.current_parallelism
        dealt = [replace(piece, row=at % count) for at, piece in enumerate(self.waiting[before:])]
        self.waiting[before:] = dealt

    def handle_split_request(self, subtask_id: int) -> None:
        mine = next((piece for piece in self.waiting if piece.row == subtask_id), None)
        if mine is not None:
            self.waiting.remove(mine)
            self.context.assign_split(mine)


class FindsByCount(Sound):
    """Does not find names that sort before the known ones."""

    def list_pieces(self, found: int) -> list[Piece]:
        return [Piece(split_id=name) for name in sorted(FOUND)[found:]]


class IsAloneAmongAttempts(PieceReader):
    """Yields nothing while an attempt with another number is reading."""

    reading: ClassVar[list[int]] = []

    def read(self, split: Piece) -> Iterator[Any]:
        mine = self.context.attempt_number
        if not self.disturbed(mine):
            self.reading.append(mine)
            try:
                yield from super().read(split)
            finally:
                self.reading.remove(mine)

    def disturbed(self, mine: int) -> bool:
        return any(number != mine for number in self.reading)


class IsAloneAmongDrivers(IsAloneAmongAttempts):
    """Yields nothing while an attempt with the same number is reading, which can only be a dead driver's."""

    reading: ClassVar[list[int]] = []

    def disturbed(self, mine: int) -> bool:
        return mine in self.reading


VERSIONS: list[int] = []
"""One entry for each update of the rows."""


class ChangingReader(PieceReader):
    """Yields newer rows when it reads again: each row is the key plus 100 for each update."""

    repeatable = False

    def read(self, split: Piece) -> Iterator[Any]:
        for (key,) in super().read(split):
            yield (key + 100 * len(VERSIONS),)


class NotesTheVersion(Sound):
    def list_pieces(self, found: int) -> list[Piece]:
        return [replace(piece, row=len(VERSIONS)) for piece in super().list_pieces(found)]


class LosesRowsThatHaveChanged(ChangingReader):
    """Skips splits that have changed since they were found."""

    def read(self, split: Piece) -> Iterator[Any]:
        if split.row == len(VERSIONS):
            yield from super().read(split)


class LosesABatchWithoutData(MicroBatchEngine):
    def run_no_data_batch(self) -> None:
        super().run_no_data_batch()
        self.sink.write(replace(self.batches[-1], rows=()))


class ReadsLessTheSecondTime(MicroBatchEngine):
    def run_batch(self, *, actions: int = 1, **more: Any) -> Batch | None:
        batch = super().run_batch(actions=actions, **more)
        if batch is None or actions == 1:
            return batch
        *first, last = batch.attempts
        return replace(batch, attempts=(*first, replace(last, rows=())))


class PlansLessTheSecondTime(MicroBatchEngine):
    planned: Any = None

    def partitions(self) -> list[PlannedSubtask]:
        tasks = super().partitions()
        now = (id(self.holder), tasks)
        asked_again, self.planned = self.planned == now, now
        return tasks[:-1] if asked_again else tasks


class NeedsAStore(MicroBatchEngine):
    @property
    def rows(self) -> list[Any]:
        return super().rows if self.store is not None else []


class SaysNothingOfLosses(ChangeReader):
    def read(self, split: Part) -> Iterator[Any]:
        if not split.is_log or split.low >= changing_table.KEPT_FROM[0]:
            yield from super().read(split)


class TakesDeletesForNothing(ChangeReader):
    def read(self, split: Part) -> Iterator[Any]:
        yield from (row for row in super().read(split) if row[1] is not None)


class TakesTheMarkAfterTheRows(ChangeReader):
    """Its snapshot and its mark are of two moments."""

    def read(self, split: Part) -> Iterator[Any]:
        if split.is_log:
            yield from super().read(split)
            return
        rows = list(changing_table.VALUES.items())
        position = 2 * len(changing_table.LOG)
        for key, value in rows:
            if split.low <= key and (split.high is None or key < split.high):
                yield key, value, position


CHANGES = Changes(
    change=changing_table.change,
    identity=changing_table.key_of,
    replay=changing_table.replay,
    lose=changing_table.lose,
)

BROKEN: dict[str, Broken] = {
    "a split is a value that nobody changes": Broken(enumerator=AssignsWhatCanChange),
    "an undisturbed run ends and delivers every row": Broken(promised=[(1,), (2,)]),
    "every row exactly once, at any parallelism": Broken(enumerator=NeedsTwoSubtasks),
    "a batch read gives the same rows": Broken(enumerator=HandsOutTwoAtATime, promised=EVERYTHING),
    "limits divide the rows without changing them (S78)": Broken(
        enumerator=LosesTheRestOfACut, reader=ReadsHalves
    ),
    "when nothing is new the offset stays and nothing is written (R2)": Broken(
        enumerator=FindsGhosts, reader=SeesNoGhosts
    ),
    "offsets are small and canonical": Broken(enumerator=PublishesTooMuch),
    "batches without data change nothing": Broken(engine=LosesABatchWithoutData),
    "a stage that runs again gives the same rows": Broken(engine=ReadsLessTheSecondTime),
    "no row is read again when the last commit is lost (S97)": Broken(enumerator=StartsAgainWhenNothingWaits),
    "every row exactly once, after a crash at any step": Broken(enumerator=ForgetsWhatWaits),
    "every row exactly once, after repeated crashes": Broken(enumerator=BearsOneRestart),
    "a plan depends only on stored state (S95)": Broken(engine=PlansLessTheSecondTime),
    "every row exactly once, when tasks are killed and retried": Broken(reader=GivesLessToLaterAttempts),
    "every row exactly once, with speculative copies (S96)": Broken(reader=IsAloneAmongAttempts),
    "tasks of a dead driver change nothing (R9)": Broken(reader=IsAloneAmongDrivers),
    "every row exactly once, when parallelism changes at restarts (S76)": Broken(
        enumerator=KeepsAQueueForEachSubtask
    ),
    "state inside the offsets works as well": Broken(engine=NeedsAStore),
    "added rows are read exactly once": Broken(
        enumerator=FindsByCount, grow=lambda: FOUND.append(f"0{len(FOUND)}")
    ),
    "an error while reading is not taken for the end of a split (R12)": Broken(reader=EndsAtAnError),
    "changed rows appear once per key when a batch is run again (R16)": Broken(
        enumerator=NotesTheVersion, reader=LosesRowsThatHaveChanged, update=lambda: VERSIONS.append(1)
    ),
    "changes add up to the table of the source, whenever they come": Broken(
        enumerator=FollowsChanges, reader=TakesDeletesForNothing, changes=CHANGES
    ),
    "changes add up to the table of the source, while rows are read": Broken(
        enumerator=FollowsChanges, reader=TakesTheMarkAfterTheRows, changes=CHANGES
    ),
    "splits that could not be read are read later, or stop the query": Broken(
        enumerator=FollowsChanges,
        reader=ChangeReader,
        changes=replace(CHANGES, replay=changing_table.replay_in_order),
    ),
    "data that is gone is reported, or stops the query (R12)": Broken(
        enumerator=TableThenLog, reader=SaysNothingOfLosses, changes=CHANGES
    ),
}
