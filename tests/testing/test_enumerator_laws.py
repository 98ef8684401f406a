"""Every law of enumerators fails for an enumerator that breaks it; a correct one keeps all laws."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_source.errors import OptionError
from flip27_source.testing import LawBroken, TrivialInput, check_enumerator, laws
from tests.testing.broken_enumerators import BROKEN, FOUND, Sound
from tests.testing.broken_readers import PieceReader


@pytest.fixture(autouse=True)
def _nothing_added() -> Iterator[None]:
    before = list(FOUND)
    yield
    FOUND[:] = before


@pytest.mark.parametrize("law", BROKEN)
def test_an_enumerator_that_breaks_a_law_fails_with_the_name_of_the_law(law: str) -> None:
    with pytest.raises(LawBroken) as caught:
        check_enumerator(enumerator=BROKEN[law], reader=PieceReader, grow=lambda: FOUND.append("z"))
    assert caught.value.law == law


def test_every_law_of_enumerators_has_an_example_that_breaks_it() -> None:
    assert set(BROKEN) == set(laws()["enumerator"])


def test_a_sound_enumerator_keeps_the_laws() -> None:
    check_enumerator(enumerator=Sound, reader=PieceReader, grow=lambda: FOUND.append("z"))


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
