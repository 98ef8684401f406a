"""What readers add to a savepoint of a running query: one stream for each name, whole or absent."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import BinaryIO

from ..errors import ContractError, kept_text
from ..hiding import Hidden
from ..reader import SourceReaderContext
from ..snapshots.additions import SavepointPlace, record_failed_addition
from ..snapshots.savepoints import READERS
from ..snapshots.store import Store, open_store
from ..source import Source
from ..source_options import STATE_LOCATION

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")

_log = logging.getLogger("flip27_source")


def added_to(
    place: SavepointPlace, source: Source, context: SourceReaderContext, store: Store | None
) -> SourceReaderContext:
    """The context of a subtask whose reader may add to a savepoint.

    Args:
        store: where what could not be added is recorded; the state location of the source when None.
    """
    storage_options = source.options.with_prefix("storage.")

    @contextmanager
    def opened(name: str) -> Iterator[BinaryIO]:
        if _NAME.fullmatch(name) is None:
            raise ContractError(
                f"{name!r} cannot be the name of a file in a savepoint",
                remedy="use up to 100 letters, digits and _.- and no dot at its beginning",
            )
        buffer = io.BytesIO()
        yield buffer
        try:
            target = open_store(place.directory, storage_options)
            target.replace(f"{READERS}/{context.subtask_id}/{name}", buffer.getvalue())
        except Exception as error:  # noqa: BLE001 - the savepoint fails, and the query goes on
            _log.error("%s cannot be added to the savepoint %s: %s", name, place.directory, error)
            state = store or open_store(str(source.options[STATE_LOCATION]), storage_options)
            why = Hidden(storage_options).in_text(kept_text(error))
            record_failed_addition(state, place, context.subtask_id, name, why)

    return replace(context, is_savepoint=True, savepoint_opener=opened)
