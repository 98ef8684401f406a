"""Locations: finds the lineages at a path, which may be a state location, a lineage, a savepoint or a
Spark checkpoint. It lists and reads files, but no documents, and writes nothing.
"""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from ..errors import CorruptStateError, OptionError, StateLocationError
from ..file_systems.paths import checked_location, local_path, redacted
from ..segment import content_digest
from . import file_names
from .file_names import CheckpointName
from .spark_checkpoint import COMMITS, OFFSETS, batches_of
from .store import Store, open_store
from .stored_lineage import StoredLineage

_SPARKS_OWN = frozenset({OFFSETS, COMMITS, "metadata", "sources", "state", "_spark_metadata"})


Opener: TypeAlias = Callable[[str, Mapping[str, Any]], Store]
"""Opens the store at a location, with the options of its file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkBatch:
    """One checkpoint of a source in Spark's checkpoint: its batch, and whether the batch is committed.

    Attributes:
        summary: the numbers in its offset.
    """

    batch_id: int
    name: CheckpointName
    committed: bool
    summary: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """One lineage to read; it is sent to executors.

    Attributes:
        name: its name in views.
        parent, folder: the lineage is ``folder`` in the store at ``parent``; None if no file is needed.
        held: documents that are stored in Spark's offset log.
        batches: batches of the given Spark checkpoint, oldest first; None if none was given.
        is_savepoint: whether the folder is a savepoint; its checkpoint is complete.
    """

    name: str
    parent: str | None
    folder: str
    held: tuple[tuple[CheckpointName, bytes], ...] = ()
    batches: tuple[SparkBatch, ...] | None = None
    is_savepoint: bool = False

    def store(self, storage_options: Mapping[str, Any], opened: Opener = open_store) -> Store | None:
        """The store that contains the lineage's folder; None if no file is needed."""
        return None if self.parent is None else opened(self.parent, storage_options)


def find_lineages(
    location: str,
    storage_options: Mapping[str, Any],
    *,
    only: str | None = None,
    state_locations: Sequence[str] = (),
    even_missing: bool = False,
    opened: Opener = open_store,
) -> list[Lineage]:
    """The lineages at a location, by name.

    Args:
        only: the name of the lineage to return; None for all.
        state_locations: the state locations of a Spark checkpoint that are not below it.
        even_missing: for what was partly removed: also the lineages that a Spark checkpoint names and that
            are not found, with neither ``parent`` nor ``held``; and those below a location that is no longer
            a Spark checkpoint, or one that names none.
        opened: opens stores.

    Raises:
        StateLocationError: the location does not exist, is empty, or contains no state of flip27.
        OptionError: there is no lineage named ``only``.
    """
    place = normal_location(location)
    store = opened(place, storage_options)
    given = {parent: opened(parent, storage_options) for parent in map(normal_location, state_locations)}
    names = set(store.list(""))
    if file_names.SAVEPOINT_METADATA in names:
        lineages = [_beside(place, is_savepoint=True)]
    elif file_names.SOURCE_FILE in names:
        lineages = [_beside(place)]
    elif OFFSETS not in names or not (
        lineages := list(_of_spark_checkpoint(place, store, given, even_missing))
    ):
        folders = _folders_below(store) if even_missing else [""]
        lineages = [
            Lineage(name=name, parent=f"{place}/{folder}".rstrip("/"), folder=name)
            for folder in folders
            for name in lineages_in(store, names_in(store, folder), folder)
        ]
    if not lineages:
        if OFFSETS in names:
            raise StateLocationError(
                f"the Spark checkpoint {store.location} names no state of flip27, and contains none",
                remedy="if the query has a stateLocation elsewhere, retire that: flip27 retire STATE; "
                "otherwise flip27 has left nothing",
            )
        what = "contains no state of flip27" if names else "is empty or does not exist"
        raise StateLocationError(
            f"{redacted(location)} {what}",
            remedy="give a state location (option stateLocation of the query), one of the lineages in it, a "
            "savepoint, or the checkpoint location of a Spark query",
        )
    if only is None:
        return lineages
    name = chosen_lineage([lineage.name for lineage in lineages], only, location)
    return [lineage for lineage in lineages if lineage.name == name]


def normal_location(location: str) -> str:
    """The location without a slash or ``_metadata`` at its end; absolute on local disk.

    Raises:
        StateLocationError: it is empty, or cannot be a location.
    """
    location = checked_location(location, what="the location", error_type=StateLocationError)
    local = local_path(location)
    place = location if local is None else os.path.abspath(local)
    return place.rstrip("/").removesuffix(f"/{file_names.SAVEPOINT_METADATA}").rstrip("/") or "/"


