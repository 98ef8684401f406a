"""Readers with one defect each, by the law that they break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.events import Progress
from flip27_source.options import Options
from flip27_source.reader import ReadsRanges, ReadsTogether, SourceReaderContext, SplitReader, YieldsProgress
from tests.testing.broken_enumerators import Piece

ROWS = {"a": [1, 2], "b": [3], "c": [4, 5], "d": [6]}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
PIECES = [Piece(split_id=name) for name in "abc"]


class PieceReader(SplitReader[Piece]):
    """A correct reader, of the rows in ROWS."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return SCHEMA

    def read(self, split: Piece) -> Iterator[Any]:
        for row in ROWS.get(split.split_id, [7]):
            yield (row,)


class GivesTwoColumns(PieceReader):
    def read(self, split: Piece) -> Iterator[Any]:
        for row in super().read(split):
            yield (*row, "more")


class NeverEnds(PieceReader):
    def read(self, split: Piece) -> Iterator[Any]:
        while True:
            yield pa.record_batch([range(10_000)], schema=SCHEMA)


def gives(*items: Any) -> type[PieceReader]:
    """A reader that yields these for every split."""

    class Gives(PieceReader):
        def read(self, split: Piece) -> Iterator[Any]:
            yield from items

    return Gives


MISFITS = {
    "no end": NeverEnds,
    "two columns": GivesTwoColumns,
    "nulls": gives((None,)),
    "fractions": gives((1.5,)),
    "texts": gives(("1",)),
    "rows and batches": gives((1,), pa.RecordBatch.from_pydict({"id": [2]})),
    "another column": gives(pa.RecordBatch.from_pydict({"name": [2]})),
    "numbers": gives(1, 2),
}


class TakesWhatItReads(PieceReader):
    taken: ClassVar[set[str]] = set()

    def read(self, split: Piece) -> Iterator[Any]:
        if split.split_id not in self.taken:
            self.taken.add(split.split_id)
            yield from super().read(split)


class GivesLessToLaterAttempts(PieceReader):
    def read(self, split: Piece) -> Iterator[Any]:
        yield from list(super().read(split))[: None if self.context.attempt_number == 0 else 1]


class LooksAtTheSplitBefore(PieceReader):
    before: str = ""

    def read(self, split: Piece) -> Iterator[Any]:
        if self.before <= split.split_id:
            yield from super().read(split)
        self.before = split.split_id


class LooksAtTheTypeOfATuple(PieceReader):
    """A correct reader, but its splits contain tuples, which JSON changes."""


class LeavesItsDoorOpen(PieceReader):
    is_open: ClassVar[bool] = False

    def read(self, split: Piece) -> Iterator[Any]:
        assert not LeavesItsDoorOpen.is_open, "somebody else is reading"
        LeavesItsDoorOpen.is_open = True
        yield from super().read(split)
        LeavesItsDoorOpen.is_open = False


class EndsAtAnError(PieceReader):
    def read(self, split: Piece) -> Iterator[Any]:
        try:
            yield from super().read(split)
        except OSError:
            return


class SetsAsideUnderItsOwnName(PieceReader):
    @classmethod
    def quarantines(cls, options: Options) -> bool:
        return True

    def read(self, split: Piece) -> Iterator[Any]:
        yield from super().read(split)
        self.context.quarantine(split, error="bad", split_id=split.split_id)


class MarksUnasked(PieceReader):
    def read(self, split: Piece) -> Iterator[Any]:
        yield from super().read(split)
        yield Progress(None)


class LosesTheLastTogether(PieceReader, ReadsTogether[Piece]):
    def read_together(self, splits: Sequence[Piece]) -> Iterator[Any]:
        for split in splits[: max(1, len(splits) - 1)]:
            yield from super().read(split)


