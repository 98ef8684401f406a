"""Every law of sources fails for a source that breaks it; correct sources keep all laws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from flip27_source import DiscoveringEnumerator, Discovery, Options, Progress, SplitReader, YieldsProgress
from flip27_source.enumerator import BoundedRange, Budget
from flip27_source.events import ReturnSplit
from flip27_source.split import SplitSize
from flip27_source.testing import (
    BOOM,
    END,
    LawBroken,
    Link,
    TrivialInput,
    check_enumerator,
    check_reader,
    check_source,
    laws,
    linked_source,
    literal_source,
    paged_source,
)
from flip27_source.testing.law import enforce
from flip27_source.testing.source_laws import SOURCE_LAWS
from flip27_source.testing.source_run import SourceCheck
from flip27_source.testing.under_test import SourceUnderTest
from tests.coordination.test_whole_splits import Chunk, Log, Snapshot, chunks
from tests.testing import changing_table
from tests.testing.broken_enumerators import FOUND, Piece, Sound
from tests.testing.broken_readers import PieceReader
from tests.testing.broken_sources import BROKEN, EVERYTHING, VERSIONS, ChangingReader


@pytest.fixture(autouse=True)
def _nothing_added() -> Iterator[None]:
    before = list(FOUND)
    changing_table.make_table()
    yield
    FOUND[:] = before
    VERSIONS.clear()


def key_of(row: tuple[int]) -> int:
    return row[0] % 100


@pytest.mark.parametrize("fast", [False, True], ids=["thorough", "fast"])
@pytest.mark.parametrize("law", BROKEN)
def test_a_source_that_breaks_a_law_fails_with_the_name_of_the_law(law: str, fast: bool) -> None:
    broken = BROKEN[law]
    check = SourceCheck(
        given=SourceUnderTest(enumerator=broken.enumerator, reader=broken.reader),
        promised=broken.promised,
        grow=broken.grow,
        update=broken.update,
        key=key_of,
        changes=broken.changes,
        fast=fast,
        engine_type=broken.engine,
    )
    with pytest.raises(LawBroken) as caught:
        enforce(SOURCE_LAWS, check)
    # A fast check crashes at each step in one run, so the law of a single crash fails first.
    first = {
        "every row exactly once, after repeated crashes": "every row exactly once, after a crash at any step"
    }
    assert caught.value.law == (first.get(law, law) if fast else law)


def test_a_fast_check_opens_far_fewer_readers_than_a_thorough_one() -> None:
    opened: Counter[bool] = Counter()

    class Counting(PieceReader):
        """A reader that counts how often it is opened, which may be slow for other readers."""

        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            opened[fast] += 1

    for fast in (False, True):
        check_source(enumerator=Sound, reader=Counting, fast=fast)
    assert opened[False] > 500
    assert opened[True] < 150


class ChangesBySplit(ChangingReader):
    repeatable = True

    def is_repeatable(self, split: Piece) -> bool:
        return False


@pytest.mark.parametrize("reader", [ChangingReader, ChangesBySplit])
def test_a_source_that_declares_changing_rows_keeps_the_laws(reader: Any) -> None:
    check_source(enumerator=Sound, reader=reader, update=lambda: VERSIONS.append(1), key=key_of)


def test_a_source_that_declares_repeatable_rows_cannot_be_checked_with_updates() -> None:
    with pytest.raises(TrivialInput, match="repeatable = False"):
        check_source(enumerator=Sound, reader=PieceReader, update=lambda: VERSIONS.append(1))


def test_an_update_that_changes_nothing_is_refused() -> None:
    with pytest.raises(TrivialInput, match="update has changed no row"):
        check_source(enumerator=Sound, reader=ChangingReader, update=lambda: None, key=key_of)


class ChunksAndLog(Snapshot):
    """Two kinds of split: four chunks, and a log to which rows are added."""

    length = 3

    def __init__(self, context: Any, options: Options, state: list[Chunk | Log] | None = None) -> None:
        super().__init__(context, options, state)
        if state is None:
            self.waiting = [Log("log"), *chunks(4, rows=2)]


class KindsReader(SplitReader[Chunk | Log]):
    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema([("row", pa.string())])

    def read(self, split: Chunk | Log) -> Iterator[tuple[str]]:
        match split:
            case Chunk():
                yield from ((f"{split.split_id}/{row}",) for row in range(split.rows))
            case Log():
                yield from ((f"log/{row}",) for row in range(split.first, split.end or 0))


def test_a_source_with_two_kinds_of_split_keeps_the_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: Any = {"enumerator": ChunksAndLog, "reader": KindsReader}
    check_enumerator(**kinds)
    check_reader(**kinds)
    monkeypatch.setattr(ChunksAndLog, "length", 3)
    check_source(**kinds, grow=lambda: setattr(ChunksAndLog, "length", ChunksAndLog.length + 1))


@dataclass(frozen=True)
class Lines:
    """The lines that end after position ``first`` of a log; each has 100 bytes."""

    split_id: str
    first: int = 0
    end: int | None = None

    @property
    def size(self) -> SplitSize:
        return SplitSize(files=0, bytes=None if self.end is None else self.end - self.first)


class TwoLogs(DiscoveringEnumerator[Lines]):
    """Two logs of a thousand bytes, whose windows are as long as the limits allow."""

    def discover(self, position: bool | None) -> Discovery[Lines, bool]:
        return Discovery([] if position else [Lines("a"), Lines("b")], True)

    def bound_split(self, split: Lines, budget: Budget) -> BoundedRange[Lines] | None:
        lines = 10 if budget.rows is None else budget.rows
        most = 100 * lines if budget.bytes is None else budget.bytes
        end = min(1000, split.first + most)
        if end <= split.first:
            return None
        return BoundedRange(read=replace(split, end=end), rest=replace(split, first=end))


class LineReader(SplitReader[Lines]):
    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema({"line": pa.string()})

    def read(self, split: Lines) -> Iterator[tuple[str]]:
        ends = range(100, 1001, 100)
        yield from ((f"{split.split_id}/{end}",) for end in ends if split.first < end <= (split.end or 0))


@pytest.mark.parametrize("fast", [False, True], ids=["thorough", "fast"])
def test_a_log_with_positions_in_bytes_is_not_read_byte_by_byte(fast: bool) -> None:
    check_source(enumerator=TwoLogs, reader=LineReader, fast=fast)


def test_every_law_of_sources_has_an_example_that_breaks_it() -> None:
    assert set(BROKEN) == set(laws()["source"])


def test_a_sound_source_keeps_the_laws() -> None:
    check_source(
        enumerator=Sound, reader=PieceReader, rows=EVERYTHING, grow=lambda: FOUND.append(f"z{len(FOUND)}")
    )


def test_missing_and_excess_rows_are_shown() -> None:
    with pytest.raises(LawBroken, match=r"6 instead of 7; missing: \(8,\), \(9,\); too many: \(6,\)"):
        check_source(enumerator=Sound, reader=PieceReader, rows=[*EVERYTHING[:-1], (8,), (9,)])


def test_one_row_or_one_batch_is_trivial_input() -> None:
    with pytest.raises(TrivialInput, match="gives 1 rows in 1 batches: give it a few splits"):
        check_source(literal_source({"a": [1]}))
    with pytest.raises(TrivialInput, match="gives 3 rows in 1 batches"):
        check_source(literal_source({"a": [1, 2, 3]}))


def test_a_source_of_one_split_gets_an_error_that_says_how_to_check_its_halves() -> None:
    source = literal_source({"a": [1, 2, 3]})
    with pytest.raises(TrivialInput, match="with check_source only"):
        check_enumerator(source)
    with pytest.raises(TrivialInput, match=r"by splits=\[\.\.\.\] if the enumerator assigns a single one"):
        check_reader(source)


def test_growth_without_rows_is_trivial_input() -> None:
    source = literal_source({"a": [1], "b": [2]})
    with pytest.raises(TrivialInput, match="add at least one at every call"):
        check_source(source, grow=lambda: None)


def test_literal_sources_keep_the_laws() -> None:
    source = literal_source({"a": [1, 2], "b": [3], "c": [4, 5, 6]})
    check_enumerator(source, grow=lambda: source.add("d", 7))
    check_reader(source)
    check_source(source, rows=source.rows, grow=lambda: source.add(f"e{len(source.rows)}", 8))


def test_paged_sources_keep_the_laws() -> None:
    source = paged_source({"a": [[1, 2], [3]], "b": [[4], [], [5, 6]], "c": [[7], END]})
    check_enumerator(source)
    check_reader(source)
    check_source(source, rows=source.rows, grow=lambda: source.add("a", [8], [9]))


@dataclass(frozen=True)
class Endpoint:
    split_id: str
    after: int = 0


class Endpoints(DiscoveringEnumerator[Endpoint]):
    def discover(self, position: bool | None) -> Discovery[Endpoint, bool]:
        return Discovery([] if position else [Endpoint("a"), Endpoint("b")], True)


class ReadsToTheNewest(YieldsProgress, SplitReader[Endpoint]):
    """Reads pages of two rows. When a batch is repeated, the last page may have become longer."""

    rows: ClassVar[dict[str, list[int]]] = {}

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema({"id": pa.int64()})

    def until(self, split: Endpoint) -> int | None:
        return None

    def read(self, split: Endpoint) -> Iterator[Any]:
        until = self.until(split)
        while page := self.rows[split.split_id][split.after : until][:2]:
            yield from ((row,) for row in page)
            split = replace(split, after=split.after + len(page))
            yield Progress(split)


class ReadsToTheEndOfTheFirstAttempt(ReadsToTheNewest):
    def until(self, split: Endpoint) -> int | None:
        end = self.context.end_positions.get(split.split_id)
        return end.after if end else None


@pytest.mark.slow
def test_a_reader_that_passes_the_end_of_the_first_attempt_in_a_grown_split_fails() -> None:
    def check(reader: type[ReadsToTheNewest]) -> None:
        ReadsToTheNewest.rows = {"a": [1, 2, 3], "b": [4]}
        check_source(enumerator=Endpoints, reader=reader, grow=lambda: reader.rows["a"].append(5))

    with pytest.raises(LawBroken, match=r"added rows are read exactly once\s+found: AttemptError"):
        check(ReadsToTheNewest)
    check(ReadsToTheEndOfTheFirstAttempt)


def test_linked_sources_keep_the_laws() -> None:
    source = linked_source({"a": [1, Link("b"), 2], "b": [3, Link("c"), Link("a")], "c": [4]})
    check_source(source, rows=source.rows)


class GivesBackOnce(Sound):
    """Records in a split that it was returned to the enumerator."""

    def add_splits_back(self, splits: Sequence[Piece], subtask_id: int) -> None:
        super().add_splits_back([replace(split, row=split.row + 1) for split in splits], subtask_id)


class ReturnsNewSplits(PieceReader):
    def read(self, split: Piece) -> Iterator[Any]:
        if split.row == 0 and split.split_id in "bd":
            raise ReturnSplit
        yield from super().read(split)


def test_returned_splits_are_read_once_whatever_happens() -> None:
    check_source(
        {"taskReports": "always"}, enumerator=GivesBackOnce, reader=ReturnsNewSplits, rows=EVERYTHING
    )


class AssignsUnasked(Sound):
    """Assigns splits as soon as they are found; those beyond the limits wait in the coordinator."""

    def handle_pieces(self, pieces: list[Piece] | None, error: BaseException | None) -> None:
        super().handle_pieces(pieces, error)
        for number, piece in enumerate(self.waiting):
            self.context.assign_split(piece, number % self.context.current_parallelism)
        self.waiting.clear()


def test_splits_that_wait_with_the_coordinator_are_read_once_whatever_happens() -> None:
    check_source(enumerator=AssignsUnasked, reader=PieceReader, rows=EVERYTHING)


@pytest.mark.parametrize("options", [{}, {"maxSplitAttempts": "1"}, {"maxFilesPerTrigger": "1"}])
def test_poison_is_quarantined_whatever_happens(options: dict[str, str]) -> None:
    source = literal_source(
        {"a": [1, 2], "b": [3, BOOM], "c": [4], "d": [5]}, onSplitError="quarantine", **options
    )
    check_source(source, rows=[(1,), (2,), (4,), (5,)])


def test_pages_before_poison_are_delivered_whatever_happens() -> None:
    source = paged_source({"a": [[1], [2]], "b": [[3], [BOOM], [4]]}, onSplitError="quarantine")
    check_source(source, rows=[(1,), (2,), (3,)])
