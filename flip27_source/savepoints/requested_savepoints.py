"""Savepoints of a running query: checkpoints are copied to their targets, and readers add files.

A file that a reader adds is complete or absent. Readers write into the savepoint itself. If a write fails,
reading continues and the savepoint fails: a file in the lineage records the missing file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import msgspec

from ..errors import ContractError, CorruptStateError, StateLocationError, kept_text
from ..file_systems.secrets_in_texts import Hidden
from ..log import LOG
from ..reader import SourceReaderContext
from ..snapshots import file_names
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from ..snapshots.offsets import Offset
from ..snapshots.planned_subtask import SavepointPlace
from ..snapshots.store import Store, open_store
from ..snapshots.stored_lineage import StoredLineage
from ..source import Source
from ..source_options import STATE_LOCATION
from ..values.stored_json import decode_json
from .format import METADATA, READERS, savepoint_folder, write_savepoint

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_MOST_BYTES = 1024 * 1024


def added_to(
    place: SavepointPlace, source: Source, context: SourceReaderContext, store: Store | None
) -> SourceReaderContext:
    """The context of a subtask whose reader may add to a savepoint.

    Args:
        store: where failed additions are recorded; None for the source's state location.
    """
    storage_options = source.options.with_prefix("storage.")

    @contextmanager
    def opened(name: str) -> Iterator[BinaryIO]:
        if _NAME.fullmatch(name) is None:
            raise ContractError(
                f"{name!r} is not a valid name of a file in a savepoint",
                remedy="use up to 100 letters, digits and _.-, and do not start with a dot",
            )
        buffer = io.BytesIO()
        yield buffer
        try:
            target = open_store(place.directory, storage_options)
            target.replace(f"{READERS}/{context.subtask_id}/{name}", buffer.getvalue())
        except Exception as error:  # noqa: BLE001 - the savepoint fails, and the query continues
            LOG.error("%s cannot be added to the savepoint %s: %s", name, place.directory, error)
            state = store or open_store(str(source.options[STATE_LOCATION]), storage_options)
            why = kept_text(error, Hidden(storage_options).in_text)
            failed = _FailedAddition(subtask=context.subtask_id, file=name, error=why)
            file = file_names.failed_addition_file(place.lineage, place.name, context.subtask_id)
            # Durable; only the first failure of a subtask is kept.
            state.create(file, msgspec.json.encode(failed, order="sorted"))

    return replace(context, is_savepoint=True, savepoint_opener=opened)


class _FailedAddition(msgspec.Struct, frozen=True, kw_only=True):
    subtask: int
    file: str
    error: str


def failed_additions(store: Store, lineage: str, name: CheckpointName) -> str | None:
    """A description of the files that could not be added to a savepoint; None if all were added."""
    said = []
    for text in StoredLineage(store, lineage).listed(file_names.FAILURES):
        parsed = file_names.parse_failed_addition(text)
        if parsed is None or parsed[0] != name:
            continue
        file = file_names.failed_addition_file(lineage, name, parsed[1])
        try:
            failed = decode_json(store.read(file, _MOST_BYTES), _FailedAddition)
        except (msgspec.MsgspecError, CorruptStateError):
            said.append(f"subtask {parsed[1]} could not add a file")
        else:
            said.append(f"subtask {failed.subtask} could not add {failed.file}: {failed.error}")
    return "; ".join(said[:3]) or None


@dataclass(eq=False, repr=False)
class RequestedSavepoints:
    """Checks the targets of a running query's savepoints, and copies checkpoints to them."""

    _store: Store | None
    _storage_options: Mapping[str, Any]
    _open_store: Callable[[str, Mapping[str, Any]], Store]
    _new_random: Callable[[], str]

    def problem_with(self, target: str) -> Exception | None:
        """Why a target is not writable, or None; called before the batch that becomes a savepoint."""
        probe = f".flip27-{self._new_random()}"
        try:
            place = self._open_store(target, self._storage_options)
            place.replace(probe, b"flip27 tests whether it can write here")
            place.delete(probe)
        except Exception as error:  # noqa: BLE001 - any error fails the savepoint, not the query
            return error
        return None

    def make(self, target: str, lineage: str, name: CheckpointName, created_ms: int) -> None:
        """Copy a complete checkpoint to its target.

        Raises:
            StateLocationError: a reader could not add a file to the savepoint, or the target fails.
        """
        if self._store is None:
            return
        missing = failed_additions(self._store, lineage, name)
        if missing is not None:
            raise StateLocationError(missing)
        place = self._open_store(target, self._storage_options)
        folder = savepoint_folder(name)
        # A restart completes the newest checkpoint again.
        if METADATA in place.list(folder):
            return
        write_savepoint(self._store, lineage, name, place, created_ms=created_ms)
        LOG.info("created the requested savepoint %s/%s", place.location, folder)


def savepoint_of(offset: Offset, document: CheckpointDocument) -> SavepointPlace | None:
    """The savepoint that a checkpoint becomes; None if it does not become one."""
    target = document.raw.target
    if target is None or offset.lineage is None or offset.name is None:
        return None
    directory = f"{target}/{savepoint_folder(offset.name)}"
    return SavepointPlace(directory=directory, lineage=offset.lineage, name=offset.name)
