"""The options of ``format("flip27_state")``."""

from __future__ import annotations

import difflib
from typing import Any

from flip27_source.options import Option
from flip27_source.state_tables.views import DEFAULT_VIEW, VIEWS, View


def _view(value: str) -> View:
    name = value.strip().lower()
    if name not in VIEWS:
        near = difflib.get_close_matches(name, VIEWS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError("one of " + ", ".join(VIEWS) + " is expected" + hint)
    return VIEWS[name]


PATH: Option[str | None] = Option(
    name="path",
    doc="A state location, a lineage in it, a savepoint or the checkpoint location of a query; set by "
    "load(path).",
)
VIEW: Option[View] = Option(
    name="view",
    parse=_view,
    default=VIEWS[DEFAULT_VIEW],
    default_text=f"`{DEFAULT_VIEW}`",
    doc="Which table: " + ", ".join(f"`{name}`" for name in VIEWS) + ".",
)
LINEAGE: Option[str | None] = Option(
    name="lineage",
    default_text="all lineages, or those that the query's checkpoint names",
    doc="Name of the lineage to read, if there are several.",
)
STATE_LOCATION: Option[str | None] = Option(
    name="stateLocation",
    default_text="searched for in the query's checkpoint",
    doc="Where the state is, if load(path) names a query's checkpoint that does not contain it.",
)

STATE_OPTIONS: tuple[Option[Any], ...] = (PATH, VIEW, LINEAGE, STATE_LOCATION)
