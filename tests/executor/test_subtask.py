"""A subtask: the splits of one task, read in order, with errors that name them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from flip27_source.contract_version import contract_version
from flip27_source.errors import ContractError, IncompatibleStateError, SchemaError, SplitReadError
from flip27_source.events import Progress, ReturnSplit, SourceEvent
from flip27_source.executor.subtask import read_subtask
from flip27_source.reader import ReadsTogether, SourceReaderContext, SplitReader, YieldsProgress
from flip27_source.segment import Segment
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from tests.toy_sources import EchoReader, Item, Shelf, items, source_of

SCHEMA = pa.schema([("id", pa.string())])


def planned(*names: str, contract: str | None = None, version: int = 1) -> PlannedSubtask:
    return PlannedSubtask(
        contract=contract or contract_version(),
        checkpoint_id=3,
        subtask_id=1,
        split_version=version,
        splits=Segment.of_values("plan", items(*names)).data,
    )


def rows(
    reader: type[SplitReader[Any]], *names: str, enumerator: type[Shelf] = Shelf, **changes: Any
) -> list[Any]:
    source = source_of(enumerator, {}, reader)
    context = SourceReaderContext(options=source.options, schema=SCHEMA, subtask_id=1, checkpoint_id=3)
    return list(read_subtask(source, planned(*names, **changes), context))


@dataclass(frozen=True, slots=True)
class Saw(SourceEvent):
    name: str


class Recording(EchoReader):
    """Records every call in ``calls``."""

    calls: ClassVar[list[str]] = []

    def open(self, context: SourceReaderContext) -> None:
        super().open(context)
        self.calls.append(f"open {context.subtask_id} of {context.checkpoint_id}")

    def read(self, split: Item) -> Iterator[tuple[Any, ...]]:
        self.calls.append(f"read {split.split_id}")
        if split.split_id.startswith("bad"):
            raise OSError("disk on fire")
        yield (split.split_id,)

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Recording.calls.clear()


def test_splits_are_read_in_the_order_of_the_plan_between_open_and_close() -> None:
    assert rows(Recording, "b", "a") == [("b",), ("a",)]
    assert Recording.calls == ["open 1 of 3", "read b", "read a", "close"]


def test_an_error_names_the_split_and_the_cause_and_closes_the_reader() -> None:
    with pytest.raises(SplitReadError, match="reading split 'bad' failed: OSError: disk on fire") as caught:
        rows(Recording, "a", "bad", "b")
    assert isinstance(caught.value.__cause__, OSError)
    assert "no row of it was delivered" in str(caught.value)
    assert Recording.calls[-2:] == ["read bad", "close"]


class Refuses(Recording):
    """Fails in the calls in ``failing``."""

    failing: ClassVar[set[str]] = set()

    def open(self, context: SourceReaderContext) -> None:
        super().open(context)
        self.fail("open")

    def close(self) -> None:
        super().close()
        self.fail("close")

    def fail(self, call: str) -> None:
        if call in self.failing:
            raise ConnectionRefusedError(f"{call} is refused")


@pytest.mark.parametrize(
    ("failing", "split", "said"),
    [
        ("open", "a", "starting reader Refuses failed: .*open is refused"),
        ("close", "a", "closing reader Refuses failed: .*close is refused"),
        ("close", "bad", "reading split 'bad' failed: OSError: disk on fire"),
    ],
)
def test_an_error_of_open_or_close_is_named_and_hides_no_other(
    failing: str, split: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refuses, "failing", {failing})
    with pytest.raises(SplitReadError, match=said):
        rows(Refuses, split)


def test_an_error_names_the_split_even_if_read_is_not_a_generator() -> None:
    class Plain(EchoReader):
        def read(self, split: Item) -> Iterator[tuple[Any, ...]]:
            raise OSError("no such object")

    with pytest.raises(SplitReadError, match="reading split 'a' failed: OSError: no such object"):
        rows(Plain, "a")


def test_library_errors_are_not_wrapped_again() -> None:
    class Own(EchoReader):
        def read(self, split: Item) -> Iterator[tuple[Any, ...]]:
            raise SplitReadError("mine")
            yield ()

    with pytest.raises(SplitReadError, match=r"^mine$"):
        rows(Own, "a")


def test_a_reader_whose_rows_are_not_read_to_the_end_is_closed() -> None:
    """A LIMIT, for example, takes only the first rows."""
    source = source_of(Shelf, {}, Recording)
    context = SourceReaderContext(options=source.options, schema=SCHEMA)
    reading = read_subtask(source, planned("a", "b"), context)
    assert next(reading) == ("a",)
    assert isinstance(reading, Iterator)
    reading.close()  # type: ignore[attr-defined]
    assert Recording.calls == ["open 0 of 0", "read a", "close"]


def test_a_batch_of_another_shape_is_a_schema_error() -> None:
    class Wrong(EchoReader):
        def read(self, split: Item) -> Iterator[Any]:
            yield pa.RecordBatch.from_arrays([pa.array([1])], names=["other"])

    with pytest.raises(SchemaError, match="has no column 'id'"):
        rows(Wrong, "a")


class Together(EchoReader, ReadsTogether[Item]):
    def read_together(self, splits: Sequence[Item]) -> Iterator[Any]:
        yield ("+".join(split.split_id for split in splits),)
        if splits[0].split_id == "bad":
            raise OSError("all of them")


def test_a_reader_that_supports_it_is_given_all_splits_at_once() -> None:
    assert rows(Together, "a", "b", "c") == [("a+b+c",)]


def test_a_reader_of_many_splits_together_cannot_return_one_of_them() -> None:
    class Busy(Together):
        def read_together(self, splits: Sequence[Item]) -> Iterator[Any]:
            raise ReturnSplit("busy")
            yield ()

    with pytest.raises(ContractError, match=r"\(busy\)(?s:.*)without ReadsTogether"):
        rows(Busy, "a", "b")


def test_an_error_in_many_splits_names_the_first_and_counts_the_rest() -> None:
    with pytest.raises(SplitReadError, match="reading split 'bad', 'b', 'c' and 2 more failed"):
        rows(Together, "bad", "b", "c", "d", "e")


def test_a_reader_that_yields_progress_has_to_declare_it_in_its_class() -> None:
    class Paged(EchoReader):
        def read(self, split: Item) -> Iterator[Any]:
            yield (split.split_id,)
            yield Progress(split)

    with pytest.raises(ContractError, match="Paged yielded Progress, but is not a YieldsProgress"):
        rows(Paged, "a")


def test_without_a_report_a_paged_split_is_read_to_its_end() -> None:
    class Paged(YieldsProgress, EchoReader):
        def read(self, split: Item) -> Iterator[Any]:
            yield (f"{split.split_id}-1",)
            yield Progress(split)
            yield (f"{split.split_id}-2",)
            yield Progress(None)

    assert rows(Paged, "a", "b") == [("a-1",), ("a-2",), ("b-1",), ("b-2",)]


def test_in_a_batch_read_events_are_checked_and_not_delivered() -> None:
    class Tells(EchoReader):
        def read(self, split: Item) -> Iterator[Any]:
            self.context.send_event_to_coordinator(Saw(split.split_id))
            yield from super().read(split)

    class Hears(Shelf):
        def handle_source_event(self, subtask_id: int, event: Saw) -> None:
            raise AssertionError("a batch read delivers no events")

    assert rows(Tells, "a", "b", enumerator=Hears) == [("a",), ("b",)]
    with pytest.raises(ContractError, match="Shelf takes no Saw"):
        rows(Tells, "a")


def test_an_executor_of_another_version_refuses_to_read() -> None:
    with pytest.raises(IncompatibleStateError, match=r"the driver has flip27-source 9\.9\.9\+0") as caught:
        rows(EchoReader, "a", contract="9.9.9+0")
    assert f"has {contract_version()} in " in str(caught.value)
    assert "install the same build" in str(caught.value)


def test_splits_of_newer_author_code_are_refused() -> None:
    with pytest.raises(IncompatibleStateError, match="version 2"):
        rows(EchoReader, "a", version=2)


def test_a_planned_subtask_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(planned("a", "b"))) == planned("a", "b")
