"""The files that a flip27 query has read, from its state and a listing of its path.

The state has hashes and cursors, but not the names of the files that were read: only files that still exist
are found.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.files.globs import any_name, name_test
from flip27_source.enumerators.files.known.choice import strategy_named
from flip27_source.enumerators.files.known.strategy import DiscoveryRound, FileKnown, FilesPosition
from flip27_source.enumerators.files.listing.walk import open_listers
from flip27_source.enumerators.files.migration.comparison import SPARKS_MAX_AGE_US
from flip27_source.enumerators.files.options import (
    FILE_NAME_ONLY,
    IGNORE_MISSING_FILES,
    PATH_GLOB_FILTER,
    RECURSIVE_FILE_LOOKUP,
    paths_of,
)
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFiles:
    """The existing files of a path.

    Attributes:
        read: files that were read to their end.
        unread: the paths of the others, sorted.
        partly: the unread files of which some ranges were read.
        old: the unread files that Spark leaves out by its default for ``maxFileAge``.
    """

    read: list[FileKnown]
    unread: list[str]
    partly: list[str]
    old: list[str]


def read_files(position: FilesPosition | None, unread: Iterable[FileSplit], options: Options) -> ReadFiles:
    """The files that were read.

    Args:
        position: the position of discovery; None before the first listing.
        unread: splits that were found and not read.
        options: the source's options, with its path.

    Raises:
        OptionError: the path does not exist or cannot be listed.
    """
    lister = open_listers(
        paths_of(options), options.with_prefix("storage."), ignore_missing=options[IGNORE_MISSING_FILES]
    )
    lister.check_root()
    glob = options[PATH_GLOB_FILTER]
    current = DiscoveryRound(
        lister=lister,
        recursive=options[RECURSIVE_FILE_LOOKUP],
        name_matches=any_name if glob is None else name_test(glob),
        name_only=options[FILE_NAME_ONLY],
        choose=_none,
        on_late="report",
        now_ms=time.time_ns() // 1_000_000,
        moves=() if position is None else position.moves,
    )
    known: list[FileKnown] = []
    new = [*current.matching()] if position is None else []
    if position is not None:
        found = strategy_named(position.strategy, options).sort_out(current, position)
        known, new = found.known, [*found.new, *found.late]
    left = _bytes_left(unread)
    read = [(path, info) for path, info in known if path not in left]
    others = [*new, *((path, info) for path, info in known if path in left)]
    newest_us = max((info.modified_us for _, info in read), default=0)
    return ReadFiles(
        read=read,
        unread=sorted(path for path, _ in others),
        partly=sorted(path for path, info in others if path in left and left[path] < info.length),
        old=sorted(path for path, info in others if info.modified_us < newest_us - SPARKS_MAX_AGE_US),
    )


def _bytes_left(unread: Iterable[FileSplit]) -> dict[str, int]:
    """How many bytes of each file that was found were not read."""
    left: dict[str, int] = defaultdict(int)
    for split in unread:
        left[split.path] += (split.length if split.end is None else split.end) - split.start
    return dict(left)


def _none(*_: Any) -> None:
    return None
