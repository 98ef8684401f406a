"""Understands messages of Azure Event Grid about blobs, in its own schema and as CloudEvents. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from flip27_source.notifications import FileEvent

_SUBJECT = re.compile(r"/blobServices/default/containers/([^/]+)/blobs/(.+)", re.DOTALL)
_ACCOUNT = re.compile(r"/storageAccounts/([^/]+)", re.IGNORECASE)
_STORAGE = "Microsoft.Storage."
_NOT_WRITTEN_YET = frozenset({"CreateFile", "SftpCreate", "SftpWrite"})
"""Calls on a file that is not complete; FlushWithClose or SftpCommit reports that it is."""


def events_of(body: str) -> tuple[FileEvent, ...]:
    """The blobs that a message names as written or removed; empty if it says nothing about that.

    Raises:
        ValueError: the message has no known form; the text says what is wrong.
    """
    try:
        found = _opened(body)
        return tuple(event for one in found for event in _events(one))
    except (KeyError, TypeError, AttributeError, UnicodeError) as error:
        raise ValueError(f"it is not an event of Event Grid: {type(error).__name__}: {error}") from None


def _opened(body: str) -> list[Any]:
    """The events of a message. Event Grid encodes messages for queues as Base64."""
    text = body.strip()
    if text[:1] not in ("{", "["):
        try:
            text = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, ValueError):
            raise ValueError("it is neither JSON nor Base64 of JSON") from None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    return found if isinstance(found, list) else [found]


def _events(event: Mapping[str, Any]) -> Iterator[FileEvent]:
    kind = event.get("eventType") or event.get("type")
    if not isinstance(kind, str):
        raise ValueError("it is not an event of Event Grid: it has neither eventType nor type")
    what, data = kind.removeprefix(_STORAGE), event.get("data") or {}
    if what == "BlobCreated" and data.get("api") not in _NOT_WRITTEN_YET:
        yield FileEvent(path=_path(event))
    elif what == "BlobDeleted":
        yield FileEvent(path=_path(event), removed=True)
    elif what == "BlobRenamed":
        yield FileEvent(path=_path(event))
        yield FileEvent(path=_path_of_url(event, data["sourceUrl"]), removed=True)


def _path(event: Mapping[str, Any]) -> str:
    """The blob's path, taken from the event's subject, which, unlike the URL, is not percent-encoded."""
    subject = _SUBJECT.fullmatch(event["subject"])
    if subject is None:
        raise ValueError(f"subject {event['subject']!r:.300} does not name a blob")
    return _url(_account(event, event["data"]["url"]), subject[1], subject[2])


def _path_of_url(event: Mapping[str, Any], url: str) -> str:
    parts = unquote(urlsplit(url).path).lstrip("/").split("/", 1)
    if len(parts) < 2:
        raise ValueError(f"{url!r:.300} does not name a blob")
    return _url(_account(event, url), parts[0], parts[1])


def _account(event: Mapping[str, Any], url: str) -> str:
    named = _ACCOUNT.search(str(event.get("topic") or event.get("source") or ""))
    return named[1] if named else urlsplit(url).netloc.partition(".")[0]


def _url(account: str, container: str, name: str) -> str:
    path = f"abfs://{container}@{account}.dfs.core.windows.net/{name}"
    path.encode()  # JSON can contain half a surrogate pair
    return path
