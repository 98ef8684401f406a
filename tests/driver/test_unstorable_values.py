"""Values that could not be restored from their stored form are refused by the call that passes them in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.enumerator import BoundedRange, Budget, SplitEnumerator
from flip27_source.enumerator_mixins import PerformsActions
from flip27_source.errors import ContractError
from flip27_source.events import Progress, SourceEvent
from flip27_source.reader import SplitReader, YieldsProgress
from flip27_source.snapshots.store import MemoryStore
from flip27_source.split import SplitSize
from flip27_source.testing import MicroBatchEngine
from tests.driver.batches import SCHEMA
from tests.toy_sources import EchoReader

NAN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A split with a name and a position."""

    split_id: str
    next: int | None = None


def engine_of(
    enumerator: type[SplitEnumerator[Any]], reader: type[SplitReader[Any]] = EchoReader
) -> MicroBatchEngine:
    return MicroBatchEngine(enumerator=enumerator, reader=reader, schema=SCHEMA, store=MemoryStore())


def checkpoints_in(engine: MicroBatchEngine) -> list[str]:
    assert isinstance(engine.store, MemoryStore)
    return [name for name in engine.store.files if "/checkpoints/" in name]


class Finds(DiscoveringEnumerator[Part]):
    """Returns the discovery that the test has set."""

    found: ClassVar[Any] = None
    asked: ClassVar[int] = 0

    def discover(self, position: int | None) -> Discovery[Part, int | None]:
        type(self).asked += 1
        return self.found  # type: ignore[no-any-return]


def finding(found: Any) -> type[Finds]:
    return type("Finds", (Finds,), {"found": found, "asked": 0})


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (Discovery([Part(split_id="a")], NAN), r"position .*\$ is nan"),
        (Discovery([Part(split_id="a")], "7"), r"position .*Expected `int \| null`, got `str`"),
        (Discovery([Part(split_id="a")], True), r"position .*Expected `int \| null`, got `bool`"),
        (Discovery([Part(split_id=5)], 1), r"split .*`str`, got `int` - at `\$\.split_id`"),  # type: ignore[arg-type]
        (Discovery([Part(split_id="a", next=NAN)], 1), r"split .*\$\.next is nan"),  # type: ignore[arg-type]
        (Discovery([Part(split_id="a", next=1.0)], 1), r"split .*`float` - at `\$\.next`"),  # type: ignore[arg-type]
        (Discovery([Part(split_id="a\udcff")], 1), r"split .*\$\.split_id is 'a\\udcff'"),
        (Discovery(["a"], 1), r"split .*'a'"),
        (Discovery(7, 1), "whose splits cannot be iterated"),  # type: ignore[arg-type]
        (Discovery("ab", 1), r"split .*'a'"),
        ([Part(split_id="a")], r"discover of .*Finds returned a list"),
        (None, r"discover of .*Finds returned a NoneType"),
        (([], 1), r"discover of .*Finds returned a tuple"),
    ],
)
def test_a_discovery_that_cannot_be_stored_is_refused_at_once_and_nothing_is_written(
    found: Any, named: str
) -> None:
    finds = finding(found)
    engine = engine_of(finds)
    with pytest.raises(ContractError, match=named):
        engine.run_batch()
    assert finds.asked == 1  # not retried: a retry cannot help
    assert checkpoints_in(engine) == []


def test_a_discovery_without_a_position_is_refused_at_once() -> None:
    class Forgets(DiscoveringEnumerator[Part]):
        asked: ClassVar[int] = 0

        def discover(self, position: int | None) -> Discovery[Part, int]:
            type(self).asked += 1
            return Discovery([Part(split_id="a")])  # type: ignore[call-arg]

    engine = engine_of(Forgets)
    with pytest.raises(ContractError, match="position"):
        engine.run_batch()
    assert Forgets.asked == 1


class Hands(SplitEnumerator[Part]):
    """Assigns the split that the test has set once; the state counts the splits that were assigned."""

    split: ClassVar[Any] = Part(split_id="a")
    state: ClassVar[Any] = None

    def __init__(self, context: Any, options: Any, state: int | None = None) -> None:
        super().__init__(context, options, state)
        self.handed_out = state or 0

    def start(self) -> None:
        pass

    def handle_split_request(self, subtask_id: int) -> None:
        if not self.handed_out:
            self.context.assign_split(self.split)
            self.handed_out += 1

    def add_splits_back(self, splits: Sequence[Part], subtask_id: int) -> None:
        self.handed_out = 0

    def snapshot_state(self, checkpoint_id: int) -> int | None:
        return self.handed_out if self.state is None else self.state  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class Longer(Part):
    more: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LikeAPart:
    split_id: str
    next: int | None = None


