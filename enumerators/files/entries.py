"""Reads fsspec's listing entries, whose keys differ between file systems. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def etag_of(info: Mapping[str, Any]) -> str:
    """The identifier of an object's version in an fsspec listing entry; empty if there is none."""
    return str(info.get("ETag") or info.get("etag") or "")


def content_hash_of(info: Mapping[str, Any]) -> str:
    """The hash of an object's content in an fsspec listing entry; empty if there is none.

    Google Cloud Storage has one for every object, Azure for blobs that were uploaded in one request.
    """
    md5 = (info.get("content_settings") or {}).get("content_md5")
    return str(info.get("md5Hash") or info.get("crc32c") or (bytes(md5).hex() if md5 else ""))


_TIME_KEYS = (
    "mtime",
    "LastModified",
    "last_modified",
    "Last-Modified",
    "updated",
    "modified",
    "created",
    "modify",
)


def modified_us(info: Mapping[str, Any]) -> int:
    """The modification time in an fsspec listing entry, whatever key the file system uses."""
    for key in _TIME_KEYS:
        value = info.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1_000_000)
        if isinstance(value, int | float):
            return int(value * 1_000_000)
        if isinstance(value, str):
            if key == "Last-Modified":
                return _of_http(value)
            if key == "modify":
                return _of_ftp(value)
            return int(datetime.fromisoformat(value).timestamp() * 1_000_000)
    return 0


def _of_ftp(value: str) -> int:
    """The time of MLSD; servers without it give texts such as ``Nov 29 07:19``, in an unknown zone."""
    try:
        return int(datetime.fromisoformat(f"{value[:8]}T{value[8:]}+00:00").timestamp() * 1_000_000)
    except ValueError:
        return 0


def _of_http(value: str) -> int:
    # Imported late, because the email modules take 5 ms of every start.
    from email.utils import parsedate_to_datetime

    try:
        return int(parsedate_to_datetime(value).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return 0  # an invalid date counts as a missing date
