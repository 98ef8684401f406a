"""Every law of enumerators and of readers fails for one that breaks it; correct ones keep all laws."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import OptionError, SchemaError
from flip27_source.options import Options
from flip27_source.reader import SplitReader
from flip27_source.testing import (
    LawBroken,
    SourceUnderTest,
    TrivialInput,
    check_enumerator,
    check_reader,
    laws,
)
from tests.testing.broken_enumerators import BROKEN_ENUMERATORS, FOUND, Piece, Sound
from tests.testing.broken_readers import (
    ALL_PAGES,
    BROKEN_READERS,
    MISFITS,
    PIECES,
    CutsLines,
    LeavesItsDoorOpen,
    LooksAtTheTypeOfATuple,
    PageReader,
    Pages,
    PieceReader,
    RenamesItself,
    TakesWhatItReads,
)
from tests.testing.sabotages import LINKED, LeavesOutWhatEventsHaveBrought


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = list(FOUND)
    yield
    FOUND[:] = before
    TakesWhatItReads.taken.clear()
    LeavesItsDoorOpen.is_open = False


@pytest.mark.parametrize("law", BROKEN_ENUMERATORS)
def test_an_enumerator_that_breaks_a_law_fails_with_the_name_of_the_law(law: str) -> None:
    with pytest.raises(LawBroken) as caught:
        check_enumerator(
            enumerator=BROKEN_ENUMERATORS[law], reader=PieceReader, grow=lambda: FOUND.append("z")
        )
    assert caught.value.law == law


def test_every_law_of_enumerators_has_an_example_that_breaks_it() -> None:
    assert set(BROKEN_ENUMERATORS) == set(laws()["enumerator"])


def test_a_sound_enumerator_keeps_the_laws() -> None:
    check_enumerator(enumerator=Sound, reader=PieceReader, grow=lambda: FOUND.append("z"))


def test_splits_that_events_of_readers_bring_are_among_those_that_the_laws_are_about() -> None:
    check_enumerator(LINKED)
    LINKED.data.heard.clear()
    with pytest.raises(LawBroken, match=r"a restored enumerator assigns the rest.*\n.*splits before"):
        check_enumerator(LINKED, enumerator=LeavesOutWhatEventsHaveBrought)
    assert {event.name for event in LINKED.data.heard} == {"a", "b", "c"}


def test_an_enumerator_that_takes_events_needs_the_columns_of_the_reader() -> None:
    class WithoutSchema(PieceReader):
        @classmethod
        def default_schema(cls, options: Options) -> None:
            return None

    with pytest.raises(SchemaError, match="needs a schema"):
        check_enumerator(SourceUnderTest(enumerator=LINKED.enumerator, reader=WithoutSchema))


@pytest.mark.parametrize("names", [[], ["a"]])
def test_too_few_splits_are_trivial_input(names: list[str]) -> None:
    FOUND[:] = names
    with pytest.raises(TrivialInput, match=f"assigns {len(names)} splits: give it data with at least two"):
        check_enumerator(enumerator=Sound, reader=PieceReader)


def test_growth_that_adds_nothing_is_trivial_input() -> None:
    with pytest.raises(TrivialInput, match="add at least one"):
        check_enumerator(enumerator=Sound, reader=PieceReader, grow=lambda: None)


def test_invalid_options_are_reported_before_any_law_is_checked() -> None:
    with pytest.raises(OptionError, match="nosuch is unknown"):
        check_enumerator({"nosuch": "1"}, enumerator=Sound, reader=PieceReader)


def splits_for(reader: type[SplitReader[Any]], folder: Path) -> list[Any]:
    if reader is CutsLines:
        file = folder / "lines"
        file.write_text("one line\nand another one\nthe third\n")
        length = file.stat().st_size
        return [FileSplit(path=str(file), length=length, modified_us=0, start=s) for s in (0, 9)]
    if reader is LooksAtTheTypeOfATuple:
        return [Piece(split_id=name, extra=("tuple",)) for name in "abc"]
    return ALL_PAGES if issubclass(reader, PageReader) else PIECES


@pytest.mark.parametrize("law", BROKEN_READERS)
def test_a_reader_that_breaks_a_law_fails_with_the_name_of_the_law(law: str, tmp_path: Path) -> None:
    with pytest.raises(LawBroken) as caught:
        check_reader(reader=BROKEN_READERS[law], splits=splits_for(BROKEN_READERS[law], tmp_path))
    assert caught.value.law == law


def test_every_law_of_readers_has_an_example_that_breaks_it() -> None:
    assert set(BROKEN_READERS) == set(laws()["reader"])


@pytest.mark.parametrize("reader", MISFITS.values(), ids=MISFITS)
def test_rows_that_do_not_fit_are_shown(reader: type[SplitReader[Any]]) -> None:
    with pytest.raises(LawBroken, match="rows fit the schema"):
        check_reader(reader=reader, splits=PIECES)


def test_a_progress_of_another_split_is_refused() -> None:
    with pytest.raises(LawBroken, match="keeps the split_id"):
        check_reader(reader=RenamesItself, splits=ALL_PAGES)


def test_sound_readers_keep_the_laws() -> None:
    check_reader(reader=PieceReader, splits=PIECES)
    check_reader(reader=PageReader, splits=ALL_PAGES)
    check_reader(enumerator=Sound, reader=PieceReader)


def test_one_split_with_rows_is_trivial_input() -> None:
    with pytest.raises(TrivialInput, match="of 1 splits 1 have rows: give at least two"):
        check_reader(reader=PieceReader, splits=PIECES[:1])
    with pytest.raises(TrivialInput, match="of 0 splits"):
        check_reader(reader=PieceReader, splits=[])


def test_pages_that_cannot_be_cut_are_trivial_input() -> None:
    with pytest.raises(TrivialInput, match="give at least one with two pages"):
        check_reader(reader=PageReader, splits=[Pages(split_id="c"), Pages(split_id="b", page=1)])


def test_missing_arguments_are_reported_before_any_law_is_checked() -> None:
    with pytest.raises(OptionError, match="no reader is given"):
        check_reader(splits=PIECES)
    with pytest.raises(SchemaError, match="needs a schema"):
        check_reader({"reader": "json"}, splits=PIECES)
