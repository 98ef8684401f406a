"""docs/api.md: what it says about constructors, properties and defaults, for the classes of this file."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest

from scripts.api_page import entry


class Colour(enum.Enum):
    """A colour."""

    RED = "red"


def _somewhere() -> str:
    return "here"


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value."""

    name: str
    colour: Colour = Colour.RED
    text: str = "UTC"
    options: Mapping[str, str] = field(default_factory=dict)
    place: Any = _somewhere

    @property
    def length(self) -> int:
        """How long it is."""
        return len(self.name)

    @cached_property
    def words(self) -> list[str]:
        """Its words."""
        return self.name.split()

    @classmethod
    def of(cls, text: str) -> Value:
        """One of a text."""
        return cls(name=text)

    def renamed(self, name: str, *, loudly: bool = False) -> Value:
        """The same under another name."""
        return Value(name=name)


class Plan(ABC):
    """For subclasses."""

    def __init__(self, size: int) -> None:
        self.size = size

    @abstractmethod
    def next(self) -> int:
        """The next one."""


@pytest.mark.parametrize(
    "line",
    [
        """Value(
    *,
    name: str,
    colour: Colour = Colour.RED,
    text: str = "UTC",
    options: Mapping[str, str] = ...,
    place: Any = ...,
)""",
        "*property* **`length: int`**",
        "*property* **`words: list[str]`**",
        "*classmethod* **`of(text: str) -> Value`**",
        "**`renamed(name: str, *, loudly: bool = False) -> Value`**",
    ],
)
def test_a_class_is_shown_with_its_constructor_and_its_properties_not_as_methods(line: str) -> None:
    text = entry("Value", Value)
    assert f"\n{line}\n" in text
    assert "length(" not in text


def test_the_members_of_an_enumeration_are_named() -> None:
    assert "class Colour(Enum)\n    RED = 'red'\n" in entry("Colour", Colour)


def test_a_class_for_subclasses_has_no_constructor() -> None:
    text = entry("Plan", Plan)
    assert "class Plan(ABC)\n```" in text
    assert "size" not in text