class CutsLines(SplitReader[FileSplit], ReadsRanges):
    """Reads only the lines that are completely inside a range, so that those across its bounds are lost."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema([pa.field("line", pa.string())])

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        return True

    def read(self, split: FileSplit) -> Iterator[Any]:
        at = 0
        for line in Path(split.path).read_bytes().splitlines(keepends=True):
            begins, at = at, at + len(line)
            if begins >= split.start and (split.end is None or at <= split.end):
                yield (line.decode().rstrip(),)


PAGES = {"a": [[1, 2], [3], [4, 5]], "b": [[6], [7, 8]], "c": [[9]]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """A split that is read from ``page`` on."""

    split_id: str
    page: int = 0
    extra: Any = None


ALL_PAGES = [Pages(split_id=name) for name in PAGES]


class PageReader(YieldsProgress, SplitReader[Pages]):
    """A correct reader, of the pages in PAGES."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return SCHEMA

    def read(self, split: Pages) -> Iterator[Any]:
        pages = PAGES[split.split_id]
        for page in range(split.page, len(pages)):
            for row in pages[page]:
                yield (row,)
            yield from self.marks(split, page + 1)

    def marks(self, split: Pages, page: int) -> Iterator[Any]:
        """What the reader yields after the page before ``page``."""
        yield Progress(replace(split, page=page))


class ForgetsTheLastMark(PageReader):
    def marks(self, split: Pages, page: int) -> Iterator[Any]:
        if page < len(PAGES[split.split_id]):
            yield from super().marks(split, page)


class StaysWhereItIs(PageReader):
    def marks(self, split: Pages, page: int) -> Iterator[Any]:
        yield Progress(split)


class RenamesItself(PageReader):
    def marks(self, split: Pages, page: int) -> Iterator[Any]:
        yield Progress(replace(split, split_id=f"{split.split_id}#{page}"))


class SaysTuples(PageReader):
    def marks(self, split: Pages, page: int) -> Iterator[Any]:
        yield Progress(replace(split, page=page, extra=(page, page)))


class IsOnePageBehind(PageReader):
    def marks(self, split: Pages, page: int) -> Iterator[Any]:
        yield Progress(replace(split, page=page, extra="read"))

    def read(self, split: Pages) -> Iterator[Any]:
        yield from super().read(split if split.extra is None else replace(split, page=split.page - 1))


class JumpsAfterAResume(PageReader):
    """Yields the last position first after a resume; if the batch ends there, the pages between are lost."""

    def read(self, split: Pages) -> Iterator[Any]:
        self.resumed_at = split.page
        yield from super().read(split)

    def marks(self, split: Pages, page: int) -> Iterator[Any]:
        jumps = split.page > 0 and page == split.page + 1
        yield Progress(replace(split, page=len(PAGES[split.split_id]) if jumps else page))


class EndsReplaysEarly(PageReader):
    def open(self, context: SourceReaderContext) -> None:
        super().open(context)
        self.ends = {name: end.page - 1 for name, end in context.end_positions.items()}

    def read(self, split: Pages) -> Iterator[Any]:
        end = self.ends.get(split.split_id, 0)
        for item in super().read(split):
            yield item
            if isinstance(item, Progress) and item.split is not None and item.split.page == end:
                return


BROKEN_READERS: dict[str, type[SplitReader[Any]]] = {
    "reading a split ends, and its rows fit the schema": GivesTwoColumns,
    "reading a split again gives the same rows (S70)": TakesWhatItReads,
    "every attempt gives the same rows": GivesLessToLaterAttempts,
    "other splits do not change the rows of a split": LooksAtTheSplitBefore,
    "a stored split is read like the original": LooksAtTheTypeOfATuple,
    "a reader may be abandoned halfway": LeavesItsDoorOpen,
    "an error while reading is not taken for the end of a split (R12)": EndsAtAnError,
    "a quarantined part is a separate split, and is quarantined again (R5)": SetsAsideUnderItsOwnName,
    "a reader that yields Progress declares it in its class": MarksUnasked,
    "splits read together give the same rows as one by one": LosesTheLastTogether,
    "the ranges of a file give the rows of the file": CutsLines,
    "every row is covered by a Progress": ForgetsTheLastMark,
    "a Progress keeps the split_id and advances after rows": StaysWhereItIs,
    "a stored position equals the original": SaysTuples,
    "reading continues from every Progress without loss or duplicates": IsOnePageBehind,
    "reading page by page gives the same rows as reading at once": JumpsAfterAResume,
    "a replay ends where the first attempt ended (R5)": EndsReplaysEarly,
}
