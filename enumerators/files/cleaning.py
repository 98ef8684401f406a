"""Cleaning: archives or deletes files that were read to their end, if they have not changed.

Each action is stored with its checkpoint and performed when that batch is complete, either immediately or
after ``cleanSource.retentionDuration``. It is performed at least once. An action is complete if the file is
gone or is in the archive.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.archive import LocalFile, RemoteFile, archive, entry_of
from flip27_source.enumerators.files.entries import has_version_tag, version_tag_of, was_modified_at
from flip27_source.enumerators.files.globs import expand_paths, split_glob
from flip27_source.enumerators.files.listing.errors import has_a_user
from flip27_source.enumerators.files.listing.lister import GlobLevels
from flip27_source.enumerators.files.listing.local_disk import is_one_file, local_root
from flip27_source.enumerators.files.real_folders import open_below
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import OptionError
from flip27_source.file_systems.durable_files import DurableFiles
from flip27_source.file_systems.file_ids import ALL_TIMES, FileSplitId
from flip27_source.file_systems.paths import (
    disk_path,
    given_name,
    host_of,
    local_path,
    names_a_user,
    open_listed,
    refuse_credentials,
)
from flip27_source.log import LOG
from flip27_source.options import Options

_SAME_STORE = {"s3a": "s3", "gcs": "gs", "abfss": "abfs", "az": "abfs"}
_CHANGED = "has changed since it was found"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanFile:
    """A file to move to ``archive``, or to delete if that is None; later runs decide by their own options.

    Attributes:
        path, length, modified_us, etag: the file as it was found; a changed file stays.
        is_whole: no version or range of it was read. name_only: the file is known only by its name.
    """

    path: str
    length: int
    modified_us: int
    etag: str | None = None
    archive: str | None = None
    is_whole: bool = False
    name_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartlyRead:
    """A file with some ranges in complete batches and others not.

    Attributes:
        path, modified_us, length, etag: the version of the file; an old state has no length (-1) and ETag.
        ranges: start and end of the ranges that were read, in order; adjacent ranges are joined.
        by_time: true if they are ranges of event times, not of bytes.
    """

    path: str
    modified_us: int
    ranges: tuple[tuple[int, int], ...]
    length: int = -1
    etag: str | None = None
    by_time: Literal[True] | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def of(cls, action: CleanFile) -> PartlyRead:
        """A file that was read to its end."""
        return cls(
            path=action.path,
            modified_us=action.modified_us,
            ranges=((0, action.length),),
            length=action.length,
            etag=action.etag,
        )

    def without(self, again: Iterable[FileSplitId]) -> PartlyRead:
        """What was read, without ranges that are read again."""
        left = self
        for gone in again:
            by_time = _by_time(gone.bucket)
            if by_time and left.ranges == ((0, left.length),):
                left = replace(left, ranges=(ALL_TIMES,), by_time=by_time)
            start, end = gone.part
            cuts = [((a, min(b, start)), (max(a, end), b)) for a, b in left.ranges]
            # What a range of bytes has of a bucket is not known.
            kept = [(a, b) for cut in cuts for a, b in cut if a < b] if left.by_time == by_time else []
            left = replace(left, ranges=tuple(kept))
        return left


class FinishedRanges:
    """Keeps the finished ranges of large files until the whole file was read; duplicates are allowed."""

    def __init__(self, restored: Iterable[PartlyRead] = ()) -> None:
        self._read = {replace(item, ranges=()): item.ranges for item in restored}

    def completes(self, split: FileSplit) -> bool:
        """Add a finished split; True if its file is now read to the end."""
        if split.start == 0 and split.known_end == split.length and not split.bucket:
            return True
        key = PartlyRead(
            path=split.path,
            modified_us=split.modified_us,
            ranges=(),
            length=split.length,
            etag=split.etag,
            by_time=_by_time(split.bucket),
        )
        read = self._read.get(key, ())
        if split.version is None:
            read = (*read, *self._read.pop(replace(key, length=-1, etag=None), ()))
        part = split.file_id.part if split.bucket else (split.start, split.known_end)
        ranges = _joined((*read, part))
        if ranges == (ALL_TIMES if split.bucket else (0, split.length),):
            self._read.pop(key, None)
            return True
        self._read[key] = ranges
        return False

    def stored(self) -> tuple[PartlyRead, ...]:
        """The state to restore after a restart."""
        stored = (replace(file, ranges=ranges) for file, ranges in self._read.items())
        return tuple(sorted(stored, key=lambda item: (item.path, item.modified_us, item.length)))


def _by_time(bucket: object) -> Literal[True] | msgspec.UnsetType:
    return True if bucket else msgspec.UNSET


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)


class Cleaning:
    """The actions of ``cleanSource``.

    Attributes:
        is_on: whether files are cleaned. waits: whether they stay for some time first.
    """

    def __init__(self, options: Options, paths: Sequence[str]) -> None:
        self._storage_options = options.with_prefix("storage.")
        self._archive = None
        self._name_only = options[opts.FILE_NAME_ONLY]
        self._files = DurableFiles("/")
        local = (disk_path(path) for given in paths for path in expand_paths(given))
        self._roots = [  # the local directories that the source reads
            os.path.dirname(os.path.abspath(path)) if is_one_file(path) else local_root(path)[0]
            for path in local
            if path is not None
        ]
        self.is_on = options[opts.CLEAN_SOURCE] != "off"
        self.waits = options[opts.CLEAN_SOURCE_RETENTION_DURATION] > 0
        if options[opts.CLEAN_SOURCE] == "archive":
            archive = options.require(opts.SOURCE_ARCHIVE_DIR, why="cleanSource=archive moves files there")
            self._archive = _checked_archive(archive, paths)

    def action_for(self, split: FileSplit) -> CleanFile:
        return CleanFile(
            path=split.path,
            length=split.length,
            modified_us=split.modified_us,
            etag=split.etag,
            archive=self._archived(split.path),
            is_whole=split.version is None and split.is_whole,
            name_only=self._name_only,
        )

    def perform(self, action: CleanFile) -> None:
        """Clean the file by the present options, if it has not changed. Runs on a separate thread."""
        if not self.is_on:
            LOG.warning("%s stays, because cleanSource is off now", action.path)
            return
        action = replace(action, archive=self._archived(action.path))
        if local_path(action.path) is None:
            _clean_remote(action, self._storage_options)
        else:
            _clean_local(action, self._roots, self._files)

    def _archived(self, path: str) -> str | None:
        """Below the archive ``landing/a`` for ``/landing/a`` and ``s3://bucket/landing/a``, as in Spark's."""
        is_remote = local_path(path) is None
        whole = path.partition("://")[2].partition("/")[2] if is_remote else path.lstrip("/")
        return None if self._archive is None else f"{self._archive}/{whole}"


