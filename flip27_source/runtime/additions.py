"""What readers add to a savepoint of a running query: one stream for each name, whole or absent."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import BinaryIO

from ..errors import ContractError
from ..reader import SourceReaderContext
from ..snapshots.savepoints import READERS
from ..snapshots.store import open_store
from ..source import Source

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")


def added_to(directory: str, source: Source, context: SourceReaderContext) -> SourceReaderContext:
    """The context of a subtask whose reader may add to the savepoint that is to be in ``directory``."""

    @contextmanager
    def opened(name: str) -> Iterator[BinaryIO]:
        if _NAME.fullmatch(name) is None:
            raise ContractError(
                f"{name!r} cannot be the name of a file in a savepoint",
                remedy="use up to 100 letters, digits and _.- and no dot at its beginning",
            )
        buffer = io.BytesIO()
        yield buffer
        store = open_store(directory, source.options.with_prefix("storage."))
        store.replace(f"{READERS}/{context.subtask_id}/{name}", buffer.getvalue())

    return replace(context, is_savepoint=True, savepoint_opener=opened)
