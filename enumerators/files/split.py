"""The split of the files enumerator: a whole file, a range of bytes of one, or a bucket of its event times.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from flip27_source.event_time import EventTimeBucket, EventTimeRange
from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.split import SplitSize

SPLIT_VERSION: Final = 1
"""The version of stored splits."""


def version_of(etag: str, modified_us: int, length: int) -> str:
    """What distinguishes the versions of one path."""
    return etag.strip('"') or f"{modified_us}-{length}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSplit:
    """A file, the part of it in ``[start, end)``, or the rows of a bucket.

    Attributes:
        path: full path; ``/landing/a.json`` on local disk, ``s3://bucket/a.json`` elsewhere.
        length: size of the whole file in bytes.
        modified_us: modification time, microseconds since the epoch.
        start: first byte of the range.
        end: first byte after the range; None for the end of the file.
        version: distinguishes versions of one path if overwrites are allowed; otherwise None.
        etag: the object's ETag, if it is checked again before the file is cleaned; otherwise None.
        event_time: the times of its rows, if it was found with eventTimeOrder; None if no row has one.
        bucket: the rows of the split, if the file is read once for each eventTimeBucket.
        moved: true if the file was moved after it was discovered: a copy may have another time and ETag.
    """

    path: str
    length: int
    modified_us: int
    start: int = 0
    end: int | None = None
    version: str | None = None
    etag: str | None = None
    event_time: EventTimeRange | msgspec.UnsetType | None = msgspec.UNSET
    bucket: EventTimeBucket | msgspec.UnsetType = msgspec.UNSET
    moved: Literal[True] | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.end is None and not self.bucket

    @property
    def is_first(self) -> bool:
        """Whether the parts of its file begin with it."""
        return self.start == 0 and (not self.bucket or self.bucket.start_us is None)

    @property
    def file_id(self) -> FileSplitId:
        """What its id says."""
        bucket = (self.bucket.start_us, self.bucket.end_us) if self.bucket else None
        return FileSplitId(
            path=self.path, version=self.version, start=self.start, end=self.end, bucket=bucket
        )

    @property
    def known_end(self) -> int:
        """The first byte after the range, by the size of the file when it was found."""
        return self.length if self.end is None else self.end

    @property
    def known_etag(self) -> str | None:
        """The ETag, which is also the version unless the file system has none; None if it is not known."""
        by_time = version_of("", self.modified_us, self.length)
        return self.etag or (None if self.version == by_time else self.version)

    @property
    def split_id(self) -> str:
        """The path, the version if one is set, and the range or bucket if it is not the whole file."""
        return str(self.file_id)

    @property
    def size(self) -> SplitSize:
        """One file (counted at its first range only) and the bytes of the range; each bucket is a file."""
        return SplitSize(files=1 if self.start == 0 else 0, bytes=max(0, self.known_end - self.start))
