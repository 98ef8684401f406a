"""``seenFiles=exact``: keeps a hash of every file; with ``allowOverwrites``, also of every version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flip27_source.enumerators.files.listing.lister import FileInfo, FileKnown
from flip27_source.enumerators.files.position import NOTHING, FilesPosition, identity_of
from flip27_source.enumerators.files.seen_files.hashes import SeenFiles, path_hash
from flip27_source.enumerators.files.seen_files.strategy import DiscoveryRound, SeenStrategy, SortedOut
from flip27_source.enumerators.files.split import FileSplit, version_of
from flip27_source.log import LOG


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
        known, new, choose = seen.hashes, dict[bytes, None](), current.choose
        # Without moves and name_only, use the fast hash, because there may be a million paths.
        hash_of = current.hash_of if current.moves or current.name_only else path_hash
        for path, request in current.listing.files():
            hashed = hash_of(path)
            if hashed in known or hashed in new:
                continue
            info = request()
            split = None if info is None else choose(path, info)
            if split is None:
                current.unsettled.append(path)
                continue
            new[hashed] = None
            files.append(split)
        seen.add(list(new))
        if new or position is None or position.versions is not None:
            position = (position or NOTHING).counted(files)
            position = replace(position, seen=seen.runs, files=len(seen), versions=None)
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
        sorted_out = SortedOut()
        for path, info in current.matching():
            is_known = current.hash_of(path) in seen
            (sorted_out.known if is_known else sorted_out.new).append((path, info))
        return sorted_out

    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        seen = SeenFiles.of(current.hash_of(path) for path, _ in files)
        return replace(position, seen=seen.runs, strategy=self.name)

    def _seen_by(self, current: DiscoveryRound, position: FilesPosition | None) -> SeenFiles:
        if position is not None and position.seen is self._seen.runs:
            return self._seen
        current.listing.lister.forget()
        return SeenFiles(() if position is None else position.seen)


class OverwrittenFiles(ExactFiles):
    """Keeps every version of every file; a changed file is read again."""

    goes_by_names = False

    def __init__(self) -> None:
        super().__init__()
        self._versions = SeenFiles()

    def find(
        self, current: DiscoveryRound, position: FilesPosition | None
    ) -> tuple[list[FileSplit], FilesPosition]:
        """Versions that are in no run are new; a file is new if its path is in no run."""
        start = position or NOTHING
        if start.seen is not self._seen.runs or start.versions is not self._versions.runs:
            self._seen = SeenFiles(start.seen)
            self._versions = SeenFiles(start.versions or ())
        # Versions were not kept before this start, so known files are assumed to be unchanged.
        is_baseline = position is not None and position.versions is None
        files: list[FileSplit] = []
        paths: list[bytes] = []
        versions: list[bytes] = []
        overwritten = 0
        for path, info in current.matching():
            version = _version_key(current, path, info, info.etag)
            if version in self._versions:
                continue
            if info.former_etag and _version_key(current, path, info, info.former_etag) in self._versions:
                versions.append(version)
                continue
            hashed = current.hash_of(path)
            is_known = hashed in self._seen
            if not (is_known and is_baseline):
                split = current.choose(path, info)
                if split is None:
                    continue
                if is_known:
                    overwritten += 1
                    LOG.warning("%s has changed since it was read, and is read again", path)
                files.append(split)
            versions.append(version)
            if not is_known:
                paths.append(hashed)
        self._seen.add(paths)
        self._versions.add(versions)
        return files, replace(
            start.counted(files),
            seen=self._seen.runs,
            files=len(self._seen),
            versions=self._versions.runs,
            overwritten=start.overwritten + overwritten,
        )

    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        """Also these versions."""
        versions = SeenFiles.of(_version_key(current, path, info, info.etag) for path, info in files)
        return replace(super().adopt(current, files, position), versions=versions.runs)

    def unknown(
        self, current: DiscoveryRound, paths: Sequence[str], position: FilesPosition
    ) -> Sequence[str]:
        """All paths: a known file may have changed."""
        return paths

    def must_list(self, position: FilesPosition | None) -> bool:
        """Also if versions were not kept, so that known files count as unchanged."""
        return super().must_list(position) or (position is not None and position.versions is None)


def version_key(path: str, version: str, length: int) -> bytes:
    """A 128-bit hash of a version of a file."""
    return path_hash(f"{path}\0{version}\0{length}")


def _version_key(current: DiscoveryRound, path: str, info: FileInfo, etag: str) -> bytes:
    version = version_of(etag, info.modified_us, info.length)
    return version_key(identity_of(path, current.moves, name_only=False), version, info.length)