def _beside(place: str, *, is_savepoint: bool = False) -> Lineage:
    """The lineage or savepoint in this directory, as a folder in its parent directory."""
    parent, _, folder = place.rpartition("/")
    return Lineage(name=folder, parent=parent or "/", folder=folder, is_savepoint=is_savepoint)


def lineages_in(store: Store, names: Iterable[str], below: str = "") -> list[str]:
    """Those of the names in the folder ``below`` that are lineages."""
    candidates = filter(_is_lineage_name, sorted(names))
    return [name for name in candidates if file_names.SOURCE_FILE in names_in(store, below + name)]


def _of_spark_checkpoint(
    place: str, store: Store, given: Mapping[str, Store], even_missing: bool
) -> Iterator[Lineage]:
    batches: dict[str, list[SparkBatch]] = {}
    inline: dict[str, list[tuple[CheckpointName, bytes]]] = {}
    for logged, committed in batches_of(store):
        for source, offset in logged.offsets.items():
            lineage, name = offset.lineage, offset.name
            if lineage is None or name is None:
                lineage = f"inline-{source}"
                # Keys keep their order: inline segments are named by the digest of their bytes.
                data = msgspec.json.encode(offset.inline)
                name = CheckpointName(offset.checkpoint_id, content_digest(data))
                inline.setdefault(lineage, []).append((name, data))
            batches.setdefault(lineage, []).append(
                SparkBatch(batch_id=logged.batch_id, name=name, committed=committed, summary=offset.summary)
            )
    if not batches and not even_missing:
        raise StateLocationError(
            f"the Spark checkpoint {store.location} contains no batch of a flip27 source yet",
            remedy="wait for the first batch, or give the checkpoint location of another query",
        )
    for lineage, known in sorted(batches.items()):
        held = tuple(dict(inline.get(lineage, ())).items())
        parent = None
        if not held:
            found = _parents_of(lineage, known[-1].name, place, store, given)
            if found or not even_missing:
                parent = _only_parent(lineage, found, store, list(given))
        yield Lineage(name=lineage, parent=parent, folder=lineage, held=held, batches=tuple(known))


def _parents_of(
    lineage: str, newest: CheckpointName, place: str, store: Store, given: Mapping[str, Store]
) -> list[str]:
    """The state locations of a lineage that a Spark checkpoint names, with its newest checkpoint."""
    found = [parent for parent, other in given.items() if lineages_in(other, [lineage])]
    if found:
        return found
    copies = [folder for folder in _folders_below(store) if lineages_in(store, [lineage], folder)]
    if len(copies) > 1:
        has = (newest in StoredLineage(store, f"{folder}{lineage}").names() for folder in copies)
        copies = list(itertools.compress(copies, has)) or copies
    return [f"{place}/{folder}".rstrip("/") for folder in copies]


def _only_parent(lineage: str, found: list[str], store: Store, state_locations: Sequence[str]) -> str:
    if len(found) == 1:
        return found[0]
    where = [f"below the Spark checkpoint {store.location}", *map(redacted, state_locations)]
    at = (
        f"in several places: {', '.join(map(redacted, found))}"
        if found
        else f"not {' and not in '.join(where)}"
    )
    raise StateLocationError(
        f"the Spark checkpoint names lineage {lineage}, which is {at}",
        remedy='set .option("stateLocation", ...) to the value that the query uses',
    )


def _folders_below(store: Store) -> Iterator[str]:
    """The folders that may be the state location: the checkpoint itself and two levels below it.

    A folder that is the checkpoint of another query is left out, with what is below it.
    """
    yield ""
    first = {name: names_in(store, name) for name in store.list("") if _may_hold_state(name)}
    first = {name: inner for name, inner in first.items() if OFFSETS not in inner}
    yield from (f"{name}/" for name in first)
    for name, names in first.items():
        yield from (f"{name}/{inner}/" for inner in names if _may_hold_state(inner))


def _may_hold_state(name: str) -> bool:
    return name not in _SPARKS_OWN and not name.startswith(".") and not _is_lineage_name(name)


def _is_lineage_name(name: str) -> bool:
    try:
        return bool(file_names.checked_lineage_name(name))
    except CorruptStateError:
        return False


def names_in(store: Store, folder: str) -> list[str]:
    """The names in a folder; [] if it is a file."""
    try:
        return store.list(folder)
    except StateLocationError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            return []
        raise  # what cannot be read is not gone


def chosen_lineage(names: Sequence[str], only: str | None, location: str) -> str:
    """The lineage ``only``, or the first one; raises OptionError if there is no ``only``."""
    if only is None or only in names:
        return only or names[0]
    near = difflib.get_close_matches(only, names, n=1)
    raise OptionError(
        f"there is no lineage {only} in {redacted(location)}"
        + (f"; did you mean {near[0]}?" if near else ""),
        remedy="use one of: " + ", ".join(names[:20]),
    )
