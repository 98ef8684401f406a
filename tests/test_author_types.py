"""The types of splits and states are found; the author need not name them twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from flip27_source import DiscoveringEnumerator, Discovery
from flip27_source.discovery import DiscoveringState
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.errors import ContractError


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
