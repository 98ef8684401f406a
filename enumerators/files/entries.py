"""Reads fsspec's listing entries, whose keys differ between file systems. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from flip27_source.event_time import microseconds_of
from flip27_source.values.times import in_utc


def etag_of(info: Mapping[str, Any]) -> str:
    """The ETag in an fsspec listing entry; empty if there is none."""
    return str(info.get("ETag") or info.get("etag") or "")


def version_tag_of(info: Mapping[str, Any]) -> str:
    """The identifier of an object's content in an fsspec listing entry; empty if there is none.

    On Google Cloud Storage it is the generation: the ETag changes with the metadata and the storage class.
    """
    return str(info.get("generation") or "") or etag_of(info)


def has_version_tag(info: Mapping[str, Any], tag: str) -> bool:
    """Whether an entry is of this version; its tag may be an ETag that an earlier flip27 has stored."""
    return tag.strip('"') in (version_tag_of(info).strip('"'), etag_of(info).strip('"'))


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


_TIME_KEYS_OF_GENERATIONS = ("ctime", "timeCreated", *_TIME_KEYS)
"""Of Google Cloud Storage, where the time of the last update is also that of the metadata."""


def modified_us(info: Mapping[str, Any]) -> int:
    """The modification time of the content in an fsspec listing entry, whatever key the file system uses."""
    return _time_us(info, _TIME_KEYS_OF_GENERATIONS if info.get("generation") else _TIME_KEYS)


def was_modified_at(info: Mapping[str, Any], time_us: int) -> bool:
    """Whether an entry has this time, which an earlier flip27 may have stored; seconds are compared.

    Some servers report fractions of a second in only some of their answers.
    """
    times = (modified_us(info), _time_us(info, _TIME_KEYS))
    return any(one // 1_000_000 == time_us // 1_000_000 for one in times)


def _time_us(info: Mapping[str, Any], keys: Sequence[str]) -> int:
    for key in keys:
        value = info.get(key)
        if isinstance(value, datetime):
            return microseconds_of(in_utc(value))
        if isinstance(value, int | float):
            return int(value * 1_000_000)
        if isinstance(value, str):
            if key == "Last-Modified":
                return _of_http(value)
            if key == "modify":
                return _of_ftp(value)
            return microseconds_of(in_utc(datetime.fromisoformat(value)))
    return 0


def _of_ftp(value: str) -> int:
    """The time of MLSD; servers without it give texts such as ``Nov 29 07:19``, in an unknown zone."""
    try:
        return microseconds_of(datetime.fromisoformat(f"{value[:8]}T{value[8:]}+00:00"))
    except ValueError:
        return 0


def _of_http(value: str) -> int:
    # Imported late, because the email modules take 5 ms of every start.
    from email.utils import parsedate_to_datetime

    try:
        return microseconds_of(in_utc(parsedate_to_datetime(value)))
    except (ValueError, OverflowError):
        return 0  # an invalid date counts as a missing date
