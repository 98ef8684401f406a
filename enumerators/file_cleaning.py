"""Cleaning: files that were read to their end are archived or deleted, if they are still the same.

What is due is a value that is stored with the checkpoint and carried out after it, at least once: a
file that is gone, or lies in the archive, is done.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.entries import etag_of, modified_us
from flip27_source.enumerators.file_globs import expand_paths, is_matched, split_glob
from flip27_source.enumerators.file_split import FileSplit
from flip27_source.enumerators.files_options import CLEAN_SOURCE, SOURCE_ARCHIVE_DIR
from flip27_source.enumerators.listing import is_hidden
from flip27_source.enumerators.real_folders import open_below
from flip27_source.errors import ActionError, OptionError
from flip27_source.file_systems import host_of, is_object_store, local_path, open_file_system
from flip27_source.options import Options

_SAME_STORE = {"s3a": "s3", "gcs": "gs", "abfss": "abfs"}
_log = logging.getLogger("flip27_source")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanFile:
    """A file that is to be moved to ``archive``, or deleted where that is None.

    Attributes:
        path, length, modified_us, etag: the file as it was found; anything else stays where it is.
    """

    path: str
    length: int
    modified_us: int
    etag: str | None = None
    archive: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartlyRead:
    """A file of which some ranges are in complete batches and others are not.

    Attributes:
        path, modified_us: which file, and which version of it.
        ranges: start and end of what was read, in order, joined where they touch.
    """

    path: str
    modified_us: int
    ranges: tuple[tuple[int, int], ...]


class FinishedRanges:
    """Keeps the ranges of large files until all of a file was read. May be told of a range twice."""

    def __init__(self, restored: Iterable[PartlyRead] = ()) -> None:
        self._read = {(item.path, item.modified_us): item.ranges for item in restored}

    def completes(self, split: FileSplit) -> bool:
        """Whether the file of this split is read to its end, now that the split is."""
        key = (split.path, split.modified_us)
        end = split.length if split.end is None else split.end
        if split.start == 0 and end == split.length:
            return True
        ranges = _joined((*self._read.get(key, ()), (split.start, end)))
        if ranges == ((0, split.length),):
            self._read.pop(key, None)
            return True
        self._read[key] = ranges
        return False

    def stored(self) -> tuple[PartlyRead, ...]:
        """What has to be known after a restart."""
        return tuple(
            PartlyRead(path=path, modified_us=modified, ranges=ranges)
            for (path, modified), ranges in sorted(self._read.items())
        )


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)


class Cleaning:
    """What ``cleanSource`` asks for, and how it is done."""

    def __init__(self, options: Options, paths: Sequence[str]) -> None:
        self._storage_options = options.with_prefix("storage.")
        self._archive = None
        self._roots = _local_roots(paths)
        self.wanted = options[CLEAN_SOURCE] != "off"
        if options[CLEAN_SOURCE] == "archive":
            archive = options.require(SOURCE_ARCHIVE_DIR, why="cleanSource=archive moves files there")
            self._archive = _checked_archive(archive, paths)

    def action_for(self, split: FileSplit) -> CleanFile:
        """What is due for a file that was read to its end."""
        archive = None if self._archive is None else f"{self._archive}/{_whole_path(split.path)}"
        return CleanFile(
            path=split.path,
            length=split.length,
            modified_us=split.modified_us,
            etag=split.etag,
            archive=archive,
        )

    def perform(self, action: CleanFile) -> None:
        """Do what is due, if the file is still what was read. Runs on a thread."""
        if local_path(action.path) is None:
            _clean_remote(action, self._storage_options)
        else:
            _clean_local(action, self._roots)


def _local_roots(paths: Sequence[str]) -> list[str]:
    """The local directories below which the source reads."""
    found = (local_path(path) for given in paths for path in expand_paths(given))
    return [
        os.path.abspath(path if os.path.isdir(path) else split_glob(path)[0])
        for path in found
        if path is not None
    ]


def _whole_path(path: str) -> str:
    """``/landing/a`` as ``landing/a``, ``s3://bucket/landing/a`` as ``landing/a``: as Spark archives."""
    if local_path(path) is None:
        return path.partition("://")[2].partition("/")[2]
    return path.lstrip("/")


def _clean_local(action: CleanFile, roots: Sequence[str]) -> None:
    path = local_path(action.path) or action.path
    try:
        folder = open_below(os.path.dirname(path), roots)
    except FileNotFoundError:
        return
    if folder is None:
        _not_cleaned(action, "lies elsewhere than below the source's path, behind a link,")
        return
    try:
        _clean_in(folder, path, action)
    finally:
        os.close(folder)


