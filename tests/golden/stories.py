"""Small queries whose state is kept forever: what happens in each, and what it reads when it continues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa

from flip27_source import edits
from flip27_source.coordination.batch_limits import Limits
from flip27_source.driver.environment import Environment
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.readers.sequence import SequenceReader
from flip27_source.readers.text import TextReader
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.snapshots.store import LocalStore
from flip27_source.testing.inline_environment import inline_environment
from tests.driver.batches import Batches
from tests.driver.test_action_runner import Archives
from tests.driver.test_ranges_read_again import Numbers
from tests.driver.test_reports import SERVER, Endpoints, Flaky, Pages, Talker, Tells
from tests.toy_sources import EchoReader, Shelf

LANDING = "memory://golden/landing"
TWO = Limits(files=2)


class Query(Batches):
    """A query with its state in a folder. Every run of it stores the same."""

    def __init__(self, story: Story, state: Path, **more: str) -> None:
        self._state = state
        options = {**story.options, "stateLocation": str(state), "requestInterval": "0s", **more}
        super().__init__(story.enumerator, story.reader, options, store=LocalStore(str(state)))

    def environment(self) -> Environment:
        return inline_environment(now_ms=self.clock, steady_ms=self.steady_clock, new_random=lambda: "27" * 8)

    def batch(self, limits: Limits | None = None) -> list[Any] | None:
        self.now_ms += 1_000
        return super().batch(limits)

    def started_attempt(self, task: PlannedSubtask, number: int = 0) -> Iterator[Any]:
        for item in super().started_attempt(task, number):
            # An Arrow batch arrives as its only column.
            yield from item.to_pylist() if isinstance(item, pa.Array) else [item]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A query and what happens to it.

    Attributes:
        world: creates the data that the query reads, in its final state.
        play: runs batches, of which the last is committed.
        next_rows: the rows of the next batch after a restart, or in a fork.
    """

    enumerator: type[Any]
    reader: type[Any]
    options: Mapping[str, str] = field(default_factory=dict)
    world: Callable[[], None] = lambda: None
    play: Callable[[Query], None]
    next_rows: list[Any]


def landing(*names: str) -> None:
    """Create files in memory, each with its name as its only line."""
    files = fsspec.filesystem("memory")
    if files.exists("/golden"):
        files.rm("/golden", recursive=True)
    for name in names:
        files.pipe(f"/golden/landing/{name}", f"{name}\n".encode())


def _server(**rows: list[str]) -> None:
    SERVER.clear()
    SERVER.update(rows)


def _two_batches(query: Query) -> None:
    query.batch(TWO)
    query.batch(TWO)


def _shelves(*names: str) -> Callable[[Query], None]:
    def play(query: Query) -> None:
        query.shelve(*names)
        _two_batches(query)

    return play


def _quarantines(query: Query) -> None:
    Flaky.broken.clear()
    Flaky.broken["b"] = 1
    _shelves("a", "b", "c", "d", "e")(query)


LONG = ("b" * 9_000, "c" * 9_000)
"""Names of splits that together are stored outside the document when they are quarantined."""


def _quarantines_long_names(query: Query) -> None:
    Flaky.broken.clear()
    Flaky.broken.update(dict.fromkeys(LONG, 0))
    _shelves("a", *LONG, "d", "e", "f", "g")(query)
    query.batch(TWO)


def _retries_ranges(query: Query) -> None:
    """Two ranges of a split are quarantined, and the first of them is read again."""
    Numbers.broken = set(range(4))
    _two_batches(query)
    Numbers.broken = set()
    state = query.options["stateLocation"]
    edits.submit(edits.plan("quarantine retry", state=state, why="mended", splits=["sequence-0"]))
    query.restart()
    query.batch()


def _files(**options: str) -> Story:
    return Story(
        enumerator=FilesEnumerator,
        reader=TextReader,
        options={"path": LANDING, "fileOrder": "name", **options},
        world=lambda: landing("1", "2", "3", "4", "5"),
        play=_two_batches,
        next_rows=["5"],
    )


STORIES = {
    "files-exact": _files(),
    "files-name-cursor": _files(seenFiles="nameCursor"),
    "files-modified-cursor": _files(seenFiles="modifiedCursor", allowedLateness="365d"),
    "files-retained": _files(cleanSource="delete", **{"cleanSource.retentionDuration": "3650d"}),
    "sequence": Story(
        enumerator=SequenceEnumerator,
        reader=SequenceReader,
        options={"end": "9", "numSplits": "2", "rowsPerSplit": "2"},
        play=_two_batches,
        next_rows=["8"],
    ),
    "ranges": Story(
        enumerator=SequenceEnumerator,
        reader=Numbers,
        options={"end": "9", "rowsPerSplit": "2", "onSplitError": "quarantine", "maxSplitAttempts": "1"},
        play=_retries_ranges,
        next_rows=[2, 3],
    ),
    "pages": Story(
        enumerator=Endpoints,
        reader=Pages,
        options={"pollInterval": "0s", "maxRowsPerSplit": "2"},
        world=lambda: _server(orders=list("abcdef"), refunds=["x", "END"]),
        play=_two_batches,
        next_rows=["e", "f"],
    ),
    "events": Story(
        enumerator=Talker, reader=Tells, play=_shelves("a", "b", "c"), next_rows=["after-b", "after-c"]
    ),
    "actions": Story(
        enumerator=Archives, reader=EchoReader, play=_shelves("a", "b", "c", "d", "e"), next_rows=["e"]
    ),
    "quarantine": Story(
        enumerator=Shelf,
        reader=Flaky,
        options={"onSplitError": "quarantine"},
        play=_quarantines,
        next_rows=["e0", "e1", "e2"],
    ),
    "quarantine-blocks": Story(
        enumerator=Shelf,
        reader=Flaky,
        options={"onSplitError": "quarantine"},
        play=_quarantines_long_names,
        next_rows=["g0", "g1", "g2"],
    ),
}
