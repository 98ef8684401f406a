"""Makes moto answer at once the requests that a soak sends hundreds of thousands of times.

Some of moto's answers take time that grows with what it holds: for a page of a listing it sorts all keys, and
for each message that is sent or received it goes through the whole queue several times. The replacements here
read and change moto's own objects, queues and messages, and answer as moto does.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

ACCOUNT = "123456789012"

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Front(Protocol):
    """Answers some requests instead of the server."""

    def before(self, moto: Application) -> Application:
        """The application that gives these answers and passes other requests to ``moto``."""


class QuickAnswers:
    """A server in front of moto that answers requests for objects and for pages of listings.

    It keeps connections open, and passes all other requests on to moto.

    Attributes:
        url: its endpoint.
        requests: how many requests of each kind it has received.
        latency_s: how long each of its answers takes.
    """

    def __init__(self, moto: str) -> None:
        from moto.s3.models import s3_backends

        self.url = ""
        self.latency_s = 0.0
        self.requests: Counter[str] = Counter()
        self._moto = urlsplit(moto)
        self._backend = s3_backends[ACCOUNT]["aws"]
        self._listings: dict[str, list[Any]] = {}
        self._connections: set[Any] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self._connections.add(asyncio.current_task())
        gone = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with contextlib.suppress(*gone):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                answer = self._answer(head)
                if answer is None:
                    await self._pass_on(head, reader, writer)
                    break
                await asyncio.sleep(self.latency_s)
                writer.write(answer)
                await writer.drain()
        writer.close()
        self._connections.discard(asyncio.current_task())

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass this request and what follows to moto, which closes the connection after its answer."""
        from_moto, to_moto = await asyncio.open_connection(self._moto.hostname, self._moto.port)
        to_moto.write(head)
        more = asyncio.create_task(_pipe(reader, to_moto))
        try:
            await _pipe(from_moto, writer)
        finally:
            more.cancel()
            to_moto.close()

    def _answer(self, head: bytes) -> bytes | None:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): v.strip() for name, _, v in (line.partition(":") for line in lines if line)}
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        bucket, _, key = unquote(parts.path.lstrip("/")).partition("/")
        self.requests[_kind_of(method, headers, query, key)] += 1
        if method not in ("GET", "HEAD") or bucket not in self._backend.buckets:
            return None
        if query.get("list-type") == ["2"] and not key:
            return self._page(bucket, query)
        return self._object(method, bucket, key, headers) if key and not query else None

    def _object(self, method: str, bucket: str, key: str, asked: Mapping[str, str]) -> bytes | None:
        """Answer with an object or a range that has a start; None leaves the request to moto.

        moto answers requests with conditions and requests for objects that do not exist.
        """
        found = self._backend.get_bucket(bucket).keys.get(key)
        if type(found).__name__ != "FakeKey" or any(name.startswith("if-") for name in asked):
            return None
        headers = {**found.metadata, **found.response_dict, "Accept-Ranges": "bytes"}
        if method == "HEAD":
            return _answer("200 OK", headers, b"")
        content, status = found.value, "200 OK"
        if wanted := asked.get("range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            if not first or int(first) >= len(content):
                return None
            end = min(int(last or len(content)), len(content) - 1)
            headers["Content-Range"] = f"bytes {first}-{end}/{len(content)}"
            content, status = content[int(first) : end + 1], "206 Partial Content"
        headers["content-length"] = str(len(content))
        return _answer(status, headers, content)

    def _page(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        """Answer with a page of a listing; all its pages show the bucket as it was at the first page."""
        count = int(query.get("max-keys", ["1000"])[0])
        token = query.get("continuation-token", [""])[0]
        if token:
            left = self._listings.pop(token)
        else:
            prefix, delimiter, after = (
                query.get(name, [None])[0] for name in ("prefix", "delimiter", "start-after")
            )
            left, _, _ = self._backend.list_objects_v2(
                self._backend.get_bucket(bucket), prefix, delimiter, None, after, 1 << 40
            )
        page, left = left[:count], left[count:]
        next_token = uuid.uuid4().hex if left else ""
        if left:
            self._listings[next_token] = left
        text = quote if query.get("encoding-type") == ["url"] else escape
        body = "".join(
            [
                '<?xml version="1.0" encoding="UTF-8"?>',
                '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">',
                f"<Name>{bucket}</Name><KeyCount>{len(page)}</KeyCount><MaxKeys>{count}</MaxKeys>",
                f"<IsTruncated>{'true' if left else 'false'}</IsTruncated>",
                f"<NextContinuationToken>{next_token}</NextContinuationToken>" if left else "",
                "<EncodingType>url</EncodingType>" if text is quote else "",
                *(_entry(item, text) for item in page),
                "</ListBucketResult>",
            ]
        ).encode()
        headers = {"Content-Type": "application/xml", "Content-Length": str(len(body))}
        return _answer("200 OK", headers, body)


@contextlib.contextmanager
def quick_answers(moto: str) -> Iterator[QuickAnswers]:
    """Run ``QuickAnswers`` in front of moto."""
    quick, loop = QuickAnswers(moto), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(quick.connected, "127.0.0.1", 0))
    quick.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever, name="quick-answers")
    thread.start()
    try:
        yield quick
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


