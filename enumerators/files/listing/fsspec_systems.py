"""Lists any fsspec file system: one listing gives names, sizes and times together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flip27_source.enumerators.files.entries import etag_of, modified_us, version_tag_of
from flip27_source.enumerators.files.listing.errors import (
    no_such_path,
    not_answered,
    refuse_sink_log,
    unreachable,
)
from flip27_source.enumerators.files.listing.lister import (
    FileFound,
    FileInfo,
    GlobLevels,
    Lister,
    is_hidden,
    is_partition,
)
from flip27_source.enumerators.files.listing.skipped_paths import DirectoryLinks
from flip27_source.errors import DiscoveryError
from flip27_source.file_systems.paths import (
    check_name,
    connected,
    host_of,
    is_azure,
    is_object_store,
    listed_name,
    listed_path,
    local_path,
    says_gone,
)


class FsspecLister(Lister):
    """A directory or a file of an fsspec file system."""

    def __init__(
        self,
        file_system: Any,
        root: str,
        shown: str,
        globs: Sequence[str] = (),
        *,
        ignore_missing: bool = False,
        host: str = "",
    ) -> None:
        self._opened = file_system
        self._directory_links = DirectoryLinks()
        self._host = host
        self._root = root.rstrip("/")
        self._shown = shown
        self._is_file = False
        self._levels = GlobLevels(globs)
        self._ignore_missing = ignore_missing

    @property
    def _fs(self) -> Any:
        self._opened = connected(self._opened)
        return self._opened

    def check_root(self) -> None:
        try:
            is_file, exists = self._kind_of_root()
        except Exception as error:
            raise unreachable(self._shown, error, self._opened) from error
        self._is_file = is_file
        if not exists and not self._ignore_missing:
            raise no_such_path(self._shown)

    def _kind_of_root(self) -> tuple[bool, bool]:
        """Whether the root is a file, and whether it exists."""
        if self._fs.isfile(self._root) and not self._fs.isdir(self._root):
            return True, True
        return False, self._ignore_missing or self._fs.exists(self._root)

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        self._fs.invalidate_cache()
        if self._is_file:
            yield from self._only_file()
            return
        self._directory_links.begin()
        folders = [self._root]
        for level in range(len(self._levels)):
            is_ignored = self._levels.ignored(level)
            below: list[str] = []
            for info in (info for folder in folders for info in self._entries(folder)):
                if is_ignored(info["name"].rstrip("/").rpartition("/")[2]):
                    continue
                if info["type"] == "directory":
                    below.append(info["name"].rstrip("/"))
                elif level + 1 == len(self._levels):
                    yield self._listed(info)
            folders = below
        for folder in folders:
            yield from self._files_of(folder, recursive=recursive)
        self._directory_links.end()

    def _only_file(self) -> Iterator[FileFound]:
        """The root, which is a file, unless it has been archived or deleted."""
        try:
            info = self._fs.info(self._root)
        except FileNotFoundError as error:
            if says_gone(error, self._shown):
                return
            raise not_answered(self._shown, error, self._opened) from error
        yield self._listed({**info, "name": self._root})

    def _files_of(self, folder: str, *, recursive: bool) -> Iterator[FileFound]:
        skip = len(folder) + 1
        # On other file systems, fsspec's find silently skips directories that cannot be listed.
        by_pages = recursive and is_object_store(self._fs)
        for info in self._fs.find(folder, detail=True).values() if by_pages else self._entries(folder):
            parts = info["name"].rstrip("/")[skip:].split("/")
            if not parts[0] or any(is_hidden(part) for part in parts):
                refuse_sink_log(parts[0], listed_path(self._fs, self._host, folder))
                continue
            if info["type"] == "directory":
                if recursive or is_partition(parts[-1]):
                    yield from self._files_of(info["name"].rstrip("/"), recursive=recursive)
            else:
                yield self._listed(info)

    def entry(self, path: str, *, recursive: bool) -> FileFound | None:
        name = self._name_of(path)
        if name is None or not self._levels.lists(name, self._root, recursive=recursive):
            return None
        return listed_path(self._fs, self._host, name), lambda: self._info_of(name)

    def _name_of(self, path: str) -> str | None:
        """The name of a path in this file system; None if it is in another one, or cannot be requested."""
        host, own = host_of(path), self._host
        # The account of Azure may be written with different endpoints.
        has_another = host and own and host.partition(".")[0] != own.partition(".")[0]
        if has_another or local_path(path) is not None:
            return None
        try:
            return listed_name(path)
        except OSError:
            return None  # found by a listing, and reported when it is read

    def _info_of(self, name: str) -> FileInfo | None:
        """What a listing would say about a file now; None if it does not exist."""
        self._fs.invalidate_cache()
        return self._requested(name)

    def _listed(self, info: Mapping[str, Any]) -> FileFound:
        name = info["name"]
        path = listed_path(self._fs, self._host, name)
        if info.get("type") == "link":
            return path, lambda: self._behind(name)
        return path, lambda: self._requested(name) if info.get("size") is None else _file_info(info)

    def _behind(self, link: str) -> FileInfo | None:
        info = self._directory_links.file_behind(self._fs, link)
        return None if info is None else _file_info(info)

    def _requested(self, name: str) -> FileInfo | None:
        """Request what a listing of names, as over HTTP, does not have; None if there is no such file."""
        try:
            info = self._fs.info(name)
        except FileNotFoundError as error:
            if says_gone(error, self._shown):
                return None
            raise not_answered(name, error, self._opened) from error
        if info["type"] == "directory":
            return None  # Hadoop's mkdir on Azure writes an empty blob, and a message names it
        if info.get("size") is None:
            raise DiscoveryError(
                f"the server does not report the length of {name}",
                remedy="configure the server to send Content-Length for files, and not to compress files in "
                "transit",
            )
        return _file_info(info)

    def _entries(self, folder: str) -> Any:
        if is_azure(self._fs):
            check_name("abfs", folder)
        try:
            return self._fs.ls(folder, detail=True)
        except FileNotFoundError:
            # In an object store, a folder disappears with its last file.
            if folder != self._root or self._ignore_missing or is_object_store(self._fs):
                return ()
            raise


def _file_info(info: Mapping[str, Any]) -> FileInfo:
    tag, etag = version_tag_of(info), etag_of(info)
    former = "" if tag == etag else etag
    return FileInfo(int(info["size"]), modified_us(info), tag, former_etag=former)
