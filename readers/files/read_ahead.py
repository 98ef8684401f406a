"""Fetches the next small files of a subtask from remote stores while the current file is parsed.

A request over the network takes tens of milliseconds, however small the file is. Without fetching ahead,
many small files would be read at that pace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.file_systems.paths import local_path
from flip27_source.options import Options
from flip27_source.readers.files.input import Fetched, answers_many, file_system, read_whole, reading

SMALL_BYTES = 8 << 20
"""A larger file is not fetched ahead as a whole."""

_THREADS = 8
_AHEAD_FILES = 32
_AHEAD_BYTES = 32 << 20


def fetched_ahead(
    splits: Iterable[FileSplit], options: Options, small_bytes: int = SMALL_BYTES
) -> Iterator[tuple[FileSplit, Fetched | None]]:
    """The splits, in order, each with its content if it is fetched ahead.

    Small whole files are fetched ahead if their store supports concurrent requests: at most 32 files and
    32 MiB after the last split that was returned.
    """
    with _Fetcher(options, small_bytes) as fetcher:
        waiting: deque[tuple[FileSplit, Fetched | None]] = deque()
        ahead_bytes = 0
        for split in splits:
            waiting.append((split, fetched := fetcher.begin(split)))
            ahead_bytes += 0 if fetched is None else split.length
            while waiting and (fetched is None or _is_enough(len(waiting), ahead_bytes)):
                yield (given := waiting.popleft())
                ahead_bytes -= 0 if given[1] is None else given[0].length
        yield from waiting


def _is_enough(files: int, size: int) -> bool:
    return files > _AHEAD_FILES or size > _AHEAD_BYTES


class _Fetcher:
    """The threads that fetch; started with the first suitable file."""

    def __init__(self, options: Options, small_bytes: int) -> None:
        self._options = options
        self._small_bytes = small_bytes
        self._threads: ThreadPoolExecutor | None = None

    def begin(self, split: FileSplit) -> Fetched | None:
        """Start to fetch a file; None if the file is not suitable for fetching ahead."""
        if local_path(split.path) is not None or split.start or split.end is not None:
            return None
        if not 0 < split.length <= self._small_bytes or not _answers_many(split.path, self._options):
            return None
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="flip27-read-ahead")
        return self._threads.submit(read_whole, split, self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _answers_many(path: str, options: Options) -> bool:
    """True if the path's file system supports concurrent requests.

    The file system is created here, because otherwise each thread would create its own.
    """
    try:
        with reading(path, options):
            return answers_many(file_system(path, options)[0])
    except SplitReadError:  # reported later, when the file is read
        return False
