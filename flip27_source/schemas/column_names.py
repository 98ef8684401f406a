"""The names of columns, which Spark compares without regard to case. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def place_of_name(name: str, names: Sequence[str]) -> int | None:
    """The place of a column: the first with this name, or the only one whose name differs in case alone."""
    alike = [place for place, other in enumerate(names) if other.lower() == name.lower()]
    exact = [place for place in alike if names[place] == name]
    return (exact or alike)[0] if exact or len(alike) == 1 else None
