"""Nested positions have names of the author's choice: in summaries, in ``state splits`` and in edits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
import pytest

from flip27_source.edits.state_copy import StateCopy
from flip27_source.enumerator import BoundedRange, Budget, SplitEnumerator
from flip27_source.enumerator_mixins import CutsSomeSplits
from flip27_source.errors import ContractError, EditError
from flip27_source.reader import SplitReader
from flip27_source.snapshots.locations import find_lineages
from flip27_source.source import Source
from tests.cli.command_line import flip27
from tests.edits.edited import Edited
from tests.toy_sources import AssignsOnce

NUMBERS = pa.schema([("number", pa.int64())])


class Place(msgspec.Struct, frozen=True):
    file: str
    offset: int


class Chunk(msgspec.Struct, frozen=True, tag="chunk"):
    split_id: str
    offset: int


class Log(msgspec.Struct, frozen=True, tag="log"):
    split_id: str
    at: Place
    end: int | None = None


class Changes(CutsSomeSplits, AssignsOnce[Chunk | Log]):
    """A log of nine numbers, of which a batch reads three."""

    position_names: ClassVar = {"at.offset": "offset", "at.file": "binlog"}

    def splits(self) -> list[Chunk | Log]:
        return [Log("log", Place("bin.1", 0))]

    @classmethod
    def is_cut_off(cls, split: Chunk | Log) -> bool:
        return isinstance(split, Log)

    def bound_split(self, split: Chunk | Log, budget: Budget) -> BoundedRange[Chunk | Log] | None:
        assert isinstance(split, Log)
        end = min(9, split.at.offset + 3)
        if end == split.at.offset:
            return None
        at = Place(split.at.file, end)
        return BoundedRange(
            read=msgspec.structs.replace(split, end=end), rest=msgspec.structs.replace(split, at=at)
        )


class Reader(SplitReader[Chunk | Log]):
    def read(self, split: Chunk | Log) -> Iterator[tuple[int]]:
        assert isinstance(split, Log)
        yield from ((number,) for number in range(split.at.offset, split.end or 0))


def read_to_three(folder: Path, kind: type[SplitEnumerator[Any]] = Changes) -> Edited:
    """Only ``Changes`` can be imported by the dry run of an edit."""
    given: dict[str, Any] = {} if kind is Changes else {"enumerator": kind}
    options = {"enumerator": f"{__name__}:Changes"} if kind is Changes else {}
    source = Edited(folder, options, reader=Reader, schema=NUMBERS, **given)
    assert source.batch() == [0, 1, 2]
    return source


def source_class(source: Edited) -> Any:
    """The enumerator's class as a dry run finds it; None if it cannot be imported."""
    (lineage,) = find_lineages(source.state, {})
    return StateCopy(lineage, {}).kind


@pytest.mark.parametrize(
    ("position", "rows"),
    [
        ({"offset": 7}, [7, 8]),
        ({"at.offset": 1}, [1, 2, 3]),
        ({"offset": 6, "binlog": "bin.2"}, [6, 7, 8]),
        ({"at": {"file": "bin.2", "offset": 8}}, [8]),
    ],
)
def test_an_edit_takes_the_names_and_the_paths_of_fields(
    position: dict[str, Any], rows: list[int], tmp_path: Path
) -> None:
    source = read_to_three(tmp_path)
    source.ask("set-position", splits=["log"], position=position)
    assert source.batch() == rows


def test_a_name_that_no_field_has_is_refused(tmp_path: Path) -> None:
    source = read_to_three(tmp_path)
    with pytest.raises(EditError, match="split log has no position field gtid"):
        source.plan("set-position", splits=["log"], position={"gtid": 7})


@pytest.mark.parametrize("is_importable", [True, False])
def test_a_dry_run_shows_the_names_also_where_the_class_is_not_installed(
    is_importable: bool, tmp_path: Path
) -> None:
    class Local(Changes):
        pass

    source = read_to_three(tmp_path, Changes if is_importable else Local)
    assert (source_class(source) is Changes) == is_importable
    (change,) = source.plan("set-position", splits=["log"], position={"offset": 7}).changes
    assert change.now == "live at binlog=bin.1 offset=3 type=log"
    assert change.then == "continues at binlog=bin.1 offset=7 type=log"


def test_the_offset_and_the_table_of_splits_show_the_names(tmp_path: Path) -> None:
    class Local(Changes):
        pass

    source = read_to_three(tmp_path, Local)
    shown = "binlog=bin.1 offset=3 type=log"
    assert source.engine.batches[-1].end["summary"]["positions"] == {"log": shown}
    assert any(shown in " ".join(line) for line in flip27("state", "splits", source.state).lines)


def test_two_fields_with_one_name_are_refused_when_the_source_is_opened() -> None:
    class Twice(Changes):
        position_names: ClassVar = {"at.offset": "offset", "end": "offset"}

    with pytest.raises(ContractError, match=re.escape("Twice gives several fields the name offset")):
        Source.resolve({}, enumerator=Twice, reader=Reader)


def test_a_state_from_before_the_names_were_given_has_none(tmp_path: Path) -> None:
    class Before(Changes):
        position_names: ClassVar[dict[str, str]] = {}

    source = read_to_three(tmp_path, Before)
    lines = flip27("state", "splits", source.state).lines
    assert any("at.file=bin.1 at.offset=3" in " ".join(line) for line in lines)
