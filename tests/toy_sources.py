"""Small enumerators and readers for tests of the coordinator, the documents and the runtime."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.coordination.batch_limits import UNLIMITED, Limits
from flip27_source.coordination.checkpoints import CheckpointMetadata, PendingCheckpoint, Snapshot
from flip27_source.coordination.context import CoordinatorSettings, Handler
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.horizon import SetsHorizon
from flip27_source.coordination.packing import Plan
from flip27_source.driver.environment import Environment
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator import SplitEnumerator
from flip27_source.enumerator_context import Boundedness, RetryPolicy
from flip27_source.events import ReturnSplit
from flip27_source.options import Option, Options, text
from flip27_source.reader import SplitReader
from flip27_source.readers.sequence import SequenceReader
from flip27_source.segment import Segment
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.offsets import INITIAL_OFFSET
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.snapshots.store import MemoryStore, Store
from flip27_source.source import Source
from flip27_source.split import SplitSize, SplitT

KIB = 1024
MIB = 1024 * 1024
INITIAL = INITIAL_OFFSET.to_json()


class AssignsOnce(SplitEnumerator[SplitT]):
    """Assigns all of its splits at the first request; its state is whether it has done so."""

    def __init__(self, context: Any, options: Options, state: bool | None = None) -> None:
        super().__init__(context, options, state)
        self.is_assigned = bool(state)

    def splits(self) -> Iterable[SplitT]:
        raise NotImplementedError

    def start(self) -> None:
        pass

    def handle_split_request(self, subtask_id: int) -> None:
        if not self.is_assigned:
            self.is_assigned = True
            for split in self.splits():
                self.context.assign_split(split)

    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        raise AssertionError("no split is returned")

    def snapshot_state(self, checkpoint_id: int) -> bool:
        return self.is_assigned


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A split of known size."""

    split_id: str
    files: int = 1
    rows: int | None = None
    bytes: int | None = None

    @property
    def size(self) -> SplitSize:
        return SplitSize(files=self.files, rows=self.rows, bytes=self.bytes)


def items(*names: str) -> list[Item]:
    return [Item(split_id=name) for name in names]


