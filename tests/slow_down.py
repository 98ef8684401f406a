"""A proxy in front of an S3 server that answers 503 SlowDown to a seeded share of the requests."""

from __future__ import annotations

import hashlib
import http.client
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.server_process import Answering, web_server

LONGEST = 7
"""More refusals in a row than s3fs tolerates (5), but fewer than two calls of s3fs tolerate."""

SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """How one request is treated until it is answered.

    Attributes:
        times: how often it gets a 503 first.
        done: the request was carried out nevertheless before the last 503, as if its answer was lost.
    """

    times: int = 0
    done: bool = False


class SlowDown:
    """Decides what the proxy does; with the same ``seed`` the same requests are refused in every run.

    Attributes:
        share: the share of requests of each kind that are refused at first; 0 until a test sets it.
        refused: how many requests of each kind were refused.

    Args:
        stubborn: the share of the refused requests that are refused more often than a client tolerates.
    """

    def __init__(self, url: str, upstream: str, *, seed: int, stubborn: float) -> None:
        self.url = url
        self.upstream = urlsplit(upstream).netloc
        self.share = 0.0
        self.refused: Counter[str] = Counter()
        self._seed = seed
        self._stubborn = stubborn
        self._rounds: Counter[tuple[str, str]] = Counter()
        self._refusals: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def next(self, kind: str, path: str) -> tuple[bool, bool]:
        """Whether the request is carried out, and whether its result is the answer."""
        with self._lock:
            refusal = self._refusal(kind, path)
            if self._refusals[kind, path] < refusal.times:
                self._refusals[kind, path] += 1
                self.refused[kind] += 1
                is_last = self._refusals[kind, path] == refusal.times
                return refusal.done and is_last, False
            self._rounds[kind, path] += 1
            self._refusals[kind, path] = 0
            return True, True

    def _refusal(self, kind: str, path: str) -> Refusal:
        if not self.share:
            return Refusal()
        key = f"{self._seed} {kind} {path} {self._rounds[kind, path]}".encode()
        drawn = hashlib.blake2b(key, digest_size=8).digest()
        first, second, third = (number / (1 << 16) for number in memoryview(drawn[:6]).cast("H"))
        if first >= self.share:
            return Refusal()
        return Refusal(LONGEST if second < self._stubborn else 1, done=kind != "get" and third < 0.3)


def kind_of(method: str, path: str, headers: Any) -> str:
    """The kind of a request, roughly as S3 names it."""
    parts = urlsplit(path)
    query = parse_qs(parts.query, keep_blank_values=True)
    if not query.keys().isdisjoint(("uploads", "uploadId")):
        return "multipart"
    if method == "PUT":
        return "copy" if headers.get("x-amz-copy-source") else "put"
    if method == "GET" and not parts.path.strip("/").partition("/")[2]:
        return "list"
    return "delete" if "delete" in query else method.lower()


def lasting_path(path: str) -> str:
    """The part of a request's path that is the same in every run: without bucket, digests and tokens."""
    return re.sub(r"[0-9a-f]{16,}", "", path.partition("?")[0].lstrip("/").partition("/")[2])


@contextmanager
def slow_down(upstream: str, *, seed: int = 0, stubborn: float = 0.0) -> Iterator[SlowDown]:
    """Run a proxy; its ``url`` is the endpoint to use instead of ``upstream``."""

    class Handler(Answering):
        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kind = kind_of(self.command, self.path, self.headers)
            carry_out, answer = proxy.next(kind, lasting_path(self.path))
            try:
                status, headers, content = self._carried_out(body) if carry_out else (503, [], b"")
            except OSError:
                self.close_connection = True  # the server has ended
                return
            if not answer:
                status, headers, content = 503, [("Content-Type", "application/xml")], SLOW_DOWN
            kept = [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
            if self.command == "HEAD":
                kept += [("Content-Length", dict(headers).get("Content-Length", "0"))]
            self.answer(status, content, kept)

        def _carried_out(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            # The header Host stays the one that the client signed: moto finds the bucket in the path.
            connection = http.client.HTTPConnection(proxy.upstream, timeout=60)
            try:
                connection.request(self.command, self.path, body, dict(self.headers))
                response = connection.getresponse()
                return response.status, response.getheaders(), response.read()
            finally:
                connection.close()

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_one  # noqa: N815 - the base's names

    with web_server(Handler) as url:
        proxy = SlowDown(url, upstream, seed=seed, stubborn=stubborn)
        yield proxy
