"""What a query that will not run again leaves, and its removal in an order that can be interrupted.

Things on other systems come first, since only the state knows their names; then the state without the file
by which it is found; then Spark's checkpoint, which names the state; and at last that file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from flip27_source.enumerator import SplitEnumerator
from flip27_source.errors import Flip27Error, MissingStateError, OptionError, StateError, StateLocationError
from flip27_source.leftovers import LeavesThings, Leftover
from flip27_source.options import Options
from flip27_source.savepoints.claims import owned, release
from flip27_source.snapshots import file_names
from flip27_source.snapshots.documents import CheckpointDocument
from flip27_source.snapshots.locations import Lineage, lineages_in
from flip27_source.snapshots.removal import (
    LineageRemoval,
    check_all,
    remove_if_empty,
    remove_schemas,
    remove_spark_checkpoint,
)
from flip27_source.snapshots.spark_checkpoint import batches_of, files_of_checkpoint
from flip27_source.snapshots.store import Store, open_store
from flip27_source.snapshots.stored_lineage import StoredLineage
from flip27_source.source import stored_enumerator
from flip27_source.source_options import ALLOW_ROLLED_BACK_CHECKPOINT, CORE_OPTIONS
from flip27_source.state_tables.history import PENDING, History
from flip27_source.values.stored_json import decode_json

from ..state.rows import checkpoint_row

STATE, SCHEMA, SAVEPOINT, CHECKPOINT, ELSEWHERE = "state", "schema", "savepoint", "checkpoint", "elsewhere"
"""Kinds of things; ``elsewhere`` stands for all kinds that enumerators leave on other systems."""

_NOT_READ = {"waiting": "wait", "live": "are partly read", "quarantined": "are quarantined"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why it is not known what a source has left."""

    lineage: str
    error: Flip27Error


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What a query leaves.

    Attributes:
        things: in the order in which they are removed; those without ``remove`` stay.
        problems: the sources of which it is not known what they have left; nothing may be removed.
        notes: what else the user should know; contains no secret.
    """

    things: Sequence[Leftover]
    problems: Sequence[Problem]
    notes: Sequence[str]


@dataclass(kw_only=True)
class StoredSource:
    """One source of the query, as it is stored; it may be partly removed."""

    lineage: Lineage
    storage: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    @cached_property
    def store(self) -> Store | None:
        return self.lineage.store(self.storage)

    @cached_property
    def removal(self) -> LineageRemoval | None:
        """None if its state is in Spark's checkpoint, or is not found."""
        return None if self.store is None else LineageRemoval(self.store, self.lineage.folder)

    @property
    def is_missing(self) -> bool:
        return self.store is None and not self.lineage.held

    @cached_property
    def document(self) -> CheckpointDocument | None:
        """The newest document; None if there is none.

        Raises:
            CorruptStateError, IncompatibleStateError: it cannot be read.
        """
        if self.is_missing:
            return None
        history = History(self.store, self.lineage)
        try:
            newest = history.newest()
        except MissingStateError:  # a removal was interrupted, which deletes the newest checkpoint first
            stored = StoredLineage(self.store, self.lineage.folder)
            name = stored.line().newest
            return None if name is None else stored.document_if_there(name)
        if newest is None:
            self.notes.append("has no checkpoint: if its source has created things elsewhere, they stay")
            return None
        with suppress(StateError):
            self._note_unread(checkpoint_row(history, newest[0]) or {})
        return newest[1]

    @cached_property
    def enumerator(self) -> type[SplitEnumerator[Any]] | None:
        """The class of its enumerator; None if there is no document.

        Raises:
            CorruptStateError, IncompatibleStateError: the document cannot be read.
            RegistryError: the class cannot be imported.
        """
        if self.document is None:
            return None
        stored = self.document.source
        return stored_enumerator(stored.enumerator, stored.start_options)

    @property
    def leaves(self) -> set[str]:
        """The kinds of things that it leaves on other systems."""
        with suppress(Flip27Error):
            if self.enumerator is not None and issubclass(self.enumerator, LeavesThings):
                return set(self.enumerator.leaves)
        return set()

    def elsewhere(self, options: Options) -> list[Leftover]:
        kind = self.enumerator
        if self.document is None or kind is None or not issubclass(kind, LeavesThings):
            return []
        return list(kind.leftovers(options, decode_json(self.document.raw.enumerator.state)))

    def _note_unread(self, row: Mapping[str, Any]) -> None:
        unread = [f"{row[column]} {said}" for column, said in _NOT_READ.items() if row.get(column)]
        if unread:
            self.notes.append(f"of its splits, {', '.join(unread)}; only the state lists them")
        if row.get("delayed_actions"):
            self.notes.append(
                f"{row['delayed_actions']} actions wait for their time (cleanSource): none will happen"
            )
        if row.get("status") == PENDING:
            self.notes.append(
                f"the batch of checkpoint {row['checkpoint_id']} is not known to be complete: the sink may "
                "lack its rows"
            )