class Shelf(SplitEnumerator[Item]):
    """Assigns the splits that a test has put on its shelf, one for each request."""

    def __init__(self, context: Any, options: Options, state: list[Item] | None = None) -> None:
        super().__init__(context, options, state)
        self.shelf: deque[Item] = deque(state or ())
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def add_reader(self, subtask_id: int) -> None:
        self.calls.append(f"add_reader {subtask_id}")

    def handle_split_request(self, subtask_id: int) -> None:
        if self.shelf:
            self.context.assign_split(self.shelf.popleft())

    def add_splits_back(self, splits: Sequence[Item], subtask_id: int) -> None:
        self.shelf.extendleft(reversed(splits))

    def snapshot_state(self, checkpoint_id: int) -> list[Item]:
        return list(self.shelf)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.calls.append(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.calls.append(f"aborted {checkpoint_id}")

    def close(self) -> None:
        self.calls.append("close")


class AllAtOnce(Shelf):
    """Assigns all splits at the first request."""

    def handle_split_request(self, subtask_id: int) -> None:
        self.context.assign_splits({subtask_id: list(self.shelf)})
        self.shelf.clear()


class EchoReader(SplitReader[Any]):
    """Reads one row from each split: its id."""

    def read(self, split: Any) -> Iterator[tuple[Any, ...]]:
        yield (split.split_id,)


class Fragile(EchoReader):
    """Cannot read the splits in ``broken``, and returns those in ``busy``."""

    broken: ClassVar[set[str]] = set()
    busy: ClassVar[set[str]] = set()

    @classmethod
    def mend(cls) -> None:
        """Let it read all splits."""
        cls.broken, cls.busy = set(), set()

    def read(self, split: Any) -> Iterator[tuple[Any, ...]]:
        if split.split_id in self.broken:
            raise OSError("disk on fire")
        if split.split_id in self.busy:
            raise ReturnSplit("not now")
        yield from super().read(split)


class Works:
    """An AsyncRunner that runs submitted work when a test calls ``run``, on the caller's thread."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Callable[[], Any], Handler, float | None, RetryPolicy]] = []

    def submit(
        self, work: Callable[[], Any], handler: Handler, period_s: float | None, retry: RetryPolicy
    ) -> None:
        self.submitted.append((work, handler, period_s, retry))

    def run(self, coordinator: SourceCoordinator[Any]) -> None:
        """Run everything that was submitted once."""
        for work, handler, _, _ in list(self.submitted):
            coordinator.handle_result(handler, work(), None)


def coordinator_of(
    enumerator_type: type[SplitEnumerator[Any]] = Shelf,
    *,
    restored: Snapshot[Any] | None = None,
    parallelism: int = 2,
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED,
    options: Options | None = None,
    reader_type: type[SplitReader[Any]] = EchoReader,
    runner: Works | None = None,
    horizons: Sequence[SetsHorizon] = (),
    start: bool = True,
) -> SourceCoordinator[Any]:
    settings = CoordinatorSettings(
        boundedness=boundedness,
        parallelism=parallelism,
        max_partition_bytes=None,
        reader_type=reader_type,
        options=options or Options.parse({}, ()),
    )
    made: SourceCoordinator[Any] = SourceCoordinator(
        enumerator_type, settings, runner or Works(), restored, horizons=horizons
    )
    if start:
        made.start()
        # As CoordinatorHolder does: a restored checkpoint counts as complete.
        made.complete(made.last_checkpoint_id)
    return made


def freeze(coordinator: SourceCoordinator[Any], limits: Limits = UNLIMITED) -> PendingCheckpoint[Any] | None:
    """The next checkpoint; None when there is nothing to read."""
    metadata = CheckpointMetadata(checkpoint_id=coordinator.last_checkpoint_id + 1, timestamp_ms=0)
    return coordinator.checkpoint(metadata, limits)


def frozen(coordinator: SourceCoordinator[Any], limits: Limits = UNLIMITED) -> PendingCheckpoint[Any]:
    """The next checkpoint, which has something to read."""
    pending = freeze(coordinator, limits)
    assert pending is not None
    return pending


def plan_ids(plan: Plan[Any]) -> dict[int, list[str]]:
    return {item.subtask_id: [split.split_id for split in item.splits] for item in plan.assignments}


def all_ids(plan: Plan[Any]) -> list[str]:
    return sorted(name for names in plan_ids(plan).values() for name in names)


FEEDS: dict[str, list[Item]] = {}
"""The items of the running tests' feeds, by the option ``feed``."""

FEED: Option[str] = Option(name="feed", parse=text, default="", doc="Which feed of FEEDS.")


class Feed(SplitEnumerator[Item]):
    """Assigns the items of a list that tests append to; its state is the number of items taken."""

    options: ClassVar[tuple[Option[Any], ...]] = (FEED,)

    def __init__(self, context: Any, options: Options, state: int | None = None) -> None:
        super().__init__(context, options, state)
        self.feed = FEEDS[options[FEED]]
        self.taken = state or 0

    def start(self) -> None:
        pass

    def handle_split_request(self, subtask_id: int) -> None:
        if self.taken < len(self.feed):
            self.context.assign_split(self.feed[self.taken])
            self.taken += 1

    def add_splits_back(self, splits: Sequence[Item], subtask_id: int) -> None:
        raise AssertionError("no split is returned")

    def snapshot_state(self, checkpoint_id: int) -> int:
        return self.taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """State with bulk data: the number of items taken, and one segment for each of the ten newest items."""

    taken: int
    marks: tuple[Segment, ...]


class BulkFeed(Feed):
    """A feed that keeps 8 KiB of bulk state for each of the ten newest items."""

    def __init__(self, context: Any, options: Options, state: Bulk | None = None) -> None:
        super().__init__(context, options, None if state is None else state.taken)
        self.marks = {s.name: s for s in (() if state is None else state.marks)}
        self.order = list(self.marks)

    def snapshot_state(self, checkpoint_id: int) -> Bulk:  # type: ignore[override]
        newest = range(max(0, self.taken - 10), self.taken)
        marks = tuple(Segment.of("mark", index.to_bytes(8, "big") * KIB) for index in newest)
        return Bulk(taken=self.taken, marks=marks)


def source_of(
    enumerator: type[SplitEnumerator[Any]] | None,
    options: Mapping[str, str],
    reader: type[SplitReader[Any]] | None = EchoReader,
) -> Source:
    return Source.resolve(options, enumerator=enumerator, reader=reader)


def holder_of(
    source: Source,
    store: Store | None = None,
    *,
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED,
    cores: int = 2,
) -> CoordinatorHolder:
    """A holder whose clock does not advance."""
    return CoordinatorHolder(
        source, boundedness, store=store, environment=Environment(now_ms=lambda: 0, cores=cores)
    )


def planned_splits(source: Source, planned: Sequence[PlannedSubtask]) -> list[Any]:
    """The splits of a batch, in the order of the plan."""
    codec = SnapshotCodec(source.enumerator_type)
    return [
        split
        for task in planned
        for split in codec.decode_splits(task.split_version, Segment("splits", data=task.splits))
    ]


def read_ids(source: Source, planned: Sequence[PlannedSubtask]) -> list[str]:
    """The ids of these splits."""
    return [split.split_id for split in planned_splits(source, planned)]


class CountingStore(MemoryStore):
    """A store in memory that counts its calls, and records what was created and how large it was."""

    def __init__(self) -> None:
        super().__init__()
        self.created: list[tuple[str, int]] = []
        self.calls = 0

    def read(self, name: str, limit: int | None = None) -> bytes:
        self.calls += 1
        return super().read(name, limit)

    def create(self, name: str, data: bytes) -> bool:
        self.calls += 1
        self.created.append((name, len(data)))
        return super().create(name, data)

    def list(self, folder: str) -> list[str]:
        self.calls += 1
        return super().list(folder)


def within(seconds: float, work: Callable[[], Any]) -> bool:
    """Whether ``work``, run on a separate thread, ends within the time limit; only failing tests reach it."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


LINES = pa.schema([pa.field("value", pa.string())])


class NumbersAsLines(SequenceReader):
    """Reads numbers as the lines that files have."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return LINES

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        for batch in super().read(split):
            yield pa.RecordBatch.from_arrays([batch.column(0).cast(pa.string())], schema=LINES)
