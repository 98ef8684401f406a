"""Answer: the result of a command, as data and as text. Only values; ``rendering`` prints them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

Drawing: TypeAlias = "Callable[[Console], None]"
"""A function that draws on the console; its output contains no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table for people: column names, and cells of any type; None for unknown values."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a command.

    Attributes:
        data: the machine-readable form for ``--json``; its fields are documented and stable.
        shown: the form for people, on standard output.
        notes: lines for people, on standard error.
        exit_code: 0 if the command succeeded.
    """

    data: Any
    shown: Sequence[str | Table | Drawing]
    notes: Sequence[str] = field(default=())
    exit_code: int = 0
