"""Rows that are buffered until they may be delivered, in bounded memory.

Arrow batches that do not fit into memory go to a temporary file. The file has no name, so it disappears
however the process ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import ipc

from ..errors import HeldRowsError

if TYPE_CHECKING:
    from .split_read import Item

BATCHES_BYTES = 64 * 1024 * 1024
"""Maximum size of Arrow batches that are buffered in memory."""

TUPLES_BYTES = 256 * 1024 * 1024
"""Maximum size of tuples that are buffered; they stay in memory, as not every Python value can be stored."""

_TUPLE_BYTES = 200
"""Assumed size of a tuple without its texts."""


class BufferedRows:
    """Rows of one schema, in order: batches or tuples.

    Args:
        what: the owner of the rows, for messages.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._items: list[Item] = []
        self._bytes = 0
        self._file: Any = None
        self._writer: ipc.RecordBatchStreamWriter | None = None

    def add(self, item: Item) -> None:
        """Buffer one more batch or row.

        Raises:
            HeldRowsError: there is no room for the batch or row.
        """
        if self._writer is not None and isinstance(item, pa.RecordBatch):
            self._write(item)
            return
        self._items.append(item)
        self._bytes += bytes_of(item)
        if isinstance(item, pa.RecordBatch):
            if self._bytes > BATCHES_BYTES:
                self._spill(item.schema)
        elif self._bytes > TUPLES_BYTES:
            raise HeldRowsError(
                f"{self._what}: more than {TUPLES_BYTES >> 20} MiB of tuples would have to be buffered in "
                "memory until they may be delivered",
                remedy="have the reader yield Arrow batches, which can be buffered on disk, or Progress more "
                "often; or set onSplitError=fail, which buffers nothing",
            )

    def given(self) -> Iterator[Item]:
        """Yield all rows and release them."""
        yield from self._items
        if self._writer is not None:
            yield from self._read()
        self.close()

    def close(self) -> None:
        self._items = []
        self._bytes = 0
        file, self._file, self._writer = self._file, None, None
        if file is not None:
            file.close()

    def _spill(self, schema: pa.Schema) -> None:
        try:
            self._file = tempfile.TemporaryFile(prefix="flip27-")  # noqa: SIM115 - closed by close()
            self._writer = ipc.new_stream(self._file, schema)
        except OSError as error:
            raise self._no_room(error) from error
        batches, self._items = self._items, []
        for batch in batches:
            self._write(batch)

    def _write(self, batch: Item) -> None:
        assert self._writer is not None
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._no_room(error) from error

    def _read(self) -> Iterator[pa.RecordBatch]:
        assert self._writer is not None
        try:
            self._writer.close()
            self._file.seek(0)
        except OSError as error:
            raise self._no_room(error) from error
        with ipc.open_stream(self._file) as stored:
            yield from stored

    def _no_room(self, error: OSError) -> HeldRowsError:
        return HeldRowsError(
            f"{self._what}: rows that have to be buffered until they may be delivered do not fit into a "
            f"temporary file in {tempfile.gettempdir()}: {error}",
            remedy="free space there, or set TMPDIR for the executors to a directory with more space; or set "
            "onSplitError=fail, which buffers nothing",
        )


def bytes_of(item: Item) -> int:
    """Approximate size of a batch or a row in memory."""
    if isinstance(item, pa.RecordBatch):
        return int(item.nbytes)
    return _TUPLE_BYTES + sum(map(_bytes_of_value, item))


def _bytes_of_value(value: Any) -> int:
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, dict):
        return _TUPLE_BYTES + sum(_bytes_of_value(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return _TUPLE_BYTES + sum(map(_bytes_of_value, value))
    return 0
