"""URLs of file systems: what is local, what may be shown. Pure: no I/O."""

from __future__ import annotations

import os
from typing import Any

_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci"})


def local_path(url: str) -> str | None:
    """The absolute path on local disk, or None when the URL is of another file system."""
    if url.startswith("file:"):
        return os.path.abspath("/" + url.removeprefix("file:").lstrip("/"))
    return os.path.abspath(url) if "://" not in url and "::" not in url else None


def redacted(url: str) -> str:
    """The URL without user name and password."""
    protocol, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("/")
    return f"{protocol}://{host.rpartition('@')[2]}{slash}{path}"


def error_text(error: Exception, url: str) -> str:
    """The error in words; some libraries put the whole URL, password and all, into theirs."""
    credentials = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    told = f"{type(error).__name__}: {error}"
    for secret in (credentials, credentials.partition(":")[2]):
        told = told.replace(secret, "***") if secret else told
    return told


def is_object_store(file_system: Any) -> bool:
    """Whether an fsspec file system has objects only: a folder is there as long as a file in it is."""
    protocol = file_system.protocol
    return not _OBJECT_STORES.isdisjoint((protocol,) if isinstance(protocol, str) else protocol)
