"""The types of splits and states are found; the author need not name them twice."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union

import msgspec
import pyarrow as pa
import pytest

from flip27_source import (
    CompletesPositions,
    CutsSomeSplits,
    DiscoveringEnumerator,
    Discovery,
    FindsSchema,
    ForgetsSplits,
    HoldsSplits,
    LimitsEdits,
    NamesPositions,
    PerformsActions,
    SamplesSplits,
)
from flip27_source.discovery import DiscoveringState
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.errors import ContractError
from flip27_source.file_systems.moved_paths import RewritesPaths
from flip27_source.leftovers import LeavesThings
from flip27_source.reader import SplitReader
from flip27_source.source_checks import ChecksBeforeStart, ChecksSource, ChoosesReader
from flip27_source.testing import MicroBatchEngine
from flip27_source.values.stored_values import stored_splits
from tests.toy_sources import Shelf, items


@dataclass(frozen=True)
class Page:
    split_id: str


class Pages(DiscoveringEnumerator[Page]):
    def discover(self, position: int | None) -> Discovery[Page, int]:
        return Discovery([], 1)


class Untyped(FilesEnumerator):
    def discover(self, position: Any) -> Any:
        return super().discover(position)


def test_the_type_argument_names_the_split() -> None:
    assert Pages.resolve_split_type() is Page


class Chunk(msgspec.Struct, frozen=True, tag="chunk"):
    split_id: str


class Log(msgspec.Struct, frozen=True, tag="log"):
    split_id: str
    position: int


class ChunksThenLog(DiscoveringEnumerator[Chunk | Log]):
    def discover(self, position: int | None) -> Discovery[Chunk | Log, int]:
        new: list[Chunk | Log] = [] if position else [Chunk(split_id="a"), Log(split_id="log", position=7)]
        return Discovery(new, 1)


class Either(DiscoveringEnumerator[Union[Page, Chunk]]):  # noqa: UP007 - as older code writes it
    def discover(self, position: int | None) -> Discovery[Page | Chunk, int]:
        return Discovery([], 1)


class Names(SplitReader[Chunk | Log]):
    def read(self, split: Chunk | Log) -> Iterator[tuple[str]]:
        yield (repr(split),)


def test_a_source_may_have_two_kinds_of_split() -> None:
    engine = MicroBatchEngine(
        {"maxFilesPerTrigger": "1"},
        enumerator=ChunksThenLog,
        reader=Names,
        schema=pa.schema([("id", pa.string())]),
    )
    engine.run_batch()
    engine.restart()
    engine.process_all_available()
    assert [row[0] for row in engine.rows] == ["Chunk(split_id='a')", "Log(split_id='log', position=7)"]


def test_two_kinds_of_split_that_their_json_does_not_tell_apart_are_refused_with_the_reason() -> None:
    assert Either.resolve_split_type() == Union[Page, Chunk]  # noqa: UP007
    with pytest.raises(ContractError, match=r"cannot be stored as JSON: .*union") as caught:
        stored_splits(Either)
    assert 'class Chunk(msgspec.Struct, frozen=True, tag="chunk")' in str(caught.value)


def test_a_split_of_a_class_that_the_union_does_not_name_is_refused() -> None:
    class Other(msgspec.Struct, frozen=True, tag="other"):
        split_id: str

    with pytest.raises(ContractError, match=r"\$ is a Other, which .*Chunk \| .*Log does not name"):
        stored_splits(ChunksThenLog).check_split(Other(split_id="a"))


def test_the_error_for_an_unknown_type_of_split_names_one_kind_and_two() -> None:
    class Unknown(DiscoveringEnumerator):  # type: ignore[type-arg]
        def discover(self, position: int | None) -> Any:
            return None

    with pytest.raises(
        ContractError, match=r"SplitEnumerator\[YourSplit\]\), or SplitEnumerator\[Chunk \| Log\]"
    ):
        Unknown.resolve_split_type()


def test_the_annotation_of_discover_names_the_position() -> None:
    assert Pages.resolve_state_type() == DiscoveringState[int | None]


def test_an_override_without_types_keeps_those_of_its_parent() -> None:
    assert Untyped.resolve_state_type() == DiscoveringState[FilesPosition | None]


def test_the_error_for_a_missing_annotation_says_what_to_set() -> None:
    class Broken(DiscoveringEnumerator[Page]):
        def discover(self, position: Missing) -> Any:  # type: ignore[name-defined]  # noqa: F821
            return None

    with pytest.raises(ContractError, match="set position_type = TheType in the body of Broken"):
        Broken.resolve_state_type()


class Started(Shelf):
    def __init__(self, context: Any, options: Any, state: Any = None) -> None:
        super().__init__(context, options, state)
        self.started_from = (self.context, self.options_given, list(self.shelf))


MIXINS: tuple[Any, ...] = (
    PerformsActions, HoldsSplits, ForgetsSplits, NamesPositions, CompletesPositions, CutsSomeSplits,
    LimitsEdits, RewritesPaths, FindsSchema, SamplesSplits, ChecksSource, LeavesThings, ChecksBeforeStart,
    ChoosesReader,
)  # fmt: skip


@pytest.mark.parametrize("mixin", MIXINS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_mixin_may_stand_before_or_after_an_enumerator_with_its_own_init(
    mixin: Any, is_first: bool
) -> None:
    """A mix-in that is a Protocol would take the place of the enumerator's constructor on Python 3.11."""
    kind: Any = types.new_class(
        "Own",
        (mixin, Started) if is_first else (Started, mixin),
        exec_body=lambda body: body.update(dict.fromkeys(mixin.__abstractmethods__, lambda *_: None)),
    )

    def init(self: Any, context: Any, options: Any, state: Any = None) -> None:
        super(kind, self).__init__(context, options, state)

    kind.__init__ = init
    assert kind("context", "options", items("a")).started_from == ("context", "options", items("a"))


def test_an_enumerator_with_the_methods_of_a_mixin_must_have_it_among_its_bases() -> None:
    class Forgetful(Pages):
        @classmethod
        def forget_splits(cls, *_: Any, **__: Any) -> Any:
            return None, {}

        found_again = forget_splits

    with pytest.raises(
        ContractError, match=r"Forgetful defines forget_splits and found_again, but ForgetsSplits is not"
    ):
        MicroBatchEngine(enumerator=Forgetful, reader=Names, schema=pa.schema([]))
