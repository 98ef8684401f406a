"""Converts between Hadoop's URIs of files and our paths. Pure.

Hadoop writes ``/landing/a b`` as ``file:///landing/a%20b`` and percent-encodes what Java's URI class quotes;
the same object may be ``s3a://in/a`` to Hadoop and ``s3://in/a`` here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, unquote

from flip27_source.file_systems.paths import canonical_path, path_text

_URI = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
_S3 = frozenset({"s3", "s3a", "s3n"})
_MARK = "/flip27"
_NOT_QUOTED = "-_.!~*'():@&=+$,;/"
_QUOTED_CATEGORIES = frozenset({"Cc", "Zs", "Zl", "Zp"})


class OurPaths:
    """Converts the names that Hadoop, or another system, gives to files into our paths.

    Args:
        rewrites: prefixes of decoded names, and their replacements; the longest matching prefix is replaced
            before the name is converted.
        encoded: whether the names are URIs, in which characters are percent-encoded.
    """

    def __init__(self, rewrites: Mapping[str, str] | None = None, *, encoded: bool = True) -> None:
        self._rewrites = sorted((rewrites or {}).items(), key=lambda pair: -len(pair[0]))
        self._encoded = encoded

    def __call__(self, name: str) -> str:
        if self._encoded and "%" in name:
            name = path_text(unquote(name, errors="surrogateescape"))
        for old, new in self._rewrites:
            if name.startswith(old):
                name = new + name[len(old) :]
                break
        uri = None if name.startswith("/") else _URI.fullmatch(name)
        if uri is None:
            return name
        scheme, authority, path = uri.groups()
        return _beginning(scheme, authority) + path


@lru_cache(1000)
def _beginning(scheme: str | None, authority: str | None) -> str:
    if scheme is None or scheme == "file":
        return ""
    if authority is None:
        return f"{scheme}:"
    scheme = "s3" if scheme in _S3 else scheme
    return canonical_path(f"{scheme}://{authority}{_MARK}").removesuffix(_MARK)


class HadoopUris:
    """Converts our paths of files into Hadoop's URIs, as a Spark query that reads ``path`` has them.

    Args:
        path: a path or URL with Hadoop's spelling, such as ``s3a://in/landing``.
    """

    def __init__(self, path: str) -> None:
        uri = _URI.fullmatch(path)
        scheme, authority = (None, None) if uri is None else (uri[1], uri[2])
        self._ours = _beginning(scheme, authority)
        self._theirs = "file://" if not self._ours else f"{scheme}://{authority}"

    def __call__(self, path: str) -> str:
        return self._theirs + encoded(path.removeprefix(self._ours))


def encoded(path: str) -> str:
    """A path with the characters percent-encoded that ``java.net.URI`` quotes."""
    if path.isascii():
        return quote(path, safe=_NOT_QUOTED)
    return "".join(
        char if not char.isascii() and unicodedata.category(char) not in _QUOTED_CATEGORIES
        else quote(char, safe=_NOT_QUOTED)
        for char in path
    )  # fmt: skip
