"""State without Spark: the lineages at a location, and the rows of ``format("flip27_state")``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flip27_source.errors import MissingStateError, OptionError
from flip27_source.file_systems.paths import redacted
from flip27_source.snapshots.driver_condition import Condition, DriverCondition, DriverWatch
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.snapshots.kept_store import KeptStores
from flip27_source.snapshots.locations import Opener, find_lineages
from flip27_source.snapshots.store import open_store
from flip27_source.state_tables.history import COMPLETE, Ancestry, History
from flip27_source.state_tables.predicates import EVERYTHING
from flip27_source.state_tables.views import VIEWS
from flip27_source.values.times import datetime_or_none

from ..commands import FileSystem, Lineage, Location, OptionGroup, StateLocations

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState(OptionGroup):
    """Where to read state, apart from its location; as the options of ``format("flip27_state")``."""

    lineage: Lineage = None
    state_locations: StateLocations = None
    files: FileSystem = field(default_factory=FileSystem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(OptionGroup):
    """The location of state: all lineages there, or the chosen one."""

    location: Location
    stored: StoredState = field(default_factory=StoredState)

    def histories(
        self,
        opened: Opener = open_store,
        counts: dict[str, tuple[int, int]] | None = None,
        watch: DriverWatch | None = None,
    ) -> list[History]:
        """The histories of the lineages.

        Args:
            opened: opens stores. counts, watch: as a History takes them.

        Raises:
            StateLocationError: the location contains no state of flip27.
            OptionError: the chosen lineage does not exist.
        """
        storage, stored = self.stored.files.options, self.stored
        lineages = find_lineages(
            self.location,
            storage,
            only=stored.lineage,
            state_locations=stored.state_locations or (),
            opened=opened,
        )
        return [History(lineage.store(storage, opened), lineage, counts, watch) for lineage in lineages]

    def key(self, history: History) -> tuple[str, str]:
        """What tells a lineage from all others: the location of its state, and its name."""
        return history.lineage.parent or self.location, history.lineage.name

    def history(self) -> History:
        """The history of the only lineage.

        Raises:
            OptionError: there are several lineages.
        """
        histories = self.histories()
        if len(histories) > 1:
            names = ", ".join(history.lineage.name for history in histories)
            raise OptionError(
                f"{redacted(self.location)} contains {len(histories)} lineages: {names}",
                remedy="choose one with --lineage, or give its directory",
            )
        return histories[0]


def places_of(checkpoints: Sequence[str], states: Sequence[str], files: FileSystem) -> list[Place]:
    """The places of checkpoint locations, whose states are there or among the others, and those of states.

    Raises:
        OptionError: there is none.
    """
    if not (checkpoints or states):
        raise OptionError("no location is given", remedy="give --state or --checkpoint-location")
    beside, alone = StoredState(state_locations=list(states), files=files), StoredState(files=files)
    return [
        *(Place(location=at, stored=beside) for at in checkpoints),
        *(Place(location=at, stored=alone) for at in states),
    ]


@dataclass(slots=True)
class Looks:
    """Looks at a place again and again: what cannot have changed is read and counted once."""

    place: Place
    _stores: KeptStores = field(default_factory=KeptStores)
    _counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    _watch: DriverWatch = field(default_factory=DriverWatch)

    def histories(self) -> list[History]:
        """The histories as they are now; raises as :meth:`Place.histories` does."""
        self._stores.look()
        if len(self._counts) > _MOST_COUNTS:
            self._counts.clear()
        return self.place.histories(self._stores.open, self._counts, self._watch)


_MOST_COUNTS = 100_000


def driver_said(driver: DriverCondition | None) -> str | None:
    """What is known of a driver, in the words of ``state show`` and ``watch``; None if no driver is known."""
    if driver is None:
        return None
    moment = datetime_or_none(driver.since_ms)
    words = {Condition.LOST: "lost, last heard of at", Condition.RUNNING: "running since"}
    said = driver.condition.value
    if moment is not None:
        said = f"{words.get(driver.condition, f'{said} at')} {moment:%Y-%m-%d %H:%M:%S} UTC"
    return f"{said}, {driver.driver.who}, epoch {driver.driver.epoch}"


def checkpoint_row(history: History, name: CheckpointName | None) -> Row | None:
    """The row of one checkpoint; None if it does not exist, or was cleaned up meanwhile."""
    if name is None:
        return None
    asked = EVERYTHING.narrowed("checkpoint_id", "=", [name.checkpoint_id])
    rows = VIEWS["checkpoints"].rows(history, asked)
    return next((row for row in rows if row["digest"] == name.digest), None)


def newest_complete(line: Ancestry) -> CheckpointName | None:
    return next((name for name in reversed(line.names) if line.status[name] == COMPLETE), None)


def named_checkpoint(history: History, checkpoint_id: int | None) -> CheckpointName:
    """A checkpoint by its id; without an id the newest complete checkpoint, or else the newest one.

    Raises:
        MissingStateError: the checkpoint does not exist.
    """
    line = history.line()
    name: CheckpointName | None
    if checkpoint_id is None:
        name = newest_complete(line) or (line.names[-1] if line.names else None)
    else:
        # After a reset several checkpoints may have one id; choose the one that the query continued from.
        known = [*line.names, *sorted(line.status)]
        name = next((name for name in known if name.checkpoint_id == checkpoint_id), None)
    if name is None:
        ids = sorted({name.checkpoint_id for name in line.status})
        there = f"it has checkpoints {ids[0]} to {ids[-1]}" if ids else "it has none yet"
        what = "checkpoint" if checkpoint_id is None else f"checkpoint {checkpoint_id}"
        raise MissingStateError(
            f"{history.lineage.name} has no {what}: {there}",
            remedy="choose a retained checkpoint; `flip27 state history` lists them",
        )
    return name
