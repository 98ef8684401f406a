"""Lets moto answer at once where a soak asks it hundreds of thousands of times.

Some of moto's answers take time that grows with what it holds: a page of a listing sorts all keys, and each
message that is sent or received looks through the whole queue several times. What is put in their place
reads and changes moto's own objects, queues and messages, and answers as moto does.
"""

from __future__ import annotations

import copy
import itertools
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol
from urllib.parse import parse_qs, quote
from xml.sax.saxutils import escape

ACCOUNT = "123456789012"

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
Answer = tuple[str, list[tuple[str, str]], bytes]


class Front(Protocol):
    """Answers some requests in place of the server."""

    def before(self, moto: Application) -> Application:
        """The server with these answers."""


class QuickAnswers(Front):
    """Answers a server's requests for objects and for pages of listings; moto answers all the others.

    Attributes:
        requests: how many of each kind the server has received.
    """

    def __init__(self) -> None:
        from moto.s3.models import s3_backends

        self.requests: Counter[str] = Counter()
        self._server = s3_backends[ACCOUNT]["aws"]
        self._listings: dict[str, list[Any]] = {}
        self._lock = threading.Lock()

    def before(self, moto: Application) -> Application:
        """The same answers, sooner."""
        return lambda environ, start_response: self._answered(moto, environ, start_response)

    def _answered(self, moto: Application, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        query = parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
        bucket, _, key = environ["PATH_INFO"].encode("latin-1").decode().lstrip("/").partition("/")
        with self._lock:
            self.requests[_kind_of(environ, query, key)] += 1
        answer = None
        if environ["REQUEST_METHOD"] in ("GET", "HEAD") and bucket in self._server.buckets:
            if query.get("list-type") == ["2"] and not key:
                answer = self._page(bucket, query)
            elif key and not query:
                answer = self._object(bucket, key, environ)
        if answer is None:
            return moto(environ, start_response)
        status, headers, content = answer
        start_response(status, headers)
        return [content]

    def _object(self, bucket: str, key: str, environ: dict[str, Any]) -> Answer | None:
        """A whole object, or a range with a start; conditions and what does not exist are moto's."""
        found = self._server.get_bucket(bucket).keys.get(key)
        if type(found).__name__ != "FakeKey" or any(name.startswith("HTTP_IF_") for name in environ):
            return None
        headers = [*found.metadata.items(), *found.response_dict.items(), ("Accept-Ranges", "bytes")]
        if environ["REQUEST_METHOD"] == "HEAD":
            return "200 OK", headers, b""
        content, status = found.value, "200 OK"
        if asked := environ.get("HTTP_RANGE"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            if not first or int(first) >= len(content):
                return None
            end = min(int(last or len(content)), len(content) - 1)
            headers.append(("Content-Range", f"bytes {first}-{end}/{len(content)}"))
            content, status = content[int(first) : end + 1], "206 Partial Content"
        headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
        return status, [*headers, ("Content-Length", str(len(content)))], content

    def _page(self, bucket: str, query: dict[str, list[str]]) -> Answer:
        """A page of a listing, the state of which is that of its first page."""
        count = int(query.get("max-keys", ["1000"])[0])
        token = query.get("continuation-token", [""])[0]
        if token:
            left = self._listings.pop(token)
        else:
            prefix, delimiter, after = (
                query.get(name, [None])[0] for name in ("prefix", "delimiter", "start-after")
            )
            left, _, _ = self._server.list_objects_v2(
                self._server.get_bucket(bucket), prefix, delimiter, None, after, 1 << 40
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
        return "200 OK", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))], body


def _entry(item: Any, text: Callable[[str], str]) -> str:
    if isinstance(item, str):
        return f"<CommonPrefixes><Prefix>{text(item)}</Prefix></CommonPrefixes>"
    return (
        f"<Contents><Key>{text(item.name)}</Key><LastModified>{item.last_modified_ISO8601}</LastModified>"
        f"<ETag>{escape(item.etag)}</ETag><Size>{item.size}</Size><StorageClass>STANDARD</StorageClass>"
        "</Contents>"
    )


def _kind_of(environ: dict[str, Any], query: dict[str, list[str]], key: str) -> str:
    if target := environ.get("HTTP_X_AMZ_TARGET"):
        return str(target).rpartition(".")[2]
    method = environ["REQUEST_METHOD"]
    return "LIST" if method == "GET" and not key and "list-type" in query else str(method)


def make_quick_queues() -> None:
    """Plain messages of standard queues are sent, received and deleted without a look at the others."""
    from moto.sqs.exceptions import ReceiptHandleIsInvalid
    from moto.sqs.models import Message, Queue, SQSBackend

    def send(self: Any, queue_name: str, message_body: str, *_: Any, **__: Any) -> Any:
        message = Message(str(uuid.uuid4()), message_body)
        message.mark_sent()
        self.get_queue(queue_name).add_message(message)
        return message

    def receive(self: Any, queue_name: str, count: int, wait_s: int, hidden_s: int, *_: Any) -> list[Any]:
        end_s = time.monotonic() + wait_s
        while True:
            queue = self.get_queue(queue_name)
            with queue._messages_lock:
                now_ms = time.time() * 1000
                visible = (message for message in queue._messages if message.visible_at < now_ms)
                found = list(itertools.islice(visible, count))
                for message in found:
                    message.mark_received(visibility_timeout=hidden_s)
                if found or time.monotonic() >= end_s:
                    return [copy.copy(message) for message in found]
                queue._messages_lock.wait(0.1)

    def delete(self: Any, receipt: str) -> None:
        with self._messages_lock:
            for number, message in enumerate(self._messages):
                if message.had_receipt_handle(receipt):
                    self.deleted_messages.update(message.all_receipt_handles)
                    del self._messages[number]
                    return
        if receipt not in self.deleted_messages:
            raise ReceiptHandleIsInvalid

    SQSBackend.send_message = send
    SQSBackend.receive_message = receive
    Queue.delete_message = delete
