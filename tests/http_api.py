"""A JSON API on this machine that pages in every way that the http source knows and misbehaves on demand."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.server_process import Answering, web_server

Record = dict[str, Any]
Params = dict[str, str]


@dataclass(slots=True)
class Answer:
    """What the server sends: ``body`` is converted to JSON unless it is bytes."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    framing: str = "length"
    """How the end of the body is marked: length, chunked, or close (the connection ends)."""
    cut: bool = False
    """The connection ends in the middle of the body."""


class Misbehaviour:
    """What the server does wrong in one answer."""

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        """The wrong answer; the right one is ``api.answer(path, params)``."""
        raise NotImplementedError


@dataclass(frozen=True)
class Fails(Misbehaviour):
    """An answer with an error status."""

    status: int = 500
    retry_after: str | None = None
    body: str = "oops"
    location: str | None = None

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        given = {"Retry-After": self.retry_after, "Location": self.location}
        headers = {name: value for name, value in given.items() if value is not None}
        return Answer(self.body.encode(), status=self.status, headers=headers)


@dataclass(frozen=True)
class Cuts(Misbehaviour):
    """The right answer without its second half."""

    framing: str = "length"

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        right = api.answer(path, params)
        return Answer(right.body, headers=right.headers, framing=self.framing, cut=True)


class HangsUp(Misbehaviour):
    """No answer at all."""

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        raise ConnectionResetError


class IsSlow(Misbehaviour):
    """No answer before the client gives up."""

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        api.closed.wait(60)
        raise ConnectionResetError


class Repeats(Misbehaviour):
    """The same answer as to the previous request."""

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        return api.last_answer or api.answer(path, params)


@dataclass(frozen=True)
class ChangesPageSize(Misbehaviour):
    """The right answer, but pages have another size from here on."""

    size: int

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        api.page_size = self.size
        return api.answer(path, params)


@dataclass(frozen=True)
class Grows(Misbehaviour):
    """The right answer after more records were added."""

    records: tuple[Record, ...]

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        api.records.extend(self.records)
        return api.answer(path, params)


@dataclass(frozen=True)
class Removes(Misbehaviour):
    """The right answer after a record was removed."""

    number: int

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        del api.records[self.number]
        return api.answer(path, params)


@dataclass(frozen=True)
class Says(Misbehaviour):
    """An answer with the given body."""

    body: bytes
    framing: str = "length"
    headers: tuple[tuple[str, str], ...] = ()

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        return Answer(self.body, framing=self.framing, headers=dict(self.headers))


