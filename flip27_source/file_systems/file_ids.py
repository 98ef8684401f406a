"""The id of a file split: formatted and parsed only here. Pure.

``<path>``, ``<path>@<version>``, ``<path>#<start>-<end>`` or ``<path>@<version>#<start>-<end>``; an absent
end means the end of the file. If ``@`` or ``#`` in a path could be parsed as a version or range, both follow
the path, with an empty version if there is none: the file ``/a#0-5`` has the id ``/a#0-5@#0-``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..segment import content_digest

_RANGE = re.compile(r"(.+)#(0|[1-9][0-9]*)-([1-9][0-9]*)?", re.DOTALL)
_VERSION = re.compile(r"(.+)@([A-Za-z0-9_-]*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSplitId:
    """A range of bytes of one version of a file; ``end`` is None for the end of the file."""

    path: str
    version: str | None = None
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        version = self.version
        if version is not None and re.fullmatch(r"[A-Za-z0-9_-]+", version) is None:
            version = content_digest(version.encode())
        text = self.path if version is None else f"{self.path}@{version}"
        if self.start or self.end is not None:
            text = f"{text}{self._range}"
        if "@" not in self.path and "#" not in self.path:
            return text
        meant = FileSplitId(path=self.path, version=version, start=self.start, end=self.end)
        return text if FileSplitId.parse(text) == meant else f"{self.path}@{version or ''}{self._range}"

    @property
    def _range(self) -> str:
        return f"#{self.start}-{'' if self.end is None else self.end}"

    @classmethod
    def parse(cls, text: str) -> FileSplitId:
        """The inverse of ``str``; any text is the id of some file."""
        path, version, start, end = text, None, 0, None
        if (found := _RANGE.fullmatch(path)) is not None:
            path, start, end = found[1], int(found[2]), None if found[3] is None else int(found[3])
        if (marked := _VERSION.fullmatch(path)) is not None and (marked[2] or found is not None):
            path, version = marked[1], marked[2] or None
        return cls(path=path, version=version, start=start, end=end)