@pytest.mark.parametrize(
    ("split", "named"),
    [
        (Part(split_id=5), r"`str`, got `int` - at `\$\.split_id`"),  # type: ignore[arg-type]
        (Part(split_id="a", next=NAN), r"\$\.next is nan"),  # type: ignore[arg-type]
        (Part(split_id="a", next=True), r"got `bool` - at `\$\.next`"),
        (Part(split_id="a", next=10**5000), r"\$\.next"),
        (Longer(split_id="a"), r"a Longer, and would be restored as .*, a Part"),
        (LikeAPart(split_id="a"), r"a LikeAPart, and would be restored as .*, a Part"),
        ({"split_id": "a"}, "a dict, and would be restored as .*, a Part"),
        ("a", "Expected `object`, got `str`"),
        (None, "Expected `object`, got `null`"),
    ],
)
def test_a_split_that_cannot_be_stored_is_refused_by_assign_split(split: Any, named: str) -> None:
    engine = engine_of(type("Hands", (Hands,), {"split": split}))
    with pytest.raises(ContractError, match=f"a split of Hands cannot be stored.*{named}") as caught:
        engine.run_batch()
    assert "assign_split" in [entry.name for entry in caught.traceback]
    assert checkpoints_in(engine) == []


def test_a_corrected_class_continues_where_the_query_stopped() -> None:
    class Mendable(Hands):
        split: ClassVar[Any] = Part(split_id=5)  # type: ignore[arg-type]

    engine = engine_of(Mendable)
    with pytest.raises(ContractError):
        engine.run_batch()
    Mendable.split = Part(split_id="5")
    engine.restart()
    engine.process_all_available()
    assert engine.rows == [("5",)]


@dataclass(frozen=True, slots=True)
class Numbered:
    """A split whose id is computed."""

    number: int
    as_character: bool = False

    @property
    def split_id(self) -> Any:
        return chr(self.number) if self.as_character else self.number


@pytest.mark.parametrize(
    ("split", "named"),
    [(Numbered(7), r"split_id is 7"), (Numbered(0xD800, as_character=True), r"split_id is '\\ud800'")],
)
def test_a_computed_id_that_is_not_text_is_refused(split: Any, named: str) -> None:
    engine = engine_of(type("Hands", (Hands,), {"split": split, "split_type": Numbered}))
    with pytest.raises(ContractError, match=named):
        engine.run_batch()


@pytest.mark.parametrize(
    ("size", "named"),
    [
        (SplitSize(bytes=NAN), "bytes=nan"),  # type: ignore[arg-type]
        (SplitSize(rows=-1), "rows=-1"),
        (SplitSize(files=1.5), "files=1.5"),  # type: ignore[arg-type]
    ],
)
def test_a_size_that_is_not_a_count_is_refused(size: SplitSize, named: str) -> None:
    @dataclass(frozen=True, slots=True)
    class Sized:
        split_id: str

        @property
        def size(self) -> SplitSize:
            return size

    engine = engine_of(type("Hands", (Hands,), {"split": Sized("a"), "split_type": Sized}))
    with pytest.raises(ContractError, match=f"size of split 'a'.*{named}"):
        engine.run_batch()


@pytest.mark.parametrize(
    ("state", "named"), [(NAN, "is nan"), ("3", "got `str`"), (True, "got `bool`"), (2.0, "got `float`")]
)
def test_a_state_that_cannot_be_restored_is_refused_before_it_is_written(state: Any, named: str) -> None:
    engine = engine_of(type("Hands", (Hands,), {"state": state}))
    with pytest.raises(ContractError, match=f"the state of Hands cannot be stored.*{named}"):
        engine.run_batch()
    assert checkpoints_in(engine) == []


class Cuts(Hands):
    """Cuts its split into the range that the test has set."""

    cut: ClassVar[Any] = None

    def bound_split(self, split: Part, budget: Budget) -> BoundedRange[Part] | None:
        return self.cut  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("cut", "named"),
    [
        (BoundedRange(read=Part(split_id="a", next=NAN), rest=None), r"\$\.next is nan"),  # type: ignore[arg-type]
        (
            BoundedRange(read=Part(split_id="a-1"), rest=Part(split_id="a", next=NAN)),  # type: ignore[arg-type]
            r"\$\.next is nan",
        ),
        (Part(split_id="a"), "bound_split of Cuts returned a Part"),
    ],
)
def test_a_range_that_cannot_be_stored_is_refused(cut: Any, named: str) -> None:
    engine = engine_of(type("Cuts", (Cuts,), {"cut": cut}))
    with pytest.raises(ContractError, match=named):
        engine.run_batch()
    assert checkpoints_in(engine) == []


