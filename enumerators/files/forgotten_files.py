"""Forgets files: removes them from the position, and tells which are found again. Pure."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.listing.lister import FileInfo
from flip27_source.enumerators.files.notifications.state import RemovedFile
from flip27_source.enumerators.files.position import FilesPosition, identity_of
from flip27_source.enumerators.files.seen_files.by_cursor import CURSORS, hashes_of
from flip27_source.enumerators.files.seen_files.by_hash import ExactFiles, version_key
from flip27_source.enumerators.files.seen_files.hashes import SeenFiles, path_hash
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import EditError
from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.file_systems.paths import local_path
from flip27_source.options import Options

IF_LATE = "if it counts as late and onLateFile=read"
IF_THIS_VERSION = "if the file still has this version"
NOT_KNOWN = "is unknown: discovery has not found such a file"
STILL_TO_BE_READ = "is not read yet, or is quarantined"


def forgotten(
    position: FilesPosition, split_ids: Collection[str], *, busy: Collection[str], name_only: bool
) -> tuple[FilesPosition, dict[str, str]]:
    """The position without these files, and the reasons why some of them stay, by split id.

    Args:
        busy: paths of files that are not read yet, or are quarantined.
        name_only: files are identified only by their names.

    Raises:
        EditError: the strategy of the position does not record single files.
    """
    _check(position)

    def hash_of(path: str) -> bytes:
        return path_hash(identity_of(path, position.moves, name_only=name_only))

    seen, needed = SeenFiles(position.seen), set(map(hash_of, busy))
    refused: dict[str, str] = {}
    hashes: set[bytes] = set()
    for split_id in split_ids:
        # Users may also give a path, even one that looks like the id of a range or version of another file.
        paths = (split_id, FileSplitId.parse(split_id).path)
        hashed = next((hashed for hashed in map(hash_of, paths) if hashed in seen), None)
        if hashed is None:
            refused[split_id] = NOT_KNOWN
        elif hashed in needed:
            refused[split_id] = STILL_TO_BE_READ
        else:
            hashes.add(hashed)
    if not hashes:
        return position, refused
    # The whole file is read again before it is cleaned.
    partly_read = tuple(item for item in position.partly_read if hash_of(item.path) not in hashes)
    return replace(_without(position, seen, hashes), partly_read=partly_read), refused


def found_again(position: FilesPosition, splits: Sequence[FileSplit], options: Options) -> Mapping[str, str]:
    """Which of these splits, in the order of their batches, a listing finds, and on what it depends."""
    name_only = options[opts.FILE_NAME_ONLY]

    def hash_of(path: str) -> bytes:
        return path_hash(identity_of(path, position.moves, name_only=name_only))

    if position.strategy in CURSORS:
        infos = {split.path: _as_late_as_possible(split) for split in splits}
        files = CURSORS[position.strategy](infos.items(), hash_of, position, hashes_of(position.window))
        paths = dict.fromkeys((path for path, _ in files.new), "")
        paths |= dict.fromkeys((path for path, _ in files.late), IF_LATE)
        return {split.split_id: paths[split.path] for split in splits if split.path in paths}
    seen, versions = SeenFiles(position.seen), SeenFiles(position.versions or ())

    def is_known(split: FileSplit) -> bool:
        if position.versions is None or split.version is None:
            return hash_of(split.path) in seen
        path = identity_of(split.path, position.moves, name_only=False)
        return version_key(path, split.version, split.length) in versions

    unknown: list[FileSplit] = []
    known_paths: set[str] = set()
    for split in splits:
        if not is_known(split):
            unknown.append(split)
        elif split.version is not None:
            known_paths.add(split.path)
    newest = {split.path: split.version for split in unknown}

    def is_certain(split: FileSplit) -> bool:
        return split.version == newest[split.path] and split.path not in known_paths

    return {split.split_id: "" if is_certain(split) else IF_THIS_VERSION for split in unknown}


def _as_late_as_possible(split: FileSplit) -> FileInfo:
    """A file on local disk may have appeared after it was modified; when, its split does not say."""
    changed_us = 0 if local_path(split.path) is None else sys.maxsize
    return FileInfo(length=split.length, modified_us=split.modified_us, changed_us=changed_us)


def without_removed(
    position: FilesPosition, files: Collection[RemovedFile], *, name_only: bool
) -> FilesPosition:
    """The position without files that were removed from their file system before they were read."""
    if not files:
        return position
    hashes = [path_hash(identity_of(file.path, position.moves, name_only=name_only)) for file in files]
    position = _without(position, SeenFiles(position.seen), hashes)
    if position.versions is None:
        return position
    versions = {
        version_key(identity_of(file.path, position.moves, name_only=False), file.version or "", file.length)
        for file in files
    }
    return replace(position, versions=SeenFiles(position.versions).without(versions).runs)


def after_notifications(position: FilesPosition | None, *, name_only: bool) -> FilesPosition | None:
    """The position for a listing, without the files that an earlier run with notifications was to forget."""
    if position is None or not position.notified or not position.notified.to_forget:
        return position
    rest = without_removed(position, position.notified.to_forget, name_only=name_only)
    return replace(rest, notified=replace(position.notified, to_forget=()))


def _without(position: FilesPosition, seen: SeenFiles, hashes: Collection[bytes]) -> FilesPosition:
    rest = seen.without(frozenset(hashes))
    return replace(position, seen=rest.runs, files=len(rest))


def _check(position: FilesPosition) -> None:
    if position.strategy != ExactFiles.name:
        raise EditError(
            f"seenFiles={position.strategy} records how far the files were read, not single files",
            remedy="replay them, or rewind the source",
        )
    if position.versions is not None:
        raise EditError(
            "allowOverwrites records versions of files, which a path alone does not identify",
            remedy="replay the files, or write them again: a changed file is read again",
        )
