"""What fsspec's listing entries say of a file, however each file system calls it. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def etag_of(info: Mapping[str, Any]) -> str:
    """What tells versions of an object apart, in an fsspec listing entry; empty where there is nothing."""
    return str(info.get("ETag") or info.get("etag") or "")


_TIME_KEYS = ("mtime", "LastModified", "last_modified", "Last-Modified", "updated", "modified", "created")


def modified_us(info: Mapping[str, Any]) -> int:
    """The modification time in an fsspec listing entry, however that file system calls it."""
    for key in _TIME_KEYS:
        value = info.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1_000_000)
        if isinstance(value, int | float):
            return int(value * 1_000_000)
        if isinstance(value, str):
            if key == "Last-Modified":
                return _of_http(value)
            return int(datetime.fromisoformat(value).timestamp() * 1_000_000)
    return 0


def _of_http(value: str) -> int:
    # Only here: the modules of mail take 5 ms of every start.
    from email.utils import parsedate_to_datetime

    try:
        return int(parsedate_to_datetime(value).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return 0  # a date that is none is as good as none
