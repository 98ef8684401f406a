"""State without Spark: the lineages at a location, and the rows of ``format("flip27_state")``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flip27_source.errors import MissingStateError, OptionError
from flip27_source.file_systems.paths import redacted
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.history import COMPLETE, Ancestry, History
from flip27_source.state_tables.predicates import EVERYTHING, Predicate
from flip27_source.state_tables.views import VIEWS

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where state is looked for; as the options of ``format("flip27_state")``.

    Attributes:
        location: a state location, a lineage in it, a savepoint, or a query's Spark checkpoint.
        lineage: the only one that is wanted.
        state_location: for a Spark checkpoint that does not hold the state.
        storage: options of the file system.
    """

    location: str
    lineage: str | None = None
    state_location: str | None = None
    storage: Mapping[str, Any] = field(default_factory=dict)

    def histories(self) -> list[History]:
        """One for each lineage.

        Raises:
            StateLocationError: nothing of flip27 is there.
            OptionError: the lineage that is wanted is not.
        """
        found = find_lineages(
            self.location, self.storage, only=self.lineage, state_location=self.state_location
        )
        return [History(lineage.store(self.storage), lineage) for lineage in found]

    def history(self) -> History:
        """The only one.

        Raises:
            OptionError: there are several.
        """
        found = self.histories()
        if len(found) > 1:
            names = ", ".join(history.lineage.name for history in found)
            raise OptionError(
                f"{redacted(self.location)} holds {len(found)} lineages: {names}",
                remedy="say which one by --lineage, or give its directory",
            )
        return found[0]


def view_rows(view: str, history: History, asked: Predicate = EVERYTHING) -> Iterator[Row]:
    """The rows of a view, with its columns in their order.

    Args:
        asked: spares reading files; rows outside of it may come all the same.
    """
    found = VIEWS[view]
    for row in found.rows(history, asked):
        yield {column.name: row.get(column.name) for column in found.columns}


def checkpoint_row(history: History, name: CheckpointName | None) -> Row | None:
    """The row of one checkpoint; None when there is none, or clean-up was faster."""
    if name is None:
        return None
    asked = EVERYTHING.narrowed("checkpoint_id", "=", [name.checkpoint_id])
    rows = view_rows("checkpoints", history, asked)
    return next((row for row in rows if row["digest"] == name.digest), None)


def newest_complete(line: Ancestry) -> CheckpointName | None:
    """The newest checkpoint that is known to be complete."""
    return next((name for name in reversed(line.names) if line.status[name] == COMPLETE), None)


def named_checkpoint(history: History, checkpoint_id: int | None) -> CheckpointName:
    """A checkpoint by its id, or the newest complete one, or else the newest.

    Raises:
        MissingStateError: there is none.
    """
    line = history.line()
    name: CheckpointName | None
    if checkpoint_id is None:
        name = newest_complete(line) or (line.names[-1] if line.names else None)
    else:
        # Where the query went back there may be several of one id: the one it went on with is meant.
        known = [*line.names, *sorted(line.status)]
        name = next((name for name in known if name.checkpoint_id == checkpoint_id), None)
    if name is None:
        ids = sorted({name.checkpoint_id for name in line.status})
        there = f"there are {ids[0]} to {ids[-1]}" if ids else "there is none yet"
        wanted = "checkpoint" if checkpoint_id is None else f"checkpoint {checkpoint_id}"
        raise MissingStateError(
            f"{history.lineage.name} has no {wanted}: {there}",
            remedy="give one that is retained; `flip27 state history` lists them",
        )
    return name
