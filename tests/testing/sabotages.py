"""Sabotages: sources with one planted mistake that authors make, with the words that name it.

``check_source(..., fast=True)`` must find each of them. The sources are the correct ones of
``table_and_log``, ``broken_enumerators``, ``broken_readers`` and
``changing_table``, changed in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.enumerator import BoundedRange, Budget, SplitEnumerator
from flip27_source.events import Progress
from flip27_source.options import Options
from flip27_source.reader import SplitReader
from flip27_source.testing import Link, linked_source
from flip27_source.testing.fakes import Linked, LinkedState
from tests.testing import broken_enumerators, broken_readers, broken_sources, changing_table, table_and_log
from tests.testing.broken_enumerators import QueueState, Sound
from tests.testing.broken_readers import PageReader, Pages, PieceReader
from tests.testing.changing_table import ChangeReader, FollowsChanges
from tests.testing.table_and_log import LOG, TABLE, Part, Steps, TableReader, TableThenLog, TableThenWindows


@dataclass(frozen=True, slots=True, kw_only=True)
class Sabotage:
    """A source with a mistake, and what has to be in the message.

    Attributes:
        mistake: what the author has done.
        words: each of them is in the message.
        grow: adds data; None if the data never grows.
        more: further arguments of the check.
    """

    mistake: str
    enumerator: type[SplitEnumerator[Any]]
    reader: type[SplitReader[Any]]
    words: tuple[str, ...]
    grow: Callable[[], object] | None = None
    more: dict[str, Any] = field(default_factory=dict)


def add_a_name_in_front() -> None:
    names = broken_enumerators.FOUND
    names.append(f"0{len(names)}")


# The state: what a snapshot leaves out, and what a restart makes of it.


class LeavesOutTheSteps(TableThenLog):
    def snapshot_state(self, checkpoint_id: int) -> Steps:
        return Steps(waiting=[], seen=self.seen)


class LeavesOutTheChunks(TableThenLog):
    def snapshot_state(self, checkpoint_id: int) -> Steps:
        return Steps(waiting=[part for part in self.waiting if part.is_log], seen=self.seen)


class LeavesOutTheLog(TableThenLog):
    def snapshot_state(self, checkpoint_id: int) -> Steps:
        return Steps(waiting=[part for part in self.waiting if not part.is_log], seen=self.seen)


class LeavesOutTheWindows(TableThenWindows):
    def snapshot_state(self, checkpoint_id: int) -> Steps:
        return Steps(waiting=[part for part in self.waiting if not part.is_log], seen=self.seen)


class LeavesOutAllWindowsButTheFirst(TableThenWindows):
    """As one who assigns the first window at once, and so has never seen a second one wait."""

    def snapshot_state(self, checkpoint_id: int) -> Steps:
        windows = [part for part in self.waiting if part.is_log]
        return Steps(waiting=[part for part in self.waiting if part not in windows[1:]], seen=self.seen)


class ForgetsThePosition(TableThenWindows):
    def __init__(self, context: Any, options: Options, state: Steps | None = None) -> None:
        super().__init__(context, options, state)
        self.seen = 0


class MovesThePositionOnTheThread(TableThenWindows):
    def look(self) -> int:
        self.before, self.seen = self.seen, len(LOG)
        return self.seen

    def looked(self, end: int | None, error: BaseException | None) -> None:
        self.seen = self.before
        super().looked(end, error)


class BeginsTheSnapshotAgain(TableThenLog):
    def __init__(self, context: Any, options: Options, state: Steps | None = None) -> None:
        super().__init__(context, options, state if state and state.waiting else None)


class ReadsTheLogFromTodayAfterARestart(TableThenWindows):
    def start(self) -> None:
        self.seen = len(LOG)
        super().start()


# Between snapshot and log.


class ReadsChunksAsTheyAreNow(TableReader):
    """No filter: a row that is inserted during the snapshot is in its chunk and in the log."""

    def keys(self, split: Part) -> list[int]:
        if split.is_log:
            return super().keys(split)
        return [key for key in TABLE if self.is_inside(split, key)]


class BeginsTheLogAfterTheSnapshot(TableThenLog):
    """What is inserted during the snapshot is neither in the chunks nor in the log."""

    def bound_split(self, split: Part, budget: Budget) -> BoundedRange[Part] | None:
        if split.is_log and split.mark == 0:
            return super().bound_split(replace(split, low=len(LOG), mark=1), budget) or BoundedRange(
                read=replace(split, high=split.low, mark=1), rest=replace(split, low=len(LOG), mark=1)
            )
        return super().bound_split(split, budget)


class ChunksThatOverlap(TableThenWindows):
    def start(self) -> None:
        super().start()
        self.waiting = [
            replace(part, high=part.low + table_and_log.CHUNK + 1) if part.high and not part.is_log else part
            for part in self.waiting
        ]


class ChunksOfChangesThatOverlap(ChunksThatOverlap, FollowsChanges):
    pass


class FiltersTheLogByTheLastChunk(TableReader):
    """Leaves out of the log what looks as if it were in the last chunk."""

    def keys(self, split: Part) -> list[int]:
        return [key for key in super().keys(split) if not split.is_log or key % 3]


class WindowsWithAHole(TableThenWindows):
    def looked(self, end: int | None, error: BaseException | None) -> None:
        super().looked(end, error)
        self.seen += 1 if end == 6 else 0


class WindowsThatOverlap(TableThenWindows):
    def looked(self, end: int | None, error: BaseException | None) -> None:
        super().looked(end, error)
        self.waiting = [
            replace(part, low=max(0, part.low - 1)) if part.is_log and part.high == part.low + 1 else part
            for part in self.waiting
        ]


# Ranges of splits without an end.


class MovesItsOwnPosition(TableThenLog):
    """Takes its own attribute for the position of the log, and not the split."""

    def bound_split(self, split: Part, budget: Budget) -> BoundedRange[Part] | None:
        cut = super().bound_split(replace(split, low=max(split.low, self.seen)), budget)
        if split.is_log and cut is not None and cut.rest is not None:
            self.seen = cut.rest.low
        return cut


class RestBeginsBeforeTheEnd(TableThenLog):
    """Never comes to an end: the last row is always left."""

    def bound_split(self, split: Part, budget: Budget) -> BoundedRange[Part] | None:
        cut = super().bound_split(split, budget)
        if cut is None or cut.rest is None:
            return cut
        return replace(cut, rest=replace(cut.rest, low=cut.rest.low - 1))


class RestOfASmallRangeOverlaps(TableThenLog):
    """Overlaps only where a limit has cut a range."""

    def bound_split(self, split: Part, budget: Budget) -> BoundedRange[Part] | None:
        cut = super().bound_split(split, budget)
        if cut is None or cut.rest is None or cut.rest.low in (split.low + 1, len(LOG)):
            return cut
        return replace(cut, rest=replace(cut.rest, low=cut.rest.low - 1))


class RestLeavesOut(TableThenLog):
    def bound_split(self, split: Part, budget: Budget) -> BoundedRange[Part] | None:
        cut = super().bound_split(split, budget)
        if cut is None or cut.rest is None or cut.rest.low == len(LOG):
            return cut
        return replace(cut, rest=replace(cut.rest, low=cut.rest.low + 1))


# What never comes to an end.


class AlwaysWantsACheckpoint(Sound):
    def wants_checkpoint(self) -> bool:
        return True


class TakesTheTimeForAPosition(TableThenLog):
    """A position of the log moves with each question, whether or not there is a new row."""

    def bound_split(self, split: Part, budget: Budget) -> BoundedRange[Part] | None:
        cut = super().bound_split(split, budget)
        if cut is None and split.is_log:
            return BoundedRange(
                read=replace(split, high=len(LOG)), rest=replace(split, low=len(LOG), mark=split.mark + 1)
            )
        return cut


# Positions in pages.


class PagesOnce(DiscoveringEnumerator[Pages]):
    """A correct enumerator of the splits with pages."""

    def discover(self, position: bool | None) -> Discovery[Pages, bool]:
        return Discovery([] if position else broken_readers.ALL_PAGES, True)


class IsAPageAhead(PageReader):
    def marks(self, split: Pages, page: int) -> Iterator[Any]:
        yield Progress(replace(split, page=page + 1))


# Changes.

CHANGES: dict[str, Any] = {
    "change": changing_table.change,
    "identity": changing_table.key_of,
    "replay": changing_table.replay,
    "lose": changing_table.lose,
}


class TakesTheLastChunkForComplete(ChangeReader):
    """Leaves out of the log what the last chunk has read, or will read, or has read before."""

    def read(self, split: Part) -> Iterator[Any]:
        yield from (row for row in super().read(split) if not split.is_log or row[0] != 7)


class BeginsAtWhatIsLeft(ChangeReader):
    def read(self, split: Part) -> Iterator[Any]:
        low = max(split.low, changing_table.KEPT_FROM[0]) if split.is_log else split.low
        yield from super().read(replace(split, low=low))


# Events of readers.

LINKED = linked_source({"a": [1, Link("b"), Link("c")], "b": [2, Link("a")], "c": [3, 4]})
_Linked: Any = LINKED.enumerator
_LinkedReader: Any = LINKED.reader


class AssignsEachLinkAgain(_Linked):  # type: ignore[misc]
    """Handles an event that it has had before as if it were new."""

    def handle_source_event(self, subtask_id: int, event: Linked) -> None:
        self._known.clear()
        super().handle_source_event(subtask_id, event)


class LeavesOutWhatEventsHaveBrought(_Linked):  # type: ignore[misc]
    def snapshot_state(self, checkpoint_id: int) -> LinkedState:
        return LinkedState(known=tuple(self._known), waiting=())


# Splits and state.


class RemembersEveryNameInTheSplit(TableThenWindows):
    """Its splits carry what it has seen, as a position of 2 MB."""

    def looked(self, end: int | None, error: BaseException | None) -> None:
        super().looked(end, error)
        self.waiting = [replace(part, note="seen " * 400_000) for part in self.waiting]


class RemembersEveryNameInTheState(Sound):
    def snapshot_state(self, checkpoint_id: int) -> QueueState:
        return replace(super().snapshot_state(checkpoint_id), note="seen " * 400_000)


# Errors.


class Refused(Exception):  # noqa: N818
    """An error of the client that a reader uses."""


class EndsWhenTheConnectionIsLost(TableReader):
    def read(self, split: Part) -> Iterator[tuple[int, str]]:
        try:
            yield from super().read(split)
        except OSError:
            return


class EndsTheLogWhenTheClientRefuses(TableReader):
    def keys(self, split: Part) -> list[int]:
        keys: list[int] = []
        for key in super().keys(split):
            try:
                keys.append(self.fetched(split, key))
            except Refused:
                break
        return keys

    def fetched(self, split: Part, key: int) -> int:
        return key


class GivesWhatItHasAfterAnyError(TableReader):
    def read(self, split: Part) -> Iterator[tuple[int, str]]:
        rows: list[tuple[int, str]] = []
        with suppress(Exception):
            rows.extend(super().read(split))
        yield from rows


SABOTAGES: tuple[Sabotage, ...] = (
    Sabotage(
        mistake="the steps that wait are not in the snapshot",
        enumerator=LeavesOutTheSteps, reader=TableReader, grow=table_and_log.insert,
        words=("missing", "snapshot_state returns all that was found and not assigned"),
    ),
    Sabotage(
        mistake="the chunks that wait are not in the snapshot",
        enumerator=LeavesOutTheChunks, reader=TableReader, grow=table_and_log.insert,
        words=("missing", "'keys from", "was in no batch", "snapshot_state"),
    ),
    Sabotage(
        mistake="the log that waits is not in the snapshot",
        enumerator=LeavesOutTheLog, reader=TableReader, grow=table_and_log.insert,
        words=("missing", "restarted before batch"),
    ),
    Sabotage(
        mistake="windows of the log that wait are not in the snapshot",
        enumerator=LeavesOutTheWindows, reader=TableReader, grow=table_and_log.insert,
        words=("missing", "restarted before batch"),
    ),
    Sabotage(
        mistake="of the windows that wait only one is in the snapshot",
        enumerator=LeavesOutAllWindowsButTheFirst, reader=TableReader, grow=table_and_log.insert,
        words=("missing", "restarted before batch"),
    ),
    Sabotage(
        mistake="the position of the log is not restored",
        enumerator=ForgetsThePosition, reader=TableReader, grow=table_and_log.insert,
        words=("'log at", "after a restart", "snapshot_state leaves out a position"),
    ),
    Sabotage(
        mistake="a restart begins the snapshot again",
        enumerator=BeginsTheSnapshotAgain, reader=TableReader, grow=table_and_log.insert,
        words=("'log' was assigned while", "restarted before batch", "__init__ does not take it"),
    ),
    Sabotage(
        mistake="after a restart the log is read from its present end",
        enumerator=ReadsTheLogFromTodayAfterARestart, reader=TableReader, grow=table_and_log.insert,
        words=("missing", "restarted before batch"),
    ),
    Sabotage(
        mistake="there is no filter between snapshot and log",
        enumerator=TableThenLog, reader=ReadsChunksAsTheyAreNow, grow=table_and_log.insert,
        words=("too many", "without a filter"),
    ),
    Sabotage(
        mistake="the log begins where the snapshot ends",
        enumerator=BeginsTheLogAfterTheSnapshot, reader=TableReader, grow=table_and_log.insert,
        words=("missing", "'log'"),
    ),
    Sabotage(
        mistake="the log leaves out what looks as if it were in the snapshot",
        enumerator=TableThenLog, reader=FiltersTheLogByTheLastChunk, grow=table_and_log.insert,
        words=("missing", "'log'"),
    ),
    Sabotage(
        mistake="windows of the log have a hole",
        enumerator=WindowsWithAHole, reader=TableReader, grow=table_and_log.insert,
        words=("missing: (14, 'name 14')", "No split of this run gave it"),
    ),
    Sabotage(
        mistake="windows of the log overlap",
        enumerator=WindowsThatOverlap, reader=TableReader, grow=table_and_log.insert,
        words=("too many", "two splits give the same row"),
    ),
    Sabotage(
        mistake="chunks of the table overlap, and the expected rows are known",
        enumerator=ChunksThatOverlap, reader=TableReader, more={"rows": table_and_log.ROWS},
        words=("too many", "'keys from 0'", "'keys from 2'", "two splits give the same row: they overlap"),
    ),
    Sabotage(
        mistake="chunks of the table overlap, and the expected rows are those of the splits",
        enumerator=ChunksThatOverlap, reader=TableReader, grow=table_and_log.insert,
        words=("'keys from 6'", "'keys from 8'", "two splits give the same row: they overlap"),
    ),
    Sabotage(
        mistake="chunks of a table that changes overlap",
        enumerator=ChunksOfChangesThatOverlap, reader=ChangeReader, more={**CHANGES, "each_once": True},
        words=("(2, 0, 0) came with split 'keys from 0' (", "(2, 0, 4) came with split 'keys from 2' ("),
    ),
    Sabotage(
        mistake="bound_split moves an attribute",
        enumerator=MovesItsOwnPosition, reader=TableReader, grow=table_and_log.insert,
        words=("bound_split", "side effect"),
    ),
    Sabotage(
        mistake="the rest of a range begins before its end, for ever",
        enumerator=RestBeginsBeforeTheEnd, reader=TableReader, grow=table_and_log.insert,
        words=("bound_split", "'log'"),
    ),
    Sabotage(
        mistake="the rest of a range that a limit has cut overlaps",
        enumerator=RestOfASmallRangeOverlaps, reader=TableReader, grow=table_and_log.insert,
        words=("too many", "the ranges overlap", "bound_split"),
    ),
    Sabotage(
        mistake="the rest of a range that a limit has cut leaves out a row",
        enumerator=RestLeavesOut, reader=TableReader, grow=table_and_log.insert,
        words=("missing", "'log'"),
    ),
    Sabotage(
        mistake="deletes are not delivered",
        enumerator=FollowsChanges, reader=broken_sources.TakesDeletesForNothing, more=CHANGES,
        words=("the table with a change between any two batches differs", "in the source not there"),
    ),
    Sabotage(
        mistake="changes of what the last chunk reads are left out",
        enumerator=FollowsChanges, reader=TakesTheLastChunkForComplete, more=CHANGES,
        words=("the table", "key 7 is", "the rows that came"),
    ),
    Sabotage(
        mistake="the log of changes begins where the snapshot ends",
        enumerator=BeginsTheLogAfterTheSnapshot, reader=ChangeReader, more=CHANGES,
        words=("the table with a change", "in the source", "the rows that came: none"),
    ),
    Sabotage(
        mistake="a change that the snapshot has already is delivered again",
        enumerator=FollowsChanges, reader=ChangeReader, more={**CHANGES, "each_once": True},
        words=("with a change between any two batches, the row", "changes nothing", "the mark of its chunk"),
    ),
    Sabotage(
        mistake="the mark of a chunk is taken after its rows",
        enumerator=FollowsChanges, reader=broken_sources.TakesTheMarkAfterTheRows, more=CHANGES,
        words=("with a change before line", "TakesTheMarkAfterTheRows.read", "in the source"),
    ),
    Sabotage(
        mistake="a log that was cut off is read from what is left",
        enumerator=TableThenLog, reader=BeginsAtWhatIsLeft, more=CHANGES,
        words=("as if nothing were missing", "context.report_data_loss"),
    ),
    Sabotage(
        mistake="the reader does not notice that the log was cut off since the batch was planned",
        enumerator=FollowsChanges, reader=BeginsAtWhatIsLeft, more=CHANGES,
        words=("after a batch was planned", "The reader has to raise an error"),
    ),
    Sabotage(
        mistake="changes on which later ones depend may be left out, and come after them",
        enumerator=FollowsChanges, reader=ChangeReader,
        more={**CHANGES, "replay": changing_table.replay_in_order},
        words=("the splits with changes could not be read", "key 0 is", "must_read"),
    ),
    Sabotage(
        mistake="an event is handled twice",
        enumerator=AssignsEachLinkAgain, reader=_LinkedReader,
        words=("batches in a row have brought nothing new", "assign each split once"),
    ),
    Sabotage(
        mistake="what events have brought is not in the snapshot",
        enumerator=LeavesOutWhatEventsHaveBrought, reader=_LinkedReader,
        words=("missing", "was in no batch of this run", "snapshot_state"),
    ),
    Sabotage(
        mistake="a later attempt has fewer rows",
        enumerator=Sound, reader=broken_readers.GivesLessToLaterAttempts,
        words=("missing", "killed"),
    ),
    Sabotage(
        mistake="splits wait for a subtask that a restart has removed",
        enumerator=broken_sources.KeepsAQueueForEachSubtask, reader=PieceReader,
        words=("missing", "another parallelism", "was in no batch of this run"),
    ),
    Sabotage(
        mistake="what sorts before the known names is not found",
        enumerator=broken_sources.FindsByCount, reader=PieceReader, grow=add_a_name_in_front,
        words=("missing", "too many", "split 'a'", "it was found twice"),
    ),
    Sabotage(
        mistake="splits are not frozen",
        enumerator=broken_enumerators.AssignsWhatCanChange, reader=PieceReader,
        words=("Thawed", "is not frozen", "@dataclass(frozen=True, slots=True, kw_only=True)"),
    ),
    Sabotage(
        mistake="a lost connection ends a split",
        enumerator=TableThenLog, reader=EndsWhenTheConnectionIsLost, grow=table_and_log.insert,
        words=("ConnectionResetError in line", "is swallowed", "EndsWhenTheConnectionIsLost.read", "missing"),
    ),
    Sabotage(
        mistake="an error of the client ends a split",
        enumerator=TableThenWindows, reader=EndsTheLogWhenTheClientRefuses, grow=table_and_log.insert,
        words=("Refused in line", "EndsTheLogWhenTheClientRefuses.keys", "Let the error pass"),
    ),
    Sabotage(
        mistake="any error ends a split",
        enumerator=TableThenLog, reader=GivesWhatItHasAfterAnyError,
        words=("is swallowed", "GivesWhatItHasAfterAnyError.read"),
    ),
    Sabotage(
        mistake="a checkpoint is always wanted",
        enumerator=AlwaysWantsACheckpoint, reader=PieceReader,
        words=("wants_checkpoint of AlwaysWantsACheckpoint returns True each time", "20 batches"),
    ),
    Sabotage(
        mistake="a position moves although nothing is read",
        enumerator=TakesTheTimeForAPosition, reader=TableReader, grow=table_and_log.insert,
        words=("bound_split of split 'log' does not come to an end", "nothing to read now"),
    ),
    Sabotage(
        mistake="splits are assigned for ever",
        enumerator=broken_enumerators.NeverEnds, reader=PieceReader,
        words=("handle_split_request of NeverEnds assigns a split each time",),
    ),
    Sabotage(
        mistake="a split has rows for ever",
        enumerator=Sound, reader=broken_readers.NeverEnds,
        words=("split 'a' gives more than 1,000,000 rows",),
    ),
    Sabotage(
        mistake="a Progress stays where it is",
        enumerator=PagesOnce, reader=broken_readers.StaysWhereItIs,
        words=("split 'a' and then a Progress whose position has not changed",),
    ),
    Sabotage(
        mistake="a reader continues a page before the position",
        enumerator=PagesOnce, reader=broken_readers.IsOnePageBehind,
        words=("split 'a' and then a Progress whose position has not changed", "extra='read'"),
    ),
    Sabotage(
        mistake="a Progress is a page ahead",
        enumerator=PagesOnce, reader=IsAPageAhead,
        words=("missing",),
    ),
)  # fmt: skip