def _answer(status: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def _entry(item: Any, text: Callable[[str], str]) -> str:
    if isinstance(item, str):
        return f"<CommonPrefixes><Prefix>{text(item)}</Prefix></CommonPrefixes>"
    return (
        f"<Contents><Key>{text(item.name)}</Key><LastModified>{item.last_modified_ISO8601}</LastModified>"
        f"<ETag>{escape(item.etag)}</ETag><Size>{item.size}</Size><StorageClass>STANDARD</StorageClass>"
        "</Contents>"
    )


def _kind_of(method: str, headers: Mapping[str, str], query: Mapping[str, Any], key: str) -> str:
    if target := headers.get("x-amz-target"):
        return target.rpartition(".")[2]
    return "LIST" if method == "GET" and not key and "list-type" in query else method


def make_quick_queues() -> None:
    """Make moto handle a plain message of a standard queue without going through the other messages."""
    from moto.sqs.models import Queue, SQSBackend

    SQSBackend.send_message = _send
    SQSBackend.receive_message = _receive
    SQSBackend.change_message_visibility = _hide
    Queue.delete_message = _delete


def _send(server: Any, queue_name: str, message_body: str, *_: Any, **__: Any) -> Any:
    from moto.sqs.models import Message

    message = Message(str(uuid.uuid4()), message_body)
    message.mark_sent()
    server.get_queue(queue_name).add_message(message)
    return message


def _receive(server: Any, queue_name: str, count: int, wait_s: int, hidden_s: int, *_: Any) -> list[Any]:
    end_s = time.monotonic() + wait_s
    while True:
        queue = server.get_queue(queue_name)
        messages, changed = messages_of(queue)
        with changed:
            now_ms = time.time() * 1000
            visible = (message for message in messages if message.visible_at < now_ms)
            found = list(itertools.islice(visible, count))
            for message in found:
                message.mark_received(visibility_timeout=hidden_s)
                _receipts_of(queue)[message.receipt_handle] = message
            if found or time.monotonic() >= end_s:
                return [copy.copy(message) for message in found]
            changed.wait(0.1)


def _hide(server: Any, queue_name: str, receipt_handle: str, visibility_timeout: int) -> None:
    queue = server.get_queue(queue_name)
    with messages_of(queue)[1]:
        message = _message_of(queue, receipt_handle)
        message.visible_at = (time.time() + visibility_timeout) * 1000


def _delete(queue: Any, receipt: str) -> None:
    messages, changed = messages_of(queue)
    with changed:
        message = _message_of(queue, receipt)
        if message in messages:
            messages.remove(message)


def messages_of(queue: Any) -> tuple[list[Any], threading.Condition]:
    """The messages of a queue that are not deleted, and the condition that guards them."""
    return queue._messages, queue._messages_lock


def _message_of(queue: Any, receipt: str) -> Any:
    from moto.sqs.exceptions import ReceiptHandleIsInvalid

    if receipt not in _receipts_of(queue):
        raise ReceiptHandleIsInvalid
    return _receipts_of(queue)[receipt]


def _receipts_of(queue: Any) -> dict[str, Any]:
    """The messages of a queue by each of their receipts."""
    found: dict[str, Any] = queue.__dict__.setdefault("receipts", {})
    return found
