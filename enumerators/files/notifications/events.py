"""Understands what messages say about files: objects of S3, and blobs of Azure by Event Grid. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from flip27_source.notifications import FileEvent, Message

_MOST_ENVELOPES = 4
_CREATED = "ObjectCreated"
_REMOVED = ("ObjectRemoved", "LifecycleExpiration")
_BRIDGED = {"Object Created": False, "Object Deleted": True}

_SUBJECT = re.compile(r"/blobServices/default/containers/([^/]+)/blobs/(.+)", re.DOTALL)
_ACCOUNT = re.compile(r"/storageAccounts/([^/]+)", re.IGNORECASE)
_STORAGE = "Microsoft.Storage."
_NOT_WRITTEN_YET = frozenset({"CreateFile", "SftpCreate", "SftpWrite"})
"""Calls on a file that is not complete; FlushWithClose or SftpCommit reports that it is."""


def message_of(
    body: str, events_of: Callable[[str], tuple[FileEvent, ...]], *, message_id: str, receipt: str
) -> Message:
    """A message of a queue; it has a problem if ``events_of`` does not understand its body."""
    try:
        events = events_of(body)
    except ValueError as error:
        return Message(message_id=message_id, receipt=receipt, problem=str(error), body=body)
    return Message(message_id=message_id, receipt=receipt, events=events)


def events_of_s3(body: str) -> tuple[FileEvent, ...]:
    """The objects that a message of S3, SNS or EventBridge names as written or removed."""
    return _understood(body, "S3", _s3_events)


def events_of_event_grid(body: str) -> tuple[FileEvent, ...]:
    """The blobs that a message names, in the schema of Event Grid or as CloudEvents."""
    return _understood(body, "Event Grid", _blob_events)


def _understood(body: str, service: str, read: Callable[[str], Iterator[FileEvent]]) -> tuple[FileEvent, ...]:
    try:
        return tuple(read(body))
    except (KeyError, TypeError, AttributeError, UnicodeError) as error:
        raise ValueError(f"it is not an event of {service}: {type(error).__name__}: {error}") from None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def _event(path: str, *, removed: bool = False) -> FileEvent:
    path.encode()  # JSON can contain half a surrogate pair
    return FileEvent(path=path, removed=removed)


def _s3_events(body: str) -> Iterator[FileEvent]:
    message = _without_envelopes(body)
    if "Records" in message:
        for record in message["Records"]:
            # MinIO writes s3:ObjectCreated:Put.
            kind = record["eventName"].removeprefix("s3:").partition(":")[0]
            if kind == _CREATED or kind in _REMOVED:
                bucket, key = record["s3"]["bucket"]["name"], record["s3"]["object"]["key"]
                yield _object(bucket, unquote_plus(key, errors="strict"), removed=kind in _REMOVED)
    elif message.get("source") == "aws.s3":
        removed = _BRIDGED.get(message["detail-type"])
        if removed is not None:
            # EventBridge does not encode keys.
            yield _object(
                message["detail"]["bucket"]["name"], message["detail"]["object"]["key"], removed=removed
            )
    elif not (message.get("Service") == "Amazon S3" and message.get("Event") == "s3:TestEvent"):
        raise ValueError("it is not an event of S3: it has neither Records nor the source aws.s3")


def _without_envelopes(body: str) -> Mapping[str, Any]:
    """The message without the envelopes of SNS."""
    text = body
    for _ in range(_MOST_ENVELOPES):
        message = _json(text)
        if not isinstance(message, dict):
            raise ValueError(f"it is a JSON {type(message).__name__}, not an object")
        if message.get("Type") != "Notification" or not isinstance(message.get("Message"), str):
            return message
        text = message["Message"]
    raise ValueError(f"it has more than {_MOST_ENVELOPES} envelopes of SNS")


def _object(bucket: Any, key: Any, *, removed: bool) -> FileEvent:
    if not (isinstance(bucket, str) and bucket and isinstance(key, str) and key):
        raise ValueError(f"bucket {bucket!r:.100} and key {key!r:.100} do not name an object")
    return _event(f"s3://{bucket}/{key}", removed=removed)


def _blob_events(body: str) -> Iterator[FileEvent]:
    message = _json(_without_base64(body.strip()))
    for event in message if isinstance(message, list) else [message]:
        kind = event.get("eventType") or event.get("type")
        if not isinstance(kind, str):
            raise ValueError("it is not an event of Event Grid: it has neither eventType nor type")
        what, data = kind.removeprefix(_STORAGE), event.get("data") or {}
        if what == "BlobDeleted":
            yield _named_blob(event, removed=True)
        elif what == "BlobRenamed" or (what == "BlobCreated" and data.get("api") not in _NOT_WRITTEN_YET):
            yield _named_blob(event)
        if what == "BlobRenamed":
            yield _former_blob(event, data["sourceUrl"])


def _without_base64(text: str) -> str:
    """The text of a message, which Event Grid encodes as Base64 for a queue."""
    if text[:1] in ("{", "["):
        return text
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        raise ValueError("it is neither JSON nor Base64 of JSON") from None


def _named_blob(event: Mapping[str, Any], *, removed: bool = False) -> FileEvent:
    """The blob of the event's subject, which, unlike the URL, is not percent-encoded."""
    subject = _SUBJECT.fullmatch(event["subject"])
    if subject is None:
        raise ValueError(f"subject {event['subject']!r:.300} does not name a blob")
    return _blob(event, event["data"]["url"], subject[1], subject[2], removed=removed)


def _former_blob(event: Mapping[str, Any], url: str) -> FileEvent:
    container, _, name = unquote(urlsplit(url).path).lstrip("/").partition("/")
    if not name:
        raise ValueError(f"{url!r:.300} does not name a blob")
    return _blob(event, url, container, name, removed=True)


def _blob(event: Mapping[str, Any], url: str, container: str, name: str, *, removed: bool) -> FileEvent:
    topic = _ACCOUNT.search(str(event.get("topic") or event.get("source") or ""))
    account = topic[1] if topic else urlsplit(url).netloc.partition(".")[0]
    return _event(f"abfs://{container}@{account}.dfs.core.windows.net/{name}", removed=removed)