@dataclass(frozen=True, slots=True)
class Hint(SourceEvent):
    level: int | None


class Hears(EchoReader):
    def handle_source_event(self, event: Hint) -> None:
        pass


@pytest.mark.parametrize(("level", "named"), [(NAN, r"\$\.level is nan"), ("9", r"at `\$\.level`")])
def test_an_event_to_a_reader_that_cannot_be_stored_is_refused_by_the_call(level: Any, named: str) -> None:
    class Sends(Hands):
        def start(self) -> None:
            self.context.send_event_to_reader(0, Hint(level))

    with pytest.raises(ContractError, match=named) as caught:
        engine_of(Sends, Hears).run_batch()
    assert "send_event_to_reader" in [entry.name for entry in caught.traceback]


class Listens(Hands):
    def handle_source_event(self, subtask_id: int, event: Hint) -> None:
        pass


@pytest.mark.parametrize(("level", "named"), [(NAN, r"\$\.level is nan"), ("9", r"at `\$\.level`")])
def test_an_event_of_a_reader_that_cannot_be_stored_is_refused_by_the_call(level: Any, named: str) -> None:
    class Tells(EchoReader):
        def read(self, split: Any) -> Iterator[tuple[Any, ...]]:
            self.context.send_event_to_coordinator(Hint(level))
            yield from super().read(split)

    with pytest.raises(ContractError, match=named):
        engine_of(Listens, Tells).run_batch()


@pytest.mark.parametrize(("action", "named"), [(NAN, "is nan"), ("9", "got `str`"), ((1,), "got `array`")])
def test_an_action_that_cannot_be_stored_is_refused_by_the_call(action: Any, named: str) -> None:
    class Acts(PerformsActions[int], Hands):
        def perform(self, action: int | None) -> None:
            pass

        def start(self) -> None:
            self.context.perform_after_completion(action)

    with pytest.raises(ContractError, match=f"an action of .*Acts cannot be stored.*{named}") as caught:
        engine_of(Acts).run_batch()
    assert "perform_after_completion" in [entry.name for entry in caught.traceback]


def test_an_enumerator_that_performs_no_actions_cannot_request_one() -> None:
    class Acts(Hands):
        def start(self) -> None:
            self.context.perform_after_completion(1)

    with pytest.raises(ContractError, match="no method to perform") as caught:
        engine_of(Acts).run_batch()
    assert "perform_after_completion" in [entry.name for entry in caught.traceback]


@pytest.mark.parametrize(
    ("position", "named"),
    [
        (Part(split_id="a", next=NAN), r"\$\.next is nan"),  # type: ignore[arg-type]
        (Longer(split_id="a", next=1), "a Longer, and would be restored as"),
        (Part(split_id="a", next="1"), r"at `\$\.next`"),  # type: ignore[arg-type]
        ("a", "Expected `object`, got `str`"),
    ],
)
def test_a_position_that_cannot_be_stored_is_refused_when_the_progress_is_yielded(
    position: Any, named: str
) -> None:
    class Pages(YieldsProgress, SplitReader[Part]):
        def read(self, split: Part) -> Iterator[Any]:
            yield ("row",)
            yield Progress(position)
            yield ("never",)
            yield Progress(replace(split, next=2))

    engine = engine_of(Hands, Pages)
    with pytest.raises(ContractError, match=named):
        engine.run_batch()
    assert isinstance(engine.store, MemoryStore)
    assert not [name for name in engine.store.files if "/reports/" in name]


def test_an_error_with_a_file_name_that_is_not_utf_8_is_stored() -> None:
    """The text of the error is stored in a report and in the state."""

    class Fails(SplitReader[Part]):
        def read(self, split: Part) -> Iterator[Any]:
            raise OSError("cannot open /landing/caf\udce9")
            yield ("never",)

    options = {"onSplitError": "quarantine", "maxSplitAttempts": "1"}
    engine = MicroBatchEngine(options, enumerator=Hands, reader=Fails, schema=SCHEMA, store=MemoryStore())
    engine.run_batch()
    engine.restart()
    assert engine.run_batch() is None
    assert (engine.holder.report() or {})["quarantinedSplits"] == 1
