"""The split of the files enumerator: a whole file, or a range of bytes of one.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from flip27_source.split import SplitSize


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSplit:
    """A file, or the part of it in ``[start, end)``.

    Attributes:
        path: full path; ``/landing/a.json`` on local disk, ``s3://bucket/a.json`` elsewhere.
        length: size of the whole file in bytes.
        modified_us: modification time, microseconds since the epoch.
        start: first byte of the range.
        end: first byte after the range; None for the end of the file.
        version: tells versions of one path apart where files may be overwritten; otherwise None.
        etag: the object's ETag where it is asked for again before the file is cleaned; otherwise None.
    """

    path: str
    length: int
    modified_us: int
    start: int = 0
    end: int | None = None
    version: str | None = None
    etag: str | None = None

    @property
    def split_id(self) -> str:
        """The path, its version where there may be others, and the range where it is not the whole file."""
        name = self.path if self.version is None else f"{self.path}@{self.version}"
        if self.start == 0 and self.end is None:
            return name
        return f"{name}#{self.start}-{'' if self.end is None else self.end}"

    @property
    def size(self) -> SplitSize:
        """One file (counted at its first range only) and the bytes of the range."""
        end = self.length if self.end is None else self.end
        return SplitSize(files=1 if self.start == 0 else 0, bytes=max(0, end - self.start))


def path_forms(split_id: str) -> list[str]:
    """The paths that a split of this id can be of: as it is, without a range, without a version."""
    forms = [split_id]
    for mark in ("#", "@"):
        path, found, _ = forms[-1].rpartition(mark)
        if found and path:
            forms.append(path)
    return forms
