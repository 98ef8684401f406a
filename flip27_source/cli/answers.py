"""Answer: what a command has to say, as data and as text. Values alone; ``rendering`` prints them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

Drawing: TypeAlias = "Callable[[Console], None]"
"""Draws on the console by itself; it has no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table for people: columns by name, cells of any type, None where nothing is known."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command has to say.

    Attributes:
        data: the machine form, what ``--json`` prints: its fields are documented and stay.
        shown: the form for people, on standard output.
        notes: lines for people, on standard error.
        exit_code: 0 where the command did what it was asked for.
    """

    data: Any
    shown: Sequence[str | Table | Drawing]
    notes: Sequence[str] = field(default=())
    exit_code: int = 0