def _clean_in(folder: int, path: str, action: CleanFile) -> None:
    """Clean the file ``path``, which lies in ``folder`` whatever its path leads to by now."""
    name = os.path.basename(path)
    try:
        found = os.stat(name, dir_fd=folder)
    except FileNotFoundError:
        return
    if (found.st_size, found.st_mtime_ns // 1000) != (action.length, action.modified_us):
        _left_alone(action)
        return
    if action.archive is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        return
    target = local_path(action.archive) or action.archive
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.lexists(target) and not _is_copy(target, action):
        # An earlier file of the same path is never written over.
        target = f"{target}.{action.modified_us}"
    try:
        os.replace(name, target, src_dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move_across_devices(path, target)


def _is_copy(target: str, action: CleanFile) -> bool:
    found = os.stat(target)
    return (found.st_size, found.st_mtime_ns // 1000) == (action.length, action.modified_us)


def _move_across_devices(path: str, target: str) -> None:
    """Copy, make durable, then delete: a crash in between leaves the source, and it is done again."""
    folder, _, name = target.rpartition("/")
    unfinished = f"{folder}/.{name}.flip27"
    shutil.copy2(path, unfinished)
    with open(unfinished, "rb") as file:
        os.fsync(file.fileno())
    os.replace(unfinished, target)
    os.unlink(path)


def _clean_remote(action: CleanFile, storage_options: Mapping[str, Any]) -> None:
    file_system, path = open_file_system(action.path, storage_options, what="path", error_type=ActionError)
    found = _info(file_system, path)
    if found is None:
        return
    if not _is_same(found, action):
        _left_alone(action)
        return
    if action.archive is not None:
        target = file_system._strip_protocol(action.archive)
        there = _info(file_system, target)
        if there is not None and not _is_equal(there, found):
            target = f"{target}.{action.modified_us}"
        if not is_object_store(file_system):
            file_system.makedirs(target.rpartition("/")[0], exist_ok=True)
            if file_system.protocol != "memory":
                file_system.mv(path, target)
                return
        file_system.cp_file(path, target)
        copied = _info(file_system, target)
        if copied is None or int(copied.get("size") or 0) != action.length:
            raise ActionError(
                f"{action.path} was copied to {target}, which does not have its {action.length} bytes; "
                "the source stays",
                remedy="check the archive's file system; it is tried again",
            )
    file_system.rm_file(path)


def _info(file_system: Any, path: str) -> Mapping[str, Any] | None:
    """What the server says now; None when there is no such file."""
    file_system.invalidate_cache(path.rpartition("/")[0])
    try:
        found: Mapping[str, Any] = file_system.info(path)
    except FileNotFoundError:
        return None
    return found if found.get("type") == "file" else None


def _is_same(found: Mapping[str, Any], action: CleanFile) -> bool:
    if int(found.get("size") or 0) != action.length:
        return False
    if action.etag and etag_of(found):
        return etag_of(found) == action.etag
    # Some servers tell the fraction of a second in one answer and not in the other.
    return modified_us(found) // 1_000_000 == action.modified_us // 1_000_000


def _is_equal(there: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether what lies in the archive may be written over: by its tag it is a copy of the same bytes.

    Without tags nothing is: what a crash left of a copy stays as if it were an earlier file, beside the
    whole one.
    """
    return there.get("size") == found.get("size") and etag_of(there) == etag_of(found) != ""


def _left_alone(action: CleanFile) -> None:
    _not_cleaned(action, "has changed since it was found")


def _not_cleaned(action: CleanFile, why: str) -> None:
    done = "deleted" if action.archive is None else "archived"
    _log.warning("%s %s and was not %s", action.path, why, done)


def _checked_archive(archive: str, paths: Sequence[str]) -> str:
    """The archive directory without a slash at its end.

    Raises:
        OptionError: it is elsewhere than the files, or the source would read what lies in it.
    """
    archive = archive.rstrip("/")
    local = local_path(archive)
    where = os.path.abspath(local) if local is not None else archive
    for path in (one for given in paths for one in expand_paths(given)):
        if _server(archive) != _server(path):
            raise OptionError(
                f"option sourceArchiveDir is {archive}, on another file system than the path {path}",
                remedy="give a directory on the same file system: files are moved there",
            )
        if _would_read(path, where):
            raise OptionError(
                f"option sourceArchiveDir is {archive}, which is in what the source reads: {path}",
                remedy="give a directory that is not in or below the path, or one whose name begins with _",
            )
    return where


def _server(path: str) -> tuple[str, str]:
    """The protocol, empty for local paths, and the host where the file system is one of a host."""
    protocol = "" if local_path(path) is not None else path.partition("://")[0]
    return _SAME_STORE.get(protocol, protocol), host_of(path)


def _would_read(path: str, archive: str) -> bool:
    """Whether the directory is in or below what a path or glob names, and nothing on the way is hidden."""
    local = local_path(path)
    pattern = _parts(path if local is None else os.path.abspath(local))
    parts = _parts(archive)
    if not is_matched(parts, pattern):
        return False
    hidden = [part for part, glob in zip(parts, pattern, strict=False) if is_hidden(part) and part != glob]
    return not hidden and not any(is_hidden(part) for part in parts[len(pattern) :])


def _parts(path: str) -> list[str]:
    return [part for part in path.partition("://")[2 if "://" in path else 0].split("/") if part]
