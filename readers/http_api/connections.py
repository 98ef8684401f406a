"""Connections to an HTTP API: requests have a deadline, bodies have a limit, and only one server is called.

requests and urllib3 do the work. This module adds what they do not guarantee. Their timeouts restart with
each byte, their bodies have no limit, and parsers that read a URL differently connect to different hosts.
It is imported by the first reader, because the package requests is optional.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.models import PreparedRequest

from flip27_source.web.content_codings import CutOffError, UnknownCodingError, decoded

Origin: TypeAlias = "tuple[str, str, int | None]"
"""Scheme, host and port: the server for which a credential is valid."""

_PIECE_BYTES = 1 << 16
_SHOWN_BODY_BYTES = 100_000
_PORTS = {"http": 80, "https": 443}
_BROKEN = (urllib3.exceptions.HTTPError, requests.RequestException, OSError)


class Unanswered(Exception):  # noqa: N818 - a request to retry, which becomes an error in the end
    """No complete answer arrived; a retry may succeed."""


class Refused(Exception):  # noqa: N818 - the reader converts it to an error that names the request
    """A request that is not sent, or an answer that is not accepted; a retry does not help."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer; its body is decompressed, and only its start if the status is an error."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@lru_cache(maxsize=128)
def origin_of(url: str) -> Origin:
    """The server that a request for ``url`` connects to, by the parser that makes the connection.

    Raises:
        ValueError: ``url`` is not an HTTP URL.
    """
    request = PreparedRequest()
    request.prepare_url(url, None)
    return _origin(request)


class Connections:
    """Makes GET requests, one at a time."""

    def __init__(self, *, timeout_s: float, max_body_bytes: int) -> None:
        self._timeout_s = timeout_s
        self._max_body_bytes = max_body_bytes
        self._watchdog = _Watchdog(timeout_s)
        self._known_settings: dict[Origin, Mapping[str, Any]] = {}
        self._session = requests.Session()
        self._session.headers["Accept-Encoding"] = "gzip"
        self._adapter = _WatchedAdapter()
        self._session.mount("http://", self._adapter)
        self._session.mount("https://", self._adapter)

    def get(self, url: str, *, home: str, headers: Mapping[str, str], auth: Callable[[Any], Any]) -> Answer:
        """The answer; only the start of its body if the status is not 200.

        Args:
            home: a URL of the only server that the request may go to.
            auth: puts the credential into the request.

        Raises:
            Unanswered: the request may be retried.
            Refused: a retry does not help.
        """
        try:
            request = self._session.prepare_request(
                requests.Request("GET", url, headers=dict(headers), auth=auth)
            )
            goes_to = _origin(request)
            is_elsewhere = goes_to != origin_of(home)
            settings = self._settings(str(request.url), goes_to)
        except (requests.RequestException, ValueError) as error:
            raise _not_made(error) from None
        if is_elsewhere:
            raise Refused(
                "it would lead to another server",
                "the credential is only sent to the scheme, host and port of path and endpoints",
            )
        with self._watchdog.request() as deadline:
            try:
                # Do not use the session: it keeps cookies, and reads the whole body of a redirect.
                answer = self._adapter.send(request, timeout=self._timeout_s, **settings)
                with contextlib.closing(answer):
                    taken = self._taken(answer)
            except (requests.exceptions.InvalidProxyURL, requests.exceptions.InvalidURL) as error:
                raise _not_sent(error, str(request.url), settings) from None
            except (Unanswered, *_BROKEN) as error:
                if deadline.is_over or isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
                    raise self._late() from None
                raise Unanswered(
                    f"the connection broke or the body was cut off: {_described(error)}"
                ) from None
            except Refused:
                raise
            except Exception as error:  # noqa: BLE001 - urllib3 raises a TypeError for a proxy without a host
                raise _not_sent(error, str(request.url), settings) from None
            # A body without a length looks complete when its connection is closed.
            if deadline.is_over:
                raise self._late()
        return taken

    def close(self) -> None:
        self._watchdog.close()
        self._session.close()

    def _settings(self, url: str, origin: Origin) -> Mapping[str, Any]:
        """The environment's proxies and certificates, cached because finding them is slow."""
        if origin not in self._known_settings:
            settings = self._session.merge_environment_settings(url, {}, True, None, None)
            self._known_settings[origin] = settings
        return self._known_settings[origin]

    def _late(self) -> Unanswered:
        return Unanswered(f"no complete answer within {self._timeout_s:g} seconds (requestTimeout)")

    def _taken(self, answer: Any) -> Answer:
        return Answer(
            status=answer.status_code,
            headers=answer.headers,
            body=self._body(answer) if answer.status_code == 200 else _beginning(answer),
        )

    def _body(self, answer: Any) -> bytes:
        length = answer.raw.length_remaining
        if length is not None and length > self._max_body_bytes:
            raise self._too_large(f"has {length} bytes,")
        body = bytearray()
        for piece in _unpacked(answer, self._within(answer.raw)):
            body += piece
            if len(body) > self._max_body_bytes:
                raise self._too_large("unpacks to")
        return bytes(body)

    def _within(self, raw: Any) -> Iterator[bytes]:
        count = 0
        for piece in _pieces(raw):
            count += len(piece)
            if count > self._max_body_bytes:
                raise self._too_large("has")
            yield piece

    def _too_large(self, what: str) -> Refused:
        return Refused(
            f"the answer {what} more than the {self._max_body_bytes} bytes of maxResponseBytes",
            "request smaller pages (pageSizeParam and pageSize, or a parameter in the path); or raise "
            "maxResponseBytes, if the executors have several times that much memory",
        )