class HttpApi:
    """The records, which are the same under every path; the first part of a path says how they are paged."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.records: list[Record] = []
        self.page_size = 4
        self.requests: list[tuple[str, Params, dict[str, str]]] = []
        self.misbehaviours: deque[Misbehaviour | None] = deque()
        self.last_answer: Answer | None = None
        self.closed = threading.Event()
        self.token: str | None = None

    def misbehaves(self, *how: Misbehaviour | None) -> None:
        """Answer the next requests in these ways, one after the other; None stands for the right answer."""
        self.misbehaviours.extend(how)

    def next_answer(self, path: str, params: Params, headers: dict[str, str]) -> Answer:
        self.requests.append((path, params, headers))
        how = self.misbehaviours.popleft() if self.misbehaviours else None
        answer = self.answer(path, params) if how is None else how.answer(self, path, params)
        if self.token is not None and self.token not in (headers.get("Authorization"), params.get("token")):
            return Answer({"error": "who are you?"}, status=401)
        if answer.status == 200 and not answer.cut:
            self.last_answer = answer
        return answer

    def answer(self, path: str, params: Params) -> Answer:
        """The right answer."""
        kind = path.split("/")[1]
        found: Answer = getattr(self, f"_{kind}", self._unknown)(path, params)
        return found

    def _unknown(self, path: str, params: Params) -> Answer:
        return Answer({"error": f"no {path}"}, status=404)

    def _none(self, path: str, params: Params) -> Answer:
        return Answer(self.records)

    def _cursor(self, path: str, params: Params) -> Answer:
        start = int(params.get("cursor", "after-0").removeprefix("after-"))
        page, end = self._slice(start)
        following = f"after-{end}" if end < len(self.records) else None
        return Answer({"data": {"items": page}, "meta": {"next": following}})

    def _feed(self, path: str, params: Params) -> Answer:
        """Page by cursor as event feeds do: there is always a next cursor."""
        page, end = self._slice(int(params.get("cursor", "0")))
        return Answer({"items": page, "next": end})

    def _link(self, path: str, params: Params) -> Answer:
        page, end = self._slice(int(params.get("offset", "0")))
        query = urlencode({**params, "offset": end})
        link = {"Link": f'<{path}?{query}>; rel="next"'} if end < len(self.records) else {}
        return Answer(page, headers=link)

    def _endless_link(self, path: str, params: Params) -> Answer:
        """Page by links; each page has one, even where the next page has no records yet."""
        number = int(params.get("page", "1"))
        page, _ = self._slice((number - 1) * self.page_size)
        return Answer(page, headers={"Link": f'<{path}?page={number + 1}>; rel="next"'})

    def _endless_cursor(self, path: str, params: Params) -> Answer:
        """Page by numbers that look like cursors: each page has the next one."""
        number = int(params.get("cursor", "1"))
        page, _ = self._slice((number - 1) * self.page_size)
        return Answer({"items": page, "next": number + 1})

    def _ring(self, path: str, params: Params) -> Answer:
        """Page by links; the last page leads back to the offset that is the last part of the path."""
        page, end = self._slice(int(params.get("offset", "0")))
        following = end if end < len(self.records) else int(path.rsplit("/", 1)[1])
        return Answer(page, headers={"Link": f'<{path}?offset={following}>; rel="next"'})

    def _body_link(self, path: str, params: Params) -> Answer:
        page, end = self._slice(int(params.get("offset", "0")))
        following = f"{self.url}{path}?offset={end}" if end < len(self.records) else ""
        return Answer({"items": page, "links": {"next": following}})

    def _page(self, path: str, params: Params) -> Answer:
        page, _ = self._slice((int(params["page"]) - 1) * self.page_size)
        return Answer({"items": page})

    def _strict_page(self, path: str, params: Params) -> Answer:
        page, _ = self._slice((int(params["page"]) - 1) * self.page_size)
        return (
            Answer({"items": page})
            if page or params["page"] == "1"
            else Answer({"detail": "Invalid page."}, status=404)
        )

    def _sized_page(self, path: str, params: Params) -> Answer:
        self.page_size = int(params["per_page"])
        return self._page(path, params)

    def _since(self, path: str, params: Params) -> Answer:
        since = params.get("since", "")
        found = [record for record in self.records if record["at"] >= since]
        return Answer(sorted(found, key=lambda record: record["at"])[: self.page_size])

    def _slice(self, start: int) -> tuple[list[Record], int]:
        end = min(start + self.page_size, len(self.records))
        return self.records[start : start + self.page_size], max(start, end)


@contextmanager
def http_api() -> Iterator[HttpApi]:
    """Run a server without records."""

    class Handler(Answering):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            params = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            try:
                self._send(api.next_answer(parts.path, params, dict(self.headers)))
            except OSError:
                self.close_connection = True  # the client has left, or the test wants it to get no answer

        def _send(self, answer: Answer) -> None:
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            sent = body[: len(body) // 2] if answer.cut else body
            if answer.framing == "length":
                self.send_header("Content-Length", str(len(body)))
            elif answer.framing == "chunked":
                self.send_header("Transfer-Encoding", "chunked")
                sent = b"%x\r\n%s\r\n" % (len(sent), sent) + (b"" if answer.cut else b"0\r\n\r\n")
            self.end_headers()
            self.wfile.write(sent)
            self.close_connection = answer.cut or answer.framing == "close"

    with web_server(Handler) as url:
        api = HttpApi(url)
        try:
            yield api
        finally:
            api.closed.set()
