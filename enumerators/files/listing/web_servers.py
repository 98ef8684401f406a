"""Lists a web server by the links of its pages, the only information about its files."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes, urldefrag, urlsplit

from fsspec.asyn import sync

from flip27_source.enumerators.files.listing.fsspec_systems import FsspecLister
from flip27_source.file_systems.paths import says_gone

_ANCHOR = re.compile(r"<[aA](?=[ \t\n\f\r/])")
_ATTRIBUTE = re.compile(
    r"""[ \t\n\f\r/]*+([^ \t\n\f\r/>][^ \t\n\f\r/>=]*+)"""
    r"""(?:[ \t\n\f\r]*+=[ \t\n\f\r]*+(?:"([^"]*+)"|'([^']*+)'|([^ \t\n\f\r>"'][^ \t\n\f\r>]*+)?))?"""
)
_BARE = re.compile(r"https?://[-a-zA-Z0-9@:%_+.~#?&/=]+")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_DEFAULT_PORT = re.compile(r":(?:80|443)?$")
_NOT_OF_SERVERS = frozenset({"about", "blob", "data", "javascript", "mailto", "tel"})


class HttpLister(FsspecLister):
    """Follows the links of a directory's page; requests the size and time of each new file."""

    def _kind_of_root(self) -> tuple[bool, bool]:
        """Whether the root is a file, and whether it exists; a page or links mean a directory."""
        try:
            info = self._fs.info(self._root)
        except FileNotFoundError as error:
            if says_gone(error, self._shown):
                return False, False
            raise
        return info.get("mimetype") != "text/html" and not self._links(self._root), True

    def _entries(self, folder: str) -> Iterator[Mapping[str, Any]]:
        names = dict.fromkeys(name_of(folder, link) for link in self._links(folder))
        for name in filter(None, names):
            yield {"name": name, "size": None, "type": "directory" if name.endswith("/") else "file"}

    def _links(self, folder: str) -> list[str]:
        """The links of a page that lead below ``folder``, as URLs with their original spelling below it."""
        try:
            page = sync(self._fs.loop, _page, self._fs, folder)
        except Exception as error:
            if says_gone(error, folder) and (folder != self._root or self._ignore_missing):
                return []
            raise
        links = {_joined(folder, link) for link in links_of(page, bare=self._fs.simple_links)}
        return sorted(link for link in links if link is not None)


async def _page(fs: Any, url: str) -> str:
    """An HTML page; empty if the content is not HTML."""
    session = await fs.set_session()
    async with session.get(fs.encode_url(url), **fs.kwargs) as answer:
        if answer.status == HTTPStatus.NOT_FOUND:
            raise FileNotFoundError(url)
        answer.raise_for_status()
        kind = answer.headers.get("Content-Type", "text/html").partition(";")[0].strip().lower()
        return str(await answer.text(errors="ignore")) if kind == "text/html" else ""


def links_of(page: str, *, bare: bool = True) -> Iterator[str]:
    """The links of a page: those of its anchors and, with ``bare``, URLs anywhere in its text.

    It takes one pass over the page; fsspec's regular expression takes hours for some pages of a kilobyte,
    and Python's HTML parser takes minutes for some of 50.
    """
    end = 0
    while (anchor := _ANCHOR.search(page, end)) is not None:
        end = anchor.end()
        link = None
        while (attribute := _ATTRIBUTE.match(page, end)) is not None:
            end = attribute.end()
            if link is None and attribute[1].lower() == "href":
                link = attribute[2] or attribute[3] or attribute[4] or ""
        if link:
            yield html.unescape(link).strip(" \t\n\f\r")
    if bare:
        yield from map(html.unescape, _BARE.findall(page))


def _joined(folder: str, link: str) -> str | None:
    """A link as a URL below the folder of its page, which keeps its spelling; None if it leads elsewhere.

    Servers spell links in other ways than users their paths: with escapes, or with another case of the host.
    """
    host, _, path = folder.partition("://")[2].rstrip("/").partition("/")
    own = path.split("/") if path else []
    if link.startswith("//") or _WEB.match(link):  # the scheme may change between http and https
        other, _, below = link.partition("//")[2].partition("/")
        if _origin(other) != _origin(host):
            return None
    elif link.startswith("/"):
        below = link[1:]
    else:
        base = list(own)
        while link.startswith("../"):
            if not base:
                return None
            base.pop()
            link = link[3:]
        below = "/".join((*base, link))
    parts = below.split("/")
    above = parts[: len(own)]
    if any("?" in part or "#" in part for part in above) or _decoded(above) != _decoded(own):
        return None
    return f"{folder.rstrip('/')}/{'/'.join(parts[len(own) :]).lstrip('/')}"


def _origin(host: str) -> str:
    return _DEFAULT_PORT.sub("", host.lower())


def _decoded(parts: Sequence[str]) -> list[bytes]:
    return list(map(unquote_to_bytes, parts))


def name_of(folder: str, link: str) -> str | None:
    """The URL that a link leads to; it ends in a slash for a directory.

    None if the URL is not below ``folder``, or if it has a query: directory pages use such links only to
    change their sort order.

    Args:
        link: a URL below the folder's.
    """
    path, _ = urldefrag(link.removeprefix(folder))
    path = path.lstrip("/")
    below = posixpath.normpath(path)
    if "?" in path or urlsplit(path).scheme in _NOT_OF_SERVERS or below.split("/")[0] in (".", ".."):
        return None
    # The = in a partition directory may be written as = or %3D.
    below = below.replace("%3D", "=").replace("%3d", "=")
    return f"{folder}/{below}/" if path.endswith(("/", "/.", "/..")) else f"{folder}/{below}"
