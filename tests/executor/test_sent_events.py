"""Events of a split that is read more than once arrive once, and those of a split that is given up never."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.errors import SplitReadError
from flip27_source.events import Progress, SourceEvent
from flip27_source.reader import ReadsTogether, SplitReader, YieldsProgress
from flip27_source.split import SplitSize
from tests.driver.batches import Batches

FAILURES: dict[str, int] = {}
"""How often each split fails after its first two rows."""


@dataclass(frozen=True, slots=True)
class Saw(SourceEvent):
    row: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    split_id: str
    next: int = 0

    @property
    def size(self) -> SplitSize:
        return SplitSize(bytes=10)


class Listens(DiscoveringEnumerator[Letters]):
    """Discovers the splits of ``names`` once, and records the events of its readers."""

    names: ClassVar[list[str]] = []
    heard: ClassVar[list[str]] = []

    def discover(self, position: int | None) -> Discovery[Letters, int]:
        new = self.names[position or 0 :]
        return Discovery([Letters(split_id=name) for name in new], len(self.names))

    def handle_source_event(self, subtask_id: int, event: Saw) -> None:
        self.heard.append(event.row)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    FAILURES.clear()
    Listens.heard.clear()


class Tells(SplitReader[Letters]):
    """Reads four rows from each split and sends an event before each row."""

    def read(self, split: Letters) -> Iterator[Any]:
        for number in range(split.next, 4):
            if number == 2 and FAILURES.get(split.split_id, 0) > 0:
                FAILURES[split.split_id] -= 1
                raise OSError("connection reset")
            row = f"{split.split_id}{number}"
            self.context.send_event_to_coordinator(Saw(row))
            yield (row,)


class TellsTogether(ReadsTogether[Letters], Tells):
    def read_together(self, splits: Sequence[Letters]) -> Iterator[Any]:
        for split in splits:
            yield from self.read(split)


class TellsByPage(YieldsProgress, Tells):
    """As ``Tells``, with a Progress after the first row and after the last one."""

    def read(self, split: Letters) -> Iterator[Any]:
        for number, row in enumerate(super().read(split), split.next):
            yield row
            if number == 0:
                yield Progress(replace(split, next=1))
        yield Progress(None)


def batches_of(reader: type[SplitReader[Any]], *names: str, **options: str) -> Batches:
    Listens.names[:] = names
    return Batches(Listens, reader, {"onSplitError": "quarantine", "parallelism": "1", **options})


def heard_after(batches: Batches) -> list[str]:
    """The events that have arrived once the batch is complete."""
    batches.trigger()
    return Listens.heard


def rows_of(*names: str) -> list[str]:
    return [f"{name}{number}" for name in names for number in range(4)]


@pytest.mark.parametrize("reader", [Tells, TellsTogether])
@pytest.mark.parametrize(("failures", "delivered"), [(1, "abc"), (99, "ac")], ids=["repeated", "quarantined"])
def test_events_arrive_once_with_the_rows_of_their_split(
    reader: type[SplitReader[Any]], failures: int, delivered: str
) -> None:
    FAILURES["b"] = failures
    batches = batches_of(reader, "a", "b", "c")
    assert batches.batch() == rows_of(*delivered)
    assert heard_after(batches) == rows_of(*delivered)


def test_events_of_a_large_split_that_is_read_twice_arrive_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flip27_source.executor.quarantine.BUFFERED_BYTES", 1)
    FAILURES["b"] = 1
    batches = batches_of(Tells, "a", "b")
    task = batches.next_task()
    with pytest.raises(SplitReadError):
        batches.attempt(task)
    assert batches.attempt(task, number=1) == rows_of("a", "b")
    batches.commit()
    assert heard_after(batches) == rows_of("a", "b")


def test_of_a_paged_split_that_fails_only_the_events_before_its_last_progress_arrive() -> None:
    FAILURES["a"] = 1
    batches = batches_of(TellsByPage, "a", pollInterval="0s")
    assert batches.batch() == ["a0"]
    assert batches.batch() == ["a1", "a2", "a3"]
    assert heard_after(batches) == rows_of("a")
