"""Understands messages about S3 objects, sent directly or through SNS or EventBridge. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_plus

from flip27_source.notifications import FileEvent

_MOST_ENVELOPES = 4
_CREATED = "ObjectCreated"
_REMOVED = ("ObjectRemoved", "LifecycleExpiration")
_BRIDGED = {"Object Created": False, "Object Deleted": True}


def events_of(body: str) -> tuple[FileEvent, ...]:
    """The objects that a message names as written or removed; empty if it says nothing about that.

    Raises:
        ValueError: the message has no known form; the text says what is wrong.
    """
    try:
        return tuple(_events(_opened(body)))
    except (KeyError, TypeError, AttributeError, UnicodeError) as error:
        raise ValueError(f"it is not an event of S3: {type(error).__name__}: {error}") from None


def _opened(body: str) -> Mapping[str, Any]:
    """The message without the envelopes of SNS."""
    found: Any = body
    for _ in range(_MOST_ENVELOPES):
        try:
            found = json.loads(found)
        except ValueError as error:
            raise ValueError(f"it is not JSON: {error}") from None
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        if not isinstance(found, dict):
            raise ValueError(f"it is a JSON {type(found).__name__}, not an object")
        if found.get("Type") != "Notification" or not isinstance(found.get("Message"), str):
            return found
        found = found["Message"]
    raise ValueError(f"it has more than {_MOST_ENVELOPES} envelopes of SNS")


def _events(message: Mapping[str, Any]) -> Iterator[FileEvent]:
    if "Records" in message:
        for record in message["Records"]:
            yield from _of_record(record)
    elif message.get("source") == "aws.s3":
        yield from _of_event_bridge(message)
    elif not (message.get("Service") == "Amazon S3" and message.get("Event") == "s3:TestEvent"):
        raise ValueError("it is not an event of S3: it has neither Records nor the source aws.s3")


def _of_record(record: Mapping[str, Any]) -> Iterator[FileEvent]:
    # MinIO writes s3:ObjectCreated:Put.
    kind = record["eventName"].removeprefix("s3:").partition(":")[0]
    if kind == _CREATED or kind in _REMOVED:
        bucket, key = record["s3"]["bucket"]["name"], record["s3"]["object"]["key"]
        yield _event(bucket, unquote_plus(key, errors="strict"), removed=kind in _REMOVED)


def _of_event_bridge(message: Mapping[str, Any]) -> Iterator[FileEvent]:
    """EventBridge does not encode keys."""
    removed = _BRIDGED.get(message["detail-type"])
    if removed is not None:
        detail = message["detail"]
        yield _event(detail["bucket"]["name"], detail["object"]["key"], removed=removed)


def _event(bucket: Any, key: Any, *, removed: bool) -> FileEvent:
    if not (isinstance(bucket, str) and bucket and isinstance(key, str) and key):
        raise ValueError(f"bucket {bucket!r:.100} and key {key!r:.100} do not name an object")
    path = f"s3://{bucket}/{key}"
    path.encode()  # JSON can contain half a surrogate pair
    return FileEvent(path=path, removed=removed)
