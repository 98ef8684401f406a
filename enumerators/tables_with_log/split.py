"""What the splits of such sources have in common. Pure."""

from __future__ import annotations

from typing import Any

from flip27_source.split import SplitSize


class ChunkOrLog:
    """A chunk of a table, with the number of its rows when it was cut, or the log: with or without an end."""

    __slots__ = ()
    rows: int | None
    log: Any

    @property
    def size(self) -> SplitSize:
        log = self.log
        size = None if log is None or log.end is None else log.end - log.first
        return SplitSize(files=0, rows=self.rows, bytes=size)
