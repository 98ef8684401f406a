"""A source of partitions whose positions have names, and which dry runs can import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from flip27_source.enumerator import BoundedRange, Budget
from flip27_source.enumerator_mixins import NamedPosition, NamesPositions
from flip27_source.errors import EditError, SplitReadError
from flip27_source.reader import SplitReader
from flip27_source.source_progress import LooksIntoSource, ProgressTable, TellsProgress
from flip27_source.split import SplitSize
from tests.edits.edited import Edited
from tests.toy_sources import AssignsOnce

END, STEP = 90, 10
EARLIEST = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Numbers; ``next`` is below 0 until the source has looked where its end is."""

    split_id: str
    next: int = 0
    end: int | None = None

    @property
    def size(self) -> SplitSize:
        return SplitSize(files=0, rows=None if self.end is None else self.end - self.next)


class Partitions(NamesPositions, TellsProgress, AssignsOnce[Partition]):
    """Three partitions of 90 numbers, of which a batch reads ten."""

    def splits(self) -> list[Partition]:
        return [Partition(split_id=f"orders/{number}") for number in range(3)]

    @classmethod
    def fields_at(cls, position: NamedPosition) -> Mapping[str, Any]:
        if position.word not in ("earliest", "latest", None):
            raise EditError(f"{position.word} is no position", remedy="use earliest or latest")
        if position.timestamp_ms is not None:
            return {"next": position.timestamp_ms // 1000}
        return {"next": {"earliest": EARLIEST, "latest": -1}.get(position.word or "", position.offset)}

    @classmethod
    def rows_moved(cls, now: Mapping[str, Any], then: Mapping[str, Any]) -> int | None:
        return None if min(now["next"], then["next"]) < 0 else then["next"] - now["next"]

    @classmethod
    def progress(
        cls, state: Any, live: Sequence[Partition], numbers: Mapping[str, Any]
    ) -> Iterable[ProgressTable]:
        rows = [(split.split_id, split.next, END) for split in live]
        columns = ("partition", "position", "ends at")
        yield ProgressTable(title="partitions", said="", columns=columns, rows=rows)

    @classmethod
    def position_said(cls, fields: Mapping[str, Any]) -> str | None:
        return "the end" if fields["next"] < 0 else None

    def bound_split(self, split: Partition, budget: Budget) -> BoundedRange[Partition] | None:
        first = END if split.next < 0 else split.next
        last = min(END, first + STEP)
        if last == first:
            return None
        return BoundedRange(read=replace(split, next=first, end=last), rest=replace(split, next=last))


class Looked(LooksIntoSource, Partitions):
    """Tells where partitions begin and end if it is asked."""

    def look(self, live: Sequence[Partition]) -> Iterable[ProgressTable]:
        rows = [(split.split_id, 3, END) for split in live]
        yield ProgressTable(title="asked", said="", columns=("partition", "begins at", "ends at"), rows=rows)


class Numbers(SplitReader[Partition]):
    def read(self, split: Partition) -> Iterator[tuple[str, int]]:
        yield from ((split.split_id, number) for number in range(split.next, split.end or 0))


class Unreadable(Numbers):
    """Cannot read the first partition."""

    def read(self, split: Partition) -> Iterator[tuple[str, int]]:
        if split.split_id == "orders/0":
            raise SplitReadError("it is damaged", remedy="repair it")
        yield from Numbers.read(self, split)


def partitions(folder: Path, reader: type[Numbers] = Numbers, **options: str) -> Edited:
    """A query that has read one batch: 0 to 9 of each partition."""
    schema = pa.schema([("partition", pa.string()), ("number", pa.int64())])
    given = {"enumerator": f"{__name__}:Partitions", **options}
    source = Edited(folder, given, reader=reader, schema=schema)
    source.batch()
    return source


def read(source: Edited) -> dict[str, list[int]]:
    """The first and the last number that the next batch reads of each partition."""
    found: dict[str, list[int]] = {}
    for partition, number in getattr(source.engine.run_batch(), "rows", ()):
        found.setdefault(partition, []).append(number)
    return {partition: [min(numbers), max(numbers)] for partition, numbers in found.items()}
