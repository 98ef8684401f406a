"""Forgets files: removes them from the position, and the next listing finds them again. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from flip27_source.enumerators.files.known.exact import ExactFiles
from flip27_source.enumerators.files.known.hashes import SeenFiles, path_hash
from flip27_source.enumerators.files.known.strategy import FilesPosition
from flip27_source.errors import EditError
from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.file_systems.moved_paths import before_moves

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
    seen = SeenFiles(position.seen)
    kept: dict[str, str] = {}
    paths: dict[str, bytes] = {}
    for split_id in split_ids:
        # Users may also give the path of a file whose id has further parts.
        named = (FileSplitId.parse(split_id).path, split_id)
        forms = {path: _hash_of(path, position, name_only=name_only) for path in named}
        known = [path for path, hashed in forms.items() if hashed in seen]
        if not known:
            kept[split_id] = NOT_KNOWN
        elif known[0] in busy:
            kept[split_id] = STILL_TO_BE_READ
        else:
            paths[known[0]] = forms[known[0]]
    if not paths:
        return position, kept
    left = seen.without(frozenset(paths.values()))
    # The whole file is read again before it is cleaned.
    partly_read = tuple(item for item in position.partly_read if item.path not in paths)
    return replace(position, seen=left.runs, files=len(left), partly_read=partly_read), kept


def _hash_of(path: str, position: FilesPosition, *, name_only: bool) -> bytes:
    return path_hash(path.rpartition("/")[2] if name_only else before_moves(path, position.moves))


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
