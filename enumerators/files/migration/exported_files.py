"""The files that a flip27 query has read, from its state and a listing of its path.

The state has hashes and cursors, but not the names of the files that were read: only files that still exist
are found.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from flip27_source.enumerators.files.listing.choice import Listing
from flip27_source.enumerators.files.listing.lister import FileKnown
from flip27_source.enumerators.files.migration.imported_files import SPARKS_MAX_AGE_US
from flip27_source.enumerators.files.options import FILE_NAME_ONLY
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.enumerators.files.seen_files.choice import strategy_named
from flip27_source.enumerators.files.seen_files.strategy import DiscoveryRound, SortedOut
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


def read_files(position: FilesPosition | None, waiting: Iterable[FileSplit], options: Options) -> ReadFiles:
    """The files that were read.

    Args:
        position: the position of discovery; None before the first listing.
        waiting: splits that were found and not read.
    """
    listing = Listing.of(options)
    listing.lister.check_root()
    files = (
        SortedOut(new=[*listing.known_files()]) if position is None else _sorted(listing, position, options)
    )
    bytes_left: dict[str, int] = defaultdict(int)
    for split in waiting:
        bytes_left[split.path] += (split.length if split.end is None else split.end) - split.start
    read = [(path, info) for path, info in files.known if path not in bytes_left]
    unread = [*files.new, *files.late, *(file for file in files.known if file[0] in bytes_left)]
    newest_us = max((info.modified_us for _, info in read), default=0)
    return ReadFiles(
        read=read,
        unread=sorted(path for path, _ in unread),
        partly=sorted(path for path, info in unread if 0 < bytes_left.get(path, 0) < info.length),
        old=sorted(path for path, info in unread if info.modified_us < newest_us - SPARKS_MAX_AGE_US),
    )


def _sorted(listing: Listing, position: FilesPosition, options: Options) -> SortedOut:
    current = DiscoveryRound(
        listing=listing,
        name_only=options[FILE_NAME_ONLY],
        choose=lambda *_: None,
        on_late="report",
        now_ms=time.time_ns() // 1_000_000,
        moves=position.moves,
    )
    return strategy_named(position.strategy, options).sort_out(current, position)
