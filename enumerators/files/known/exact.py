"""``seenFiles=exact``: keeps a hash of every file; with ``allowOverwrites``, also of every version."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace

from flip27_source.enumerators.files.known.hashes import SeenFiles, path_hash
from flip27_source.enumerators.files.known.sorted_hashes import HASH_BYTES
from flip27_source.enumerators.files.known.strategy import (
    NOTHING,
    DiscoveryRound,
    FileKnown,
    FilesPosition,
    SeenStrategy,
    SortedOut,
    counted,
)
from flip27_source.enumerators.files.listing.walk import FileInfo
from flip27_source.enumerators.files.split import FileSplit

_log = logging.getLogger("flip27_source")


class ExactFiles(SeenStrategy):
    """Identifies every file by its path, or only by its name."""

    name = "exact"

    def __init__(self) -> None:
        self._seen = SeenFiles()

    def find(
        self, current: DiscoveryRound, position: FilesPosition | None
    ) -> tuple[list[FileSplit], FilesPosition]:
        """Files that are in no run are new."""
        seen = self._seen_by(current, position)
        files: list[FileSplit] = []
        known, new = seen.hashes, dict[bytes, None]()
        name_matches, choose = current.name_matches, current.choose
        # Without moves and name_only, use the fast hash, because there may be a million paths.
        hash_of = current.hash_of if current.moves or current.name_only else path_hash
        for path, info in current.lister.files(recursive=current.recursive):
            if not name_matches(path.rpartition("/")[2]):
                continue
            hashed = hash_of(path)
            if hashed in known or hashed in new:
                continue
            found = info()
            split = None if found is None else choose(path, found)
            if split is None:
                current.unsettled.append(path)
                continue
            new[hashed] = None
            files.append(split)
        if new:
            seen.add(list(new))
        if new or position is None or position.versions is not None:
            position = replace(
                counted(position or NOTHING, files), seen=seen.runs, files=len(seen), versions=None
            )
        self._seen = seen
        return files, position

    def unknown(
        self, current: DiscoveryRound, paths: Sequence[str], position: FilesPosition
    ) -> Sequence[str]:
        """The paths that are in no run."""
        self._seen = self._seen_by(current, position)
        return [path for path in paths if current.hash_of(path) not in self._seen]

    def sort_out(self, current: DiscoveryRound, position: FilesPosition) -> SortedOut:
        """Sort by the hashes; no file is late."""
        seen = self._seen_by(current, position)
        sorted_out = SortedOut([], [], [])
        for path, found in current.matching():
            known = current.hash_of(path) in seen
            (sorted_out.known if known else sorted_out.new).append((path, found))
        return sorted_out

    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        """The hashes of all these files."""
        seen = SeenFiles()
        hashes = dict.fromkeys(current.hash_of(path) for path, _ in files)
        if hashes:
            seen.add(list(hashes))
        return replace(position, seen=seen.runs, strategy=self.name)

    def _seen_by(self, current: DiscoveryRound, position: FilesPosition | None) -> SeenFiles:
        if position is not None and position.seen is self._seen.runs:
            return self._seen
        current.lister.forget()
        return SeenFiles(() if position is None else position.seen)


class OverwrittenFiles(SeenStrategy):
    """Keeps every version of every file; a changed file is read again."""

    name = "exact"
    goes_by_names = False

    def __init__(self) -> None:
        self._paths = SeenFiles()
        self._versions = SeenFiles()

    def find(
        self, current: DiscoveryRound, position: FilesPosition | None
    ) -> tuple[list[FileSplit], FilesPosition]:
        """Versions that are in no run are new; a file is new if its path is in no run."""
        start = position or NOTHING
        if start.seen is not self._paths.runs or start.versions is not self._versions.runs:
            self._paths = SeenFiles(start.seen)
            self._versions = SeenFiles(start.versions or ())
        # Versions were not kept before this start, so known files are assumed to be unchanged.
        baseline = position is not None and position.versions is None
        files: list[FileSplit] = []
        paths: list[bytes] = []
        versions: list[bytes] = []
        overwritten = 0
        for path, found in current.matching():
            version = version_hash(current.known_as(path), found)
            if version in self._versions:
                continue
            hashed = current.hash_of(path)
            known = hashed in self._paths
            if not (known and baseline):
                split = current.choose(path, found)
                if split is None:
                    continue
                if known:
                    overwritten += 1
                    _log.warning("%s has changed since it was read, and is read again", path)
                files.append(replace(split, version=_version(found)))
            versions.append(version)
            if not known:
                paths.append(hashed)
        if versions or start.versions is None:
            start = self._next(start, paths, versions)
        start = replace(counted(start, files), overwritten=start.overwritten + overwritten)
        return files, replace(start, files=len(self._paths))

    def must_list(self, position: FilesPosition | None) -> bool:
        """Also if versions were not kept, so that known files count as unchanged."""
        return super().must_list(position) or (position is not None and position.versions is None)

    def sort_out(self, current: DiscoveryRound, position: FilesPosition) -> SortedOut:
        """Sort by paths, as without overwrites."""
        return ExactFiles().sort_out(current, position)

    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        """The paths; the next round records their versions."""
        return ExactFiles().adopt(current, files, position)

    def _next(self, position: FilesPosition, paths: list[bytes], versions: list[bytes]) -> FilesPosition:
        if paths:
            self._paths.add(paths)
        if versions:
            self._versions.add(versions)
        return replace(position, seen=self._paths.runs, versions=self._versions.runs)


def version_hash(path: str, found: FileInfo) -> bytes:
    """A 128-bit hash of a file's version."""
    return version_key(path, _version(found), found.length)


def version_key(path: str, version: str, length: int) -> bytes:
    """The hash of a version that was found before."""
    text = f"{path}\0{version}\0{length}"
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=HASH_BYTES).digest()


def _version(found: FileInfo) -> str:
    return found.etag.strip('"') or f"{found.modified_us}-{found.length}"
