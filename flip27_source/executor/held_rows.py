"""Rows that are held back until it is known that they may be given, in memory of a bounded size.

Arrow batches that do not fit are in a temporary file. It has no name, so nothing of it is left however the
process ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from pyarrow import ipc

from ..errors import HeldRowsError

if TYPE_CHECKING:
    from .split_read import Item

BATCHES_BYTES = 64 * 1024 * 1024
"""How much of Arrow batches is held in memory."""

TUPLES_BYTES = 256 * 1024 * 1024
"""How much of rows that are tuples is held at all: nothing stores any Python value as it is."""

_TUPLE_BYTES = 200
"""What a row that is a tuple costs beside its texts."""


class HeldRows:
    """Rows of one schema, in their order: batches, or tuples.

    Args:
        what: whose rows they are, for messages.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._items: list[Item] = []
        self._bytes = 0
        self._file: Any = None
        self._writer: ipc.RecordBatchStreamWriter | None = None

    def add(self, item: Item) -> None:
        """Hold one more batch or row.

        Raises:
            HeldRowsError: there is no room for it.
        """
        if self._writer is not None and isinstance(item, pa.RecordBatch):
            self._write(item)
            return
        self._items.append(item)
        self._bytes += bytes_of(item)
        if not isinstance(item, pa.RecordBatch):
            self._check_tuples()
        elif self._bytes > BATCHES_BYTES:
            self._spill(item.schema)

    def given(self) -> Iterator[Item]:
        """All rows, which are then held no longer."""
        yield from self._items
        self._items = []
        self._bytes = 0
        if self._writer is not None:
            yield from self._read()
            self.close()

    def close(self) -> None:
        """Forget the rows."""
        self._items = []
        self._bytes = 0
        file, self._file, self._writer = self._file, None, None
        if file is not None:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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

    def _check_tuples(self) -> None:
        if self._bytes > TUPLES_BYTES:
            raise HeldRowsError(
                f"{self._what}: more than {TUPLES_BYTES >> 20} MiB of tuples have to be held back until it "
                "is known that they may be given",
                remedy="have the reader yield Arrow batches, which need not be held in memory, or Progress "
                "more often; or set onSplitError=fail, which holds nothing back",
            )

    def _no_room(self, error: OSError) -> HeldRowsError:
        return HeldRowsError(
            f"{self._what}: rows that have to be held back until it is known that they may be given do not "
            f"fit into a temporary file in {tempfile.gettempdir()}: {error}",
            remedy="make room there, or set TMPDIR for the executors to a directory with more; or set "
            "onSplitError=fail, which holds nothing back",
        )


def bytes_of(item: Item) -> int:
    """What a batch or a row takes in memory, nearly."""
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