@dataclass(frozen=True, kw_only=True)
class RetiredQuery:
    """A query that will not run again.

    Attributes:
        sources: the sources to retire.
        checkpoint: Spark's checkpoint location, if it was given.
        storage: options of the file system.
        with_checkpoint: whether the checkpoint is removed too.
        given: options of the sources, not parsed.
        kept: kinds of things that stay.
    """

    sources: Sequence[StoredSource]
    checkpoint: str | None
    storage: Mapping[str, Any]
    with_checkpoint: bool
    given: Mapping[str, str]
    kept: frozenset[str]

    @property
    def kinds(self) -> set[str]:
        """The kinds of things that may be kept."""
        return {STATE, SCHEMA, ELSEWHERE}.union(*(source.leaves for source in self.sources))

    def remains(self) -> Remains:
        """What the query leaves; nothing is changed.

        Raises:
            Flip27Error: the query runs, a savepoint of it is not finished, or its files cannot be listed.
        """
        for removal, _ in self._stored:
            removal.check()
        elsewhere, problems = self._elsewhere()
        things = [*elsewhere, *self._savepoints(), *self._states(), *self._schemas(), *self._of_spark()]
        return Remains(
            things=[replace(thing, remove=None) if thing.kind in self.kept else thing for thing in things],
            problems=[*problems, *self._missing(), *self._continued_elsewhere()],
            notes=[f"{source.lineage.name}: {note}" for source in self.sources for note in source.notes],
        )

    def remove(self, remains: Remains, wait: Callable[[float], object]) -> Iterator[Leftover]:
        """Remove the things; yields each once it is removed. It can be interrupted and repeated.

        Args:
            wait: waits for some seconds, to watch a driver that may be alive.

        Raises:
            Flip27Error: a query uses one of them, or it cannot be removed; the rest stays.
        """
        removals = [removal for removal, _ in self._stored if STATE not in self.kept]
        check_all([removal for removal, _ in self._stored], wait)
        try:
            for removal in removals:
                removal.take_over()
            for thing in remains.things:
                if thing.remove is not None:
                    self._check_ours(thing, removals)
                    thing.remove()
                    yield thing
        except BaseException:
            for removal in removals:
                removal.give_back()
            raise
        for removal in removals:
            removal.finish()
        folders = {source.lineage.parent for source in self.sources} | {self.checkpoint}
        for location in sorted((folder for folder in folders if folder), key=len, reverse=True):
            remove_if_empty(location, self.storage)

    def _check_ours(self, thing: Leftover, removals: Sequence[LineageRemoval]) -> None:
        """Before the states are removed, which look themselves: no query was started since the check."""
        if thing.kind not in (STATE, SCHEMA, CHECKPOINT):
            for removal in removals:
                removal.check_ours()

    def _open(self, location: str) -> Store:
        return open_store(location, self.storage)

    @property
    def _stored(self) -> list[tuple[LineageRemoval, Store]]:
        """The lineages that are stored in files."""
        pairs = ((source.removal, source.store) for source in self.sources)
        return [(removal, store) for removal, store in pairs if removal is not None and store is not None]

    def _elsewhere(self) -> tuple[list[Leftover], list[Problem]]:
        things: list[Leftover] = []
        problems: list[Problem] = []
        options = self._options()
        for source in self.sources:
            if ELSEWHERE in self.kept or (source.leaves and source.leaves <= self.kept):
                continue
            try:
                things += source.elsewhere(options)
            except Flip27Error as error:
                name = source.lineage.name
                unknown = OptionError(
                    f"it is not known what {name} has left on other systems: {error.what}",
                    remedy=f"{error.remedy or 'correct the options of the source (--option NAME=VALUE)'}; or "
                    f"leave it there: --keep {ELSEWHERE}",
                )
                problems.append(Problem(lineage=name, error=unknown))
        return things, problems

    def _missing(self) -> Iterator[Problem]:
        """The lineages that Spark's checkpoint names and that are not found."""
        for source in self.sources:
            if source.is_missing and STATE not in self.kept:
                name = source.lineage.name
                error = StateLocationError(
                    f"the state of {name} is neither below the checkpoint location nor in that of --state",
                    remedy="give the stateLocation of the query with --state once for each that its sources "
                    f"have; if the state was removed before: --keep {STATE}",
                )
                yield Problem(lineage=name, error=error)

    def _continued_elsewhere(self) -> Iterator[Problem]:
        """The lineages that are continued by another checkpoint location, which is newer than this one."""
        if self._options()[ALLOW_ROLLED_BACK_CHECKPOINT]:
            return
        for source in self.sources:
            said = History(source.store, source.lineage).continued_elsewhere()
            if said is not None:
                error = StateLocationError(
                    said,
                    remedy="give the checkpoint location that continues it, if its query will not run again, "
                    "and delete older copies. If there is no other: --option "
                    f"{ALLOW_ROLLED_BACK_CHECKPOINT.name}=true",
                )
                yield Problem(lineage=source.lineage.name, error=error)

    def _options(self) -> Options:
        declared = {option.name: option for option in CORE_OPTIONS}
        for source in self.sources:
            with suppress(Flip27Error):
                if source.enumerator is not None:
                    declared |= {option.name: option for option in source.enumerator.options}
        return Options.parse(self.given, declared.values())

    def _savepoints(self) -> Iterator[Leftover]:
        """The claims of the savepoints that the query owns, which would otherwise be kept from deletion."""
        for removal, store in self._stored:
            location = None if STATE in self.kept else owned(store, removal.lineage)
            if location is not None:
                yield Leftover(
                    kind=SAVEPOINT,
                    name=location,
                    details="only the query's claim: the savepoint stays (flip27 savepoint delete)",
                    remove=partial(release, store, removal.lineage, self._open),
                )

    def _states(self) -> Iterator[Leftover]:
        for source in self.sources:
            name, removal, store = source.lineage.name, source.removal, source.store
            if removal is not None and store is not None:
                yield Leftover(
                    kind=STATE,
                    name=f"{store.location}/{removal.lineage}",
                    details=f"{len(removal.files()) + 1} files",
                    remove=removal.remove,
                )
            else:
                where = "not found" if source.is_missing else "in Spark's checkpoint"
                yield Leftover(kind=STATE, name=name, details=where)

    def _schemas(self) -> Iterator[Leftover]:
        """The recorded schemas, by location and folder; those that another lineage may use stay."""
        retired = {removal.lineage for removal, _ in self._stored if STATE not in self.kept}
        found = {
            (store.location, folder): store
            for removal, store in self._stored
            if (folder := _schema_folder(store, removal.lineage)) is not None
        }
        for (location, folder), store in found.items():
            versions = store.list(folder)
            users_now = partial(_users_of, store, folder, retired)
            users = users_now()
            if versions:
                yield Leftover(
                    kind=SCHEMA,
                    name=f"{location}/{folder}",
                    details=f"{', '.join(users)} may use it" if users else f"{len(versions)} versions",
                    remove=None if users else partial(remove_schemas, store, folder, users_now),
                )

    def _of_spark(self) -> Iterator[Leftover]:
        files = [] if self.checkpoint is None else files_of_checkpoint(self.checkpoint, self.storage)
        if self.checkpoint is None or not files:
            return
        store = open_store(self.checkpoint, self.storage)
        details = f"{len(files)} files of Spark"
        newest = [batch for batch, _ in batches_of(store)][-1:]
        others = sum(len(batch.lines) - len(batch.offsets) for batch in newest)
        if others:
            details += f", with the positions of {others} sources of other formats"
        if not self._stored:
            details += "; nothing in it shows whether the query runs: stop it first"
        if not self.with_checkpoint:
            details += "; --with-checkpoint-location removes them"
        remove = partial(remove_spark_checkpoint, self.checkpoint, self.storage)
        yield Leftover(
            kind=CHECKPOINT,
            name=store.location,
            details=details,
            remove=remove if self.with_checkpoint else None,
        )


def _users_of(store: Store, folder: str, retired: Collection[str]) -> list[str]:
    """The lineages that may use the schemas in a folder, without those that are retired."""
    others = (name for name in lineages_in(store, store.list("")) if name not in retired)
    return [other for other in others if _schema_folder(store, other) in (folder, None)]


def _schema_folder(store: Store, lineage: str) -> str | None:
    """The folder of the schemas of a lineage's source; None if its source cannot be read."""
    with suppress(StateError):
        source = History(store, Lineage(name=lineage, parent=None, folder=lineage)).source()
        return None if source is None else file_names.schema_folder(source.uid)
    return None
