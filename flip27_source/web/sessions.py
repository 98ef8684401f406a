"""aiohttp sessions for files on web servers: each connects to one server, and responses are bounded.

fsspec makes the requests. This module closes two gaps: fsspec sends its headers to any server that a
redirect leads to, and it accepts responses of any length.
Imported with the first path of a web server, so the package aiohttp is optional.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from .content_codings import decoded

_LARGEST_PAGE_BYTES = 128 << 20
_LARGEST_UNANNOUNCED_BYTES = 1 << 30
_PIECE_BYTES = 1 << 16


class AnswerRefusedError(Exception):
    """A response that does not match the request; the message says why, and what to do."""


@functools.lru_cache(maxsize=128)
def session_for(url: str) -> Callable[..., Any]:
    """A function that makes a session which only connects to the server of ``url``; for ``get_client``.

    It is the same object for the same server, because fsspec distinguishes its file systems by it.
    """
    return functools.partial(_session, URL(url).origin())


async def _session(origin: URL, **given: Any) -> aiohttp.ClientSession:
    given.pop("loop", None)  # the running loop
    headers = CIMultiDict({"Accept-Encoding": "identity"})
    headers.update(given.pop("headers", None) or {})
    return aiohttp.ClientSession(
        **{
            "connector": _OneServer(origin),
            "response_class": _Answer,
            # Files are read as they are stored.
            "auto_decompress": False,
            "headers": headers,
            **given,
        }
    )


class _OneServer(aiohttp.TCPConnector):
    """Connects to one server only. Redirects pass through here too, with their new URL."""

    def __init__(self, origin: URL) -> None:
        super().__init__()
        self._only = origin

    async def connect(self, req: Any, *args: Any, **kwargs: Any) -> Any:
        if req.url.origin() != self._only:
            raise AnswerRefusedError(
                f"the server redirects from {self._only} to {req.url.origin()}, but redirects to another "
                "scheme, host or port are not followed: use the URL on that server if you trust it"
            )
        return await super().connect(req, *args, **kwargs)


class _Answer(aiohttp.ClientResponse):
    """A response that is read no further than requested."""

    async def read(self) -> bytes:
        """The body as sent; at most the requested range."""
        asked = _asked_range(self.request_info.headers.get("Range", ""))
        if asked is not None and self.status == HTTPStatus.PARTIAL_CONTENT:
            self._check_begins(asked[0])
        announced = None if "Transfer-Encoding" in self.headers else self.content_length
        limit = _LARGEST_UNANNOUNCED_BYTES if asked is None else asked[1] - asked[0] + 1
        if announced is not None and (asked is None or announced <= limit):
            return await super().read()
        found = await self._read(limit + 1)
        if len(found) <= limit:
            return found
        self.close()
        if asked is None:
            raise AnswerRefusedError(f"the response has no length, and more than {limit} bytes")
        return found[:limit]

    def _check_begins(self, asked: int) -> None:
        start = re.match(r"bytes (\d+)-", self.headers.get("Content-Range", ""))
        if start is not None and int(start[1]) != asked:
            self.close()
            raise AnswerRefusedError(
                f"the range from byte {asked} was requested, but the response starts at byte {start[1]}"
            )

    async def text(self, encoding: str | None = None, errors: str = "strict") -> str:
        """A page, decompressed: some servers compress pages even if that was not requested."""
        limit = _LARGEST_PAGE_BYTES
        sent = await self._read(limit + 1)
        found = bytearray()
        pieces = (sent[start : start + _PIECE_BYTES] for start in range(0, len(sent), _PIECE_BYTES))
        for piece in decoded(pieces, self.headers.get("Content-Encoding", "")):
            found += piece
            if len(found) > limit:
                break
        if max(len(sent), len(found)) > limit:
            self.close()
            raise AnswerRefusedError(f"the page has more than {limit} bytes")
        return found.decode(encoding or _known(self.charset), errors)

    async def _read(self, limit: int) -> bytes:
        """The body, or a little more than ``limit`` bytes of it."""
        pieces, count = [], 0
        while count < limit and (piece := await self.content.readany()):
            pieces.append(piece)
            count += len(piece)
        return b"".join(pieces)


def _asked_range(header: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", header)
    return None if match is None else (int(match[1]), int(match[2]))


def _known(charset: str | None) -> str:
    try:
        return codecs.lookup(charset or "utf-8").name
    except LookupError:
        return "utf-8"
