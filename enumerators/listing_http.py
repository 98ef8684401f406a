"""Listing a web server: the links of its pages are all that it says of its files."""

from __future__ import annotations

import html
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urldefrag, urlsplit

from flip27_source.enumerators.listing import FsspecLister
from flip27_source.file_systems import says_gone

_NOT_OF_SERVERS = frozenset({"about", "blob", "data", "javascript", "mailto", "tel"})


class HttpLister(FsspecLister):
    """Follows the links of a directory's page; size and time of a new file are asked for one by one."""

    def _kind_of_root(self) -> tuple[bool, bool]:
        """What answers with a page, or with links, is a directory."""
        try:
            info = self._fs.info(self._root)
        except FileNotFoundError as error:
            if says_gone(error, self._shown):
                return False, False
            raise
        return info.get("mimetype") != "text/html" and not self._links(self._root), True

    def _entries(self, folder: str) -> Iterator[Mapping[str, Any]]:
        names = dict.fromkeys(name_of(folder, link) for link in self._links(folder))
        for name in names:
            if name is None:
                continue
            yield {"name": name, "size": None, "type": "directory" if name.endswith("/") else "file"}

    def _links(self, folder: str) -> list[str]:
        """The links of a page as fsspec gives them: those to elsewhere left out, the others joined to it."""
        try:
            return list(self._fs.ls(folder, detail=False))
        except Exception as error:
            if says_gone(error, folder) and (folder != self._root or self._ignore_missing):
                return []
            raise


def name_of(folder: str, link: str) -> str | None:
    """The URL of what a link leads to, which ends in a slash for a directory.

    None where that does not lie below ``folder``, or has a query: pages link to themselves in another order.

    Args:
        link: a URL below the folder's as it is written, in the page's HTML, perhaps by the other of http and
            https.
    """
    path, _ = urldefrag(html.unescape(link.partition("://")[2].removeprefix(folder.partition("://")[2])))
    path = path.lstrip("/")
    below = posixpath.normpath(path)
    if "?" in path or urlsplit(path).scheme in _NOT_OF_SERVERS or below.split("/")[0] in (".", ".."):
        return None
    # The = of partitions is written in two ways.
    below = below.replace("%3D", "=").replace("%3d", "=")
    return f"{folder}/{below}/" if path.endswith(("/", "/.", "/..")) else f"{folder}/{below}"
