"""Files that another system has read: they become known files of a flip27 query; and vice versa.

The state of a query has hashes and cursors, but not the names of the files that were read: only files that
still exist are found.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from flip27_source.discovery import DiscoveringState
from flip27_source.enumerators.files.cleaning import FinishedRanges
from flip27_source.enumerators.files.globs import has_glob
from flip27_source.enumerators.files.listing.choice import Listing
from flip27_source.enumerators.files.listing.lister import FileKnown
from flip27_source.enumerators.files.options import FILE_NAME_ONLY
from flip27_source.enumerators.files.position import NOTHING, FilesPosition, identity_of
from flip27_source.enumerators.files.seen_files.choice import strategy_named
from flip27_source.enumerators.files.seen_files.hashes import SeenFiles, path_hash
from flip27_source.enumerators.files.seen_files.strategy import DiscoveryRound, SortedOut
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Options

SPARKS_MAX_AGE_US = 7 * 86_400 * 1_000_000
"""The default of ``maxFileAge`` in Spark's file source."""


def state_with_known(paths: Iterable[str], *, newest_us: int, name_only: bool) -> DiscoveringState[Any]:
    """The state of an enumerator that knows these files and no others, and has none waiting.

    Args:
        newest_us: the modification time of the newest of them, microseconds since the epoch.
        name_only: files are identified only by their names (``fileNameOnly``).
    """
    seen = SeenFiles.of(path_hash(identity_of(path, (), name_only=name_only)) for path in paths)
    position = replace(NOTHING, seen=seen.runs, files=len(seen), newest_us=newest_us)
    return DiscoveringState(position=position, pages=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The files of a path, compared with those that another system has read.

    Attributes:
        found: how many files the path has. known: how many of them were read.
        new: the paths of the others, which the query reads first, sorted.
        gone: how many files were read and no longer exist, or are elsewhere.
        lookalikes: new files with the name and the modification time of a file that was read elsewhere.
        old: new files that are older than the newest known one by more than 7 days, which Spark leaves out.
    """

    found: int
    known: int
    new: list[str]
    gone: int
    lookalikes: list[str]
    old: int


def compared(read: Mapping[str, int], options: Options) -> Comparison:
    """The files that a query with these options finds now, compared with those that were read.

    Args:
        read: the modification times, in milliseconds since the epoch, of the files that were read; 0 if a
            time is not known.
    """
    listing = Listing.of(options)
    listing.lister.check_root()
    by_name = options[FILE_NAME_ONLY]
    keys = {_name(path) for path in read} if by_name else read.keys()
    new: list[tuple[str, int]] = []
    known: set[str] = set()
    for path, info in listing.known_files():
        if (_name(path) if by_name else path) in keys:
            known.add(path)
        else:
            new.append((path, info.modified_us))
    newest_us = max(read.values(), default=0) * 1000
    elsewhere = {(_name(path), modified_ms) for path, modified_ms in read.items() if path not in known}
    return Comparison(
        found=len(known) + len(new),
        known=len(known),
        new=sorted(path for path, _ in new),
        gone=len(read) - len(known & read.keys()),
        lookalikes=sorted(path for path, us in new if (_name(path), us // 1000) in elsewhere),
        old=sum(us < newest_us - SPARKS_MAX_AGE_US for _, us in new),
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonPath:
    """Where the files of a list are.

    Attributes:
        path: a directory or a glob; None if the files have no directory in common.
        is_recursive: whether the files are in directories at different depths.
    """

    path: str | None
    is_recursive: bool


def common_path(paths: Iterable[str]) -> CommonPath:
    """The narrowest path that finds all of these files.

    Directories of partitions (``day=1``) belong to the directory above them. A directory that contains all
    files is preferred to a glob if the directories below it have different depths.
    """
    folders = {_above_partitions(path.rpartition("/")[0]) for path in paths}
    parts = [folder.split("/") for folder in sorted(folders)]
    common = [names[0] for names in takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))]
    top = "/".join(common)
    if not top.strip("/") or top.endswith((":", ":/")):
        return CommonPath(path=None, is_recursive=False)
    depths = {len(folder) for folder in parts}
    if depths == {len(common)}:
        return CommonPath(path=top, is_recursive=False)
    if len(depths) > 1 or has_glob(top):
        return CommonPath(path=top, is_recursive=True)
    levels = zip(*(folder[len(common) :] for folder in parts), strict=True)
    globs = [names[0] if len(set(names)) == 1 and not has_glob(names[0]) else "*" for names in levels]
    return CommonPath(path="/".join([top, *globs]), is_recursive=False)


def _above_partitions(folder: str) -> str:
    while "=" in (name := folder.rpartition("/"))[2]:
        folder = name[0]
    return folder


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
    left = FinishedRanges()
    is_all_left: dict[str, bool] = {}
    for split in waiting:
        is_all_left[split.path] = left.completes(split) or is_all_left.get(split.path, False)
    read = [(path, info) for path, info in files.known if path not in is_all_left]
    unread = [*files.new, *files.late, *(file for file in files.known if file[0] in is_all_left)]
    newest_us = max((info.modified_us for _, info in read), default=0)
    return ReadFiles(
        read=read,
        unread=sorted(path for path, _ in unread),
        partly=sorted(path for path, _ in unread if not is_all_left.get(path, True)),
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
