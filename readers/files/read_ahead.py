"""Fetches the next small files of a subtask from remote stores while the current file is parsed.

A request over the network takes tens of milliseconds, however small the file is. Without fetching ahead,
many small files would be read at that pace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

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
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="flip27-read-ahead")
    waiting: deque[tuple[FileSplit, Fetched | None]] = deque()
    ahead_bytes = 0
    try:
        for split in splits:
            is_suitable = _is_suitable(split, options, small_bytes)
            fetched = threads.submit(read_whole, split, options) if is_suitable else None
            waiting.append((split, fetched))
            ahead_bytes += 0 if fetched is None else split.length
            while waiting and (fetched is None or len(waiting) > _AHEAD_FILES or ahead_bytes > _AHEAD_BYTES):
                yield (given := waiting.popleft())
                ahead_bytes -= 0 if given[1] is None else given[0].length
        yield from waiting
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _is_suitable(split: FileSplit, options: Options, small_bytes: int) -> bool:
    """True for a small whole file whose file system supports concurrent requests.

    The file system is created here, because otherwise each thread would create its own.
    """
    if local_path(split.path) is not None or not split.is_whole:
        return False
    if not 0 < split.length <= small_bytes:
        return False
    try:
        with reading(split.path, options):
            return answers_many(file_system(split.path, options)[0])
    except SplitReadError:  # reported later, when the file is read
        return False