class _Deadline:
    """The deadline of a request, and the connections that are closed when it passes."""

    def __init__(self, ends_s: float) -> None:
        self.ends_s = ends_s
        self.is_over = False
        self._sockets: list[socket.socket] = []

    def watch(self, connection: Any) -> None:
        """Shut down the socket ``connection`` at the deadline."""
        # Duplicate the descriptor: TLS takes over the original, and reading a body closes it.
        watched = socket.socket(fileno=os.dup(connection.fileno()))
        self._sockets.append(watched)
        if self.is_over:
            _shut_down(watched)

    def end(self) -> None:
        """Shut down the connections, because the request has taken too long."""
        self.is_over = True
        for watched in tuple(self._sockets):
            _shut_down(watched)

    def close(self) -> None:
        """Release the connections, because the request is complete."""
        for watched in self._sockets:
            watched.close()


class _Watchdog:
    """Ends requests that take too long, with one thread for the many requests of a reader."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._current: _Deadline | None = None
        self._is_running = False
        self._closed = threading.Event()

    @contextlib.contextmanager
    def request(self) -> Iterator[_Deadline]:
        """Watch the connections that this thread opens inside the context."""
        deadline = _Deadline(time.monotonic() + self._timeout_s)
        with self._lock:
            self._current = deadline
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="flip27-http-deadline", daemon=True).start()
        before = _deadline.set(deadline)
        try:
            yield deadline
        finally:
            _deadline.reset(before)
            with self._lock:
                self._current = None
                deadline.close()

    def close(self) -> None:
        """Stop the thread; no request follows."""
        self._closed.set()

    def _run(self) -> None:
        wait_s = self._timeout_s
        while True:
            is_closed = self._closed.wait(wait_s)
            with self._lock:
                if is_closed or self._current is None:
                    self._is_running = False
                    return
                # The deadline may belong to a later request than the one that was waited for.
                wait_s = self._current.ends_s - time.monotonic()
                if wait_s <= 0:
                    self._current.end()
                    wait_s = self._timeout_s


_deadline: ContextVar[_Deadline] = ContextVar("deadline")


class _NotOfOurs(logging.Filter):
    """Drops urllib3's log records of these requests, because their URLs contain tokens."""

    def filter(self, record: logging.LogRecord) -> bool:
        return _deadline.get(None) is None


for _logger in ("connection", "connectionpool", "poolmanager", "response", "util.retry"):
    logging.getLogger(f"urllib3.{_logger}").addFilter(_NotOfOurs())


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side closed the connection first
        connection.shutdown(socket.SHUT_RDWR)


class _Watched:
    """Mixed into urllib3's connections: the deadline of the request shuts the connection down."""

    sock: Any

    def _new_conn(self) -> Any:
        made = super()._new_conn()  # type: ignore[misc]
        _deadline.get().watch(made)
        return made

    def request(self, *args: Any, **kwargs: Any) -> Any:
        if self.sock is not None:
            _deadline.get().watch(self.sock)
        return super().request(*args, **kwargs)  # type: ignore[misc]


def _watched(pools: Mapping[str, Any]) -> dict[str, Any]:
    watched = {}
    for scheme, pool in pools.items():
        connection = type(f"Watched{pool.ConnectionCls.__name__}", (_Watched, pool.ConnectionCls), {})
        watched[scheme] = type(f"Watched{pool.__name__}", (pool,), {"ConnectionCls": connection})
    return watched


class _WatchedAdapter(HTTPAdapter):
    """An adapter whose connections end at the deadline, including those through a proxy."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _watched(self.poolmanager.pool_classes_by_scheme)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        is_new = proxy not in self.proxy_manager
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        if is_new:
            manager.pool_classes_by_scheme = _watched(manager.pool_classes_by_scheme)
        return manager


def _origin(request: Any) -> Origin:
    # requests itself parses a prepared URL this way.
    parts = urlsplit(request.url)
    if parts.scheme not in _PORTS or parts.hostname is None:
        raise ValueError("a URL with http:// or https:// and a host is expected")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def _pieces(raw: Any) -> Iterator[bytes]:
    while piece := raw.read(_PIECE_BYTES, decode_content=False):
        yield piece


def _beginning(answer: Any) -> bytes:
    """The start of an error's body, or the part of it that can be read."""
    body = bytearray()
    with contextlib.suppress(Unanswered, Refused, *_BROKEN):
        for piece in _unpacked(answer, _pieces(answer.raw)):
            body += piece
            if len(body) > _SHOWN_BODY_BYTES:
                break
    return bytes(body[:_SHOWN_BODY_BYTES])


def _unpacked(answer: Any, pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        headers = answer.headers
        yield from decoded(pieces, headers.get("Content-Encoding", ""), headers.get("Transfer-Encoding", ""))
    except UnknownCodingError as error:
        raise Refused(str(error), "let the server answer with gzip or without compression") from None
    except CutOffError as error:
        raise Unanswered(str(error)) from None


def _not_made(error: Exception) -> Refused:
    return Refused(f"it cannot be sent: {_described(error)}", "check the path, endpoints and headers")


def _not_sent(error: Exception, url: str, settings: Mapping[str, Any]) -> Refused:
    if requests.utils.select_proxy(url, settings["proxies"]) is None:
        return _not_made(error)
    # The text of the error may contain the password of the proxy.
    return Refused(
        f"it cannot be sent through the proxy that the environment names: {type(error).__name__}",
        "check http_proxy, https_proxy and all_proxy of the executors: each is a URL such as "
        "http://proxy.example:3128, and special characters of a user and password in it are escaped",
    )


def _described(error: BaseException) -> str:
    return str(error) if isinstance(error, Unanswered) else f"{type(error).__name__}: {error}"
