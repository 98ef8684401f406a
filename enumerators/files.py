"""The files enumerator: new files of a directory, on local disk or any fsspec file system.

A file is known by its path. Files are handed out oldest first. Large files of formats that can
be read in parts are cut into ranges, after the file as a whole was found to be new.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.enumerator import SplitEnumeratorContext
from flip27_source.enumerators.file_split import FileSplit
from flip27_source.enumerators.listing import open_lister
from flip27_source.enumerators.seen_files import SeenFiles, path_hash
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.options import Option, Options, boolean, optional, text
from flip27_source.reader import ReadsRanges
from flip27_source.segment import Segment
from flip27_source.source_options import MAX_PARTITION_BYTES, PATH, TIME_ZONE

_SMALLEST_RANGE_BYTES = 1024 * 1024


def _timestamp(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError("a time such as 2026-01-31T00:00:00 is expected") from None


PATH_GLOB_FILTER: Option[str | None] = Option(
    name="pathGlobFilter",
    parse=optional(text),
    default=None,
    doc="Only files whose name matches this glob (*, ?, [a-z], {a,b}) are read.",
)
RECURSIVE_FILE_LOOKUP: Option[bool] = Option(
    name="recursiveFileLookup",
    parse=boolean,
    default=False,
    doc="Also read the files of all directories below the path.",
)
MODIFIED_AFTER: Option[datetime | None] = Option(
    name="modifiedAfter",
    parse=optional(_timestamp),
    default=None,
    doc="Only files modified after this time are read (YYYY-MM-DDTHH:MM:SS, in timeZone).",
)
MODIFIED_BEFORE: Option[datetime | None] = Option(
    name="modifiedBefore",
    parse=optional(_timestamp),
    default=None,
    doc="Only files modified before this time are read (YYYY-MM-DDTHH:MM:SS, in timeZone).",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPosition:
    """Where discovery stands: every file known so far.

    Attributes:
        seen: runs of path hashes.
        files: how many files that is.
    """

    seen: tuple[Segment, ...]
    files: int


class FilesEnumerator(DiscoveringEnumerator[FileSplit]):
    """Finds the files of ``path`` that it has not seen before."""

    options: ClassVar[tuple[Option[Any], ...]] = (
        PATH_GLOB_FILTER,
        RECURSIVE_FILE_LOOKUP,
        MODIFIED_AFTER,
        MODIFIED_BEFORE,
    )

    def __init__(
        self, context: SplitEnumeratorContext[FileSplit], options: Options, state: Any = None
    ) -> None:
        super().__init__(context, options, state)
        path = options.require(PATH, why="the files enumerator reads a directory")
        self._lister = open_lister(path, options.with_prefix("storage."))
        self._recursive = options[RECURSIVE_FILE_LOOKUP]
        self._name_matches = _glob(options[PATH_GLOB_FILTER])
        zone = options[TIME_ZONE]
        self._after_us = _epoch_us(options[MODIFIED_AFTER], zone, default=float("-inf"))
        self._before_us = _epoch_us(options[MODIFIED_BEFORE], zone, default=float("inf"))
        self._has_time_filter = self._after_us > float("-inf") or self._before_us < float("inf")
        self._range_bytes = max(options[MAX_PARTITION_BYTES], _SMALLEST_RANGE_BYTES)
        self._seen: SeenFiles | None = None
        self._seen_at: FilesPosition | None = None

    def start(self) -> None:
        """Check the path, then begin to list it."""
        self._lister.check_root()
        super().start()

    def discover(self, position: FilesPosition | None) -> Discovery[FileSplit, FilesPosition]:
        """List the directory; what is not in ``position`` is new."""
        seen = self._seen
        if seen is None or position is not self._seen_at:
            seen = SeenFiles(() if position is None else position.seen)
        files: list[FileSplit] = []
        hashes: list[bytes] = []
        for path, info in self._lister.files(recursive=self._recursive):
            if not self._name_matches(path.rpartition("/")[2]):
                continue
            hashed = path_hash(path)
            if hashed in seen or (found := info()) is None:
                continue
            if self._is_in_time(path, found.modified_us):
                hashes.append(hashed)
                files.append(FileSplit(path=path, length=found.length, modified_us=found.modified_us))
        if hashes or position is None:
            if hashes:
                seen.add(hashes)
            position = FilesPosition(seen=seen.runs, files=len(seen))
        self._seen, self._seen_at = seen, position
        files.sort(key=lambda file: (file.modified_us, file.path))
        return Discovery([split for file in files for split in self._ranges(file)], position)

    def _is_in_time(self, path: str, modified_us: int) -> bool:
        if not self._has_time_filter:
            return True
        if modified_us == 0:
            raise DiscoveryError(
                f"the file system does not say when {path} was modified",
                remedy="leave modifiedAfter and modifiedBefore out",
            )
        return self._after_us < modified_us < self._before_us

    def _ranges(self, file: FileSplit) -> Iterator[FileSplit]:
        reader = self.context.reader_type
        if (
            file.length <= self._range_bytes
            or not issubclass(reader, ReadsRanges)
            or not reader.can_read_ranges(file.path, self.options_given)
        ):
            yield file
            return
        count = -(-file.length // self._range_bytes)
        bounds = [file.length * i // count for i in range(count)]
        for start, end in zip(bounds, [*bounds[1:], None], strict=True):
            yield FileSplit(
                path=file.path,
                length=file.length,
                modified_us=file.modified_us,
                start=start,
                end=end,
            )


def _epoch_us(moment: datetime | None, zone: str | None, *, default: float) -> float:
    """Microseconds since the epoch; ``default`` where no time is given."""
    if moment is None:
        return default
    if moment.tzinfo is None:
        local = None if zone is None else _zone(zone)
        moment = moment.replace(tzinfo=local) if local else moment.astimezone()
    return moment.timestamp() * 1_000_000


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise OptionError(
            f"option timeZone has the value {name!r}, which is no time zone",
            remedy="use an IANA name such as Europe/Berlin or UTC",
        ) from None


def _glob(pattern: str | None) -> Any:
    if pattern is None:
        return lambda _name: True
    # Hadoop writes [^a] for what fnmatch writes [!a].
    parts = _expand_braces(pattern.replace("[^", "[!"))
    expressions = [fnmatch.translate(part) for part in parts]
    return re.compile("|".join(f"(?:{expression})" for expression in expressions)).match


def _expand_braces(pattern: str) -> list[str]:
    """``a{b,c}d`` as ``abd`` and ``acd``; fnmatch knows no braces."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [
        expanded for choice in match[1].split(",") for expanded in _expand_braces(before + choice + after)
    ]
