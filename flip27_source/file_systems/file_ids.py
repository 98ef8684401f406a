"""The id of a file split: formatted and parsed only here. Pure.

``<path>``, ``<path>@<version>``, ``<path>#<start>-<end>`` or ``<path>@<version>#<start>-<end>``; an absent
end means the end of the file. A bucket of event times is ``#t<start>..<end>``, in microseconds since 1970; an
absent start or end means that it is open. If ``@`` or ``#`` in a path could be parsed as a version or range,
both follow the path, with an empty version if there is none: the file ``/a#0-5`` has the id ``/a#0-5@#0-``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..segment import content_digest

_RANGE = re.compile(r"(.+)#(0|[1-9][0-9]*)-([1-9][0-9]*)?", re.DOTALL)
_BUCKET = re.compile(r"(.+)#t(0|-?[1-9][0-9]*)?\.\.(0|-?[1-9][0-9]*)?", re.DOTALL)
_VERSION = re.compile(r"(.+)@([A-Za-z0-9_-]*)", re.DOTALL)


ALL_TIMES = (-(2**63), 2**63)
"""Before all times and bytes, and after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSplitId:
    """A range of bytes of one version of a file; ``end`` is None for the end of the file.

    Attributes:
        bucket: start and end of a bucket of event times; None: a range of bytes.
    """

    path: str
    version: str | None = None
    start: int = 0
    end: int | None = None
    bucket: tuple[int | None, int | None] | None = None

    @property
    def part(self) -> tuple[int, int]:
        """The start and end of the bytes, or of the times of a bucket; numbers also if they are open."""
        start, end = self.bucket or (self.start, self.end)
        return ALL_TIMES[0] if start is None else start, ALL_TIMES[1] if end is None else end

    def __str__(self) -> str:
        version = self.version
        if version is not None and re.fullmatch(r"[A-Za-z0-9_-]+", version) is None:
            version = content_digest(version.encode())
        text = self.path if version is None else f"{self.path}@{version}"
        if self.start or self.end is not None or self.bucket:
            text = f"{text}{self._range}"
        if "@" not in self.path and "#" not in self.path:
            return text
        return (
            text
            if FileSplitId.parse(text) == replace(self, version=version)
            else f"{self.path}@{version or ''}{self._range}"
        )

    @property
    def _range(self) -> str:
        if self.bucket is not None:
            return "#t{}..{}".format(*("" if bound is None else bound for bound in self.bucket))
        return f"#{self.start}-{'' if self.end is None else self.end}"

    @classmethod
    def parse(cls, text: str) -> FileSplitId:
        """The inverse of ``str``; any text is the id of some file."""
        path, version, start, end, bucket = text, None, 0, None, None
        if (found := _BUCKET.fullmatch(path)) is not None:
            path, bucket = found[1], (_number(found[2]), _number(found[3]))
        elif (found := _RANGE.fullmatch(path)) is not None:
            path, start, end = found[1], int(found[2]), _number(found[3])
        if (marked := _VERSION.fullmatch(path)) is not None and (marked[2] or found is not None):
            path, version = marked[1], marked[2] or None
        return cls(path=path, version=version, start=start, end=end, bucket=bucket)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
