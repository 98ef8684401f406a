"""What a query will read first, if it starts with the files that another system has read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from flip27_source.enumerators.files.globs import any_name, name_test
from flip27_source.enumerators.files.listing.walk import FileInfo, open_listers
from flip27_source.enumerators.files.options import (
    FILE_NAME_ONLY,
    IGNORE_MISSING_FILES,
    PATH_GLOB_FILTER,
    RECURSIVE_FILE_LOOKUP,
    paths_of,
)
from flip27_source.options import Options

SPARKS_MAX_AGE_US = 7 * 86_400 * 1_000_000
"""The default of ``maxFileAge`` in Spark's file source."""


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


def listed(options: Options) -> Iterator[tuple[str, FileInfo]]:
    """Every file that a query with these options finds now, each once.

    Raises:
        OptionError: the path does not exist or cannot be listed.
    """
    lister = open_listers(
        paths_of(options), options.with_prefix("storage."), ignore_missing=options[IGNORE_MISSING_FILES]
    )
    lister.check_root()
    glob = options[PATH_GLOB_FILTER]
    matches = any_name if glob is None else name_test(glob)
    paths: set[str] = set()
    for path, info in lister.files(recursive=options[RECURSIVE_FILE_LOOKUP]):
        if path in paths or not matches(_name(path)):
            continue
        found = info()
        if found is not None:
            paths.add(path)
            yield path, found


def compared(files: Iterable[tuple[str, FileInfo]], read: Mapping[str, int], options: Options) -> Comparison:
    """The files of a path, compared with those that were read.

    Args:
        read: the modification times, in milliseconds since the epoch, of the files that were read; 0 if a
            time is not known.
    """
    by_name = options[FILE_NAME_ONLY]
    keys = {_name(path) for path in read} if by_name else read.keys()
    new: list[tuple[str, int]] = []
    known: set[str] = set()
    for path, found in files:
        key = _name(path) if by_name else path
        if key in keys:
            known.add(path)
        else:
            new.append((path, found.modified_us))
    newest_us = max(read.values(), default=0) * 1000
    elsewhere = {(_name(path), modified) for path, modified in read.items() if path not in known}
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