def _clean_local(action: CleanFile, roots: Sequence[str], files: DurableFiles) -> None:
    path = disk_path(action.path) or action.path
    try:
        folder = open_below(os.path.dirname(path), roots)
    except FileNotFoundError:
        return
    if folder is None:
        _not_cleaned(action, "is not below the source's path, because its directory is a link,")
        return
    try:
        _clean_in(folder, os.path.basename(path), action, files)
    finally:
        os.close(folder)


def _clean_in(folder: int, name: str, action: CleanFile, files: DurableFiles) -> None:
    """Clean the file ``name`` in the open ``folder``, wherever its path leads now."""
    if not _is_unchanged(folder, name, action):
        return
    if action.archive is None:
        files.remove(name, folder=folder)
        return
    file = LocalFile(folder, name, action.length, lambda: _is_unchanged(folder, name, action), files)
    try:
        archive(file, disk_path(action.archive) or action.archive, action.modified_us)
    except FileNotFoundError:
        if _is_unchanged(folder, name, action):
            raise


def _is_unchanged(folder: int, name: str, action: CleanFile) -> bool:
    """True if the file is still the one that was read; False if it is gone."""
    try:
        status = os.stat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    if (status.st_size, status.st_mtime_ns // 1000) == (action.length, action.modified_us):
        return True
    _not_cleaned(action, _CHANGED)
    return False


def _clean_remote(action: CleanFile, storage_options: Mapping[str, Any]) -> None:
    file_system, path = open_listed(action.path, storage_options)
    info = entry_of(file_system, path)
    if not _is_same(info, action):
        return
    if action.archive is None:
        file_system.rm_file(path)
        return
    file = RemoteFile(file_system, path, info or {}, lambda: _is_same(entry_of(file_system, path), action))
    archive(file, given_name(action.archive), action.modified_us)


def _is_same(info: Mapping[str, Any] | None, action: CleanFile) -> bool:
    """True if the file is still the one that was read; False if it is gone."""
    if info is None:
        return False
    is_same = int(info.get("size") or 0) == action.length
    if action.etag and version_tag_of(info):
        is_same = is_same and has_version_tag(info, action.etag)
    else:
        is_same = is_same and was_modified_at(info, action.modified_us)
    if not is_same:
        _not_cleaned(action, _CHANGED)
    return is_same


def _not_cleaned(action: CleanFile, why: str) -> None:
    done = "deleted" if action.archive is None else "archived"
    LOG.warning("%s %s and was not %s", action.path, why, done)


def _checked_archive(archive: str, paths: Sequence[str]) -> str:
    """The archive directory without a trailing slash."""
    archive = archive.rstrip("/")
    if names_a_user(archive):
        raise has_a_user(archive, "option sourceArchiveDir")
    refuse_credentials(archive, "option sourceArchiveDir", OptionError)
    local = local_path(archive)
    where = os.path.abspath(local) if local is not None else archive
    for path in (path for given in paths for path in expand_paths(given)):
        if _server(archive) != _server(path):
            raise OptionError(
                f"option sourceArchiveDir is {archive}, which is not on the file system of the path {path}",
                remedy="set a directory on the same file system: files are moved there",
            )
        if _is_read(path, where) or (
            local is not None and _is_read(os.path.realpath(disk_path(path) or path), os.path.realpath(where))
        ):
            raise OptionError(
                f"option sourceArchiveDir is {archive}, which the source reads, because it is in {path}",
                remedy="set a directory that is not in or below the path, or a directory whose name begins "
                "with _",
            )
    return where


def _server(path: str) -> tuple[str, str]:
    """The protocol, empty for local paths, and the host if the file system belongs to one."""
    protocol = "" if local_path(path) is not None else path.partition("://")[0]
    return _SAME_STORE.get(protocol, protocol), host_of(path)


def _is_read(path: str, archive: str) -> bool:
    """Whether a recursive listing of a path or glob finds files in the archive."""
    local = local_path(path)
    if local is None:
        root, globs = split_glob(_name(path))
        below = root.partition("/")[2]
    else:
        root, globs = local_root(local)
        below = root.lstrip("/")
    levels = GlobLevels(globs)
    return any(
        levels.lists(f"{_name(archive)}/{name}", root, recursive=True) for name in ("file", f"{below}/file")
    )


def _name(path: str) -> str:
    """A local path; or the bucket and the name in it, without empty parts."""
    if local_path(path) is not None:
        return path
    return "/".join(part for part in path.partition("://")[2].split("/") if part)
