"""Chooses the listers for the paths of a source, and which of the listed files the source takes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.globs import (
    NameTest,
    any_name,
    expand_paths,
    has_glob,
    name_test,
    split_glob,
)
from flip27_source.enumerators.files.listing.errors import has_a_user, unreachable
from flip27_source.enumerators.files.listing.fsspec_systems import FsspecLister
from flip27_source.enumerators.files.listing.lister import FileFound, FileKnown, Lister
from flip27_source.enumerators.files.listing.local_disk import LocalLister, local_root
from flip27_source.errors import OptionError
from flip27_source.file_systems.paths import (
    canonical_path,
    checked_location,
    disk_path,
    host_of,
    is_object_store,
    names_a_user,
    open_file_system,
    redacted,
)
from flip27_source.options import Options
from flip27_source.source_options import STATE_LOCATION

_STATE = ("source.json", "checkpoints/1-0.json", "segments/0.a.bin", "drivers/1.json", "drivers/1.1.alive")
"""Names like those in a lineage, the folder of a query in a state location."""


@dataclass(slots=True, kw_only=True)
class Listing:
    """The files of a source.

    Attributes:
        lister: lists its paths.
        recursive: files in directories below the paths belong to the source.
        takes: the test of names by ``pathGlobFilter``.
    """

    lister: Lister
    recursive: bool
    takes: NameTest

    @classmethod
    def of(cls, options: Options, *, may_be_emptied: bool = False) -> Listing:
        """The files of the source with these options; see :func:`open_listers`."""
        glob = options[opts.PATH_GLOB_FILTER]
        listing = cls(
            lister=open_listers(
                opts.paths_of(options),
                options.with_prefix("storage."),
                ignore_missing=options[opts.IGNORE_MISSING_FILES],
                may_be_emptied=may_be_emptied,
            ),
            recursive=options[opts.RECURSIVE_FILE_LOOKUP],
            takes=any_name if glob is None else name_test(glob),
        )
        state = options.get(STATE_LOCATION.name)
        if state is not None and listing._finds_state(state, opts.paths_of(options)):
            raise OptionError(
                f"option stateLocation is {state}, which the source reads, because it is in "
                + " or ".join(map(redacted, opts.paths_of(options))),
                remedy="stop the query, move its checkpoint and state to a directory that is not in or below "
                "the path, or whose name begins with _, and start it from there",
            )
        return listing

    def _finds_state(self, location: str, paths: Sequence[str]) -> bool:
        """Whether the files of a state location are listed, perhaps because of a link above them."""
        listers = [(self.lister, where := canonical_path(location))]
        if (local := disk_path(where)) is not None:
            real = [os.path.realpath(path) for path in map(disk_path, paths) if path is not None]
            listers.append((open_listers(real, {}), os.path.realpath(local)))
        names = [f"lineage/{name}" for name in _STATE if self.takes(name.rpartition("/")[2])]
        return any(
            found is not None and found[0].startswith(where)
            for lister, where in listers
            for name in names
            for found in [lister.entry(f"{where}/{name}", recursive=self.recursive)]
        )

    def files(self, after: str | None = None) -> Iterator[FileFound]:
        """Every file, perhaps more than once; only those whose paths come after ``after``, if it is set."""
        if after is None:
            listed = self.lister.files(recursive=self.recursive)
        else:
            listed = self.lister.files_after(after, recursive=self.recursive)
        if self.takes is any_name:
            return listed
        return (file for file in listed if self.takes(file[0].rpartition("/")[2]))

    def known_files(self, after: str | None = None, *, gone: list[str] | None = None) -> Iterator[FileKnown]:
        """Like ``files``, each once, with size and time; files that have vanished are added to ``gone``."""
        paths: set[str] = set()
        for path, request in self.files(after):
            if path in paths:
                continue
            info = request()
            if info is not None:
                paths.add(path)
                yield path, info
            elif gone is not None:
                gone.append(path)


class ManyLister(Lister):
    """Lists one directory after the other; a file in several of them is listed several times."""

    def __init__(self, listers: Sequence[Lister]) -> None:
        self._listers = listers

    def check_root(self) -> None:
        for lister in self._listers:
            lister.check_root()

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        for lister in self._listers:
            yield from lister.files(recursive=recursive)

    def files_after(self, path: str, *, recursive: bool) -> Iterator[FileFound]:
        for lister in self._listers:
            yield from lister.files_after(path, recursive=recursive)

    def entry(self, path: str, *, recursive: bool) -> FileFound | None:
        entries = (lister.entry(path, recursive=recursive) for lister in self._listers)
        return next((entry for entry in entries if entry is not None), None)

    def remember(self, unsettled: Collection[str]) -> None:
        for lister in self._listers:
            lister.remember(unsettled)

    def forget(self) -> None:
        for lister in self._listers:
            lister.forget()


def open_listers(
    paths: Sequence[str],
    storage_options: Mapping[str, Any],
    *,
    ignore_missing: bool = False,
    may_be_emptied: bool = False,
) -> Lister:
    """One lister for several paths, each of which may be a glob or an fsspec URL.

    Args:
        ignore_missing: a missing path has no files; otherwise it is an error.
        may_be_emptied: the same, only for object stores: all files may have been read and removed.
    """
    listers = [
        _open_one(path, storage_options, ignore_missing, may_be_emptied)
        for given in paths
        for path in expand_paths(given)
    ]
    return listers[0] if len(listers) == 1 else ManyLister(listers)


def _open_one(
    path: str, storage_options: Mapping[str, Any], ignore_missing: bool, may_be_emptied: bool
) -> Lister:
    path = checked_location(path, what="path", error_type=OptionError)
    local = disk_path(path)
    if local is not None:
        return LocalLister(*local_root(local), ignore_missing=ignore_missing)
    if names_a_user(path):
        raise has_a_user(path)
    file_system, root = open_file_system(path, storage_options, what="path", error_type=OptionError)
    globs: list[str] = []
    if has_glob(root) and not _is_folder(file_system, root, path):
        root, globs = split_glob(root)
    ignore_missing = ignore_missing or (may_be_emptied and is_object_store(file_system))
    kind: type[FsspecLister] = FsspecLister
    if hasattr(file_system, "call_s3"):
        from flip27_source.enumerators.files.listing.s3 import S3Lister

        kind = S3Lister
    elif "http" in file_system.protocol:
        from flip27_source.enumerators.files.listing.web_servers import HttpLister

        kind = HttpLister
    return kind(file_system, root, redacted(path), globs, ignore_missing=ignore_missing, host=host_of(path))


def _is_folder(file_system: Any, root: str, path: str) -> bool:
    try:
        return bool(file_system.isdir(root))
    except Exception as error:
        raise unreachable(redacted(path), error, file_system) from error
