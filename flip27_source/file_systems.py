"""File systems by URL: what is local, how others are opened through fsspec, what may be shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .errors import Flip27Error

_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci"})
_WEB = frozenset({"http", "https"})
_GONE = frozenset({404, 410})


def local_path(url: str) -> str | None:
    """The path on local disk, or None when the URL is of another file system."""
    if url.startswith("file:"):
        rest = url.removeprefix("file:")
        return "/" + rest.lstrip("/") if rest.startswith("//") else rest
    return url if "://" not in url and "::" not in url else None


def open_file_system(
    url: str, storage_options: Mapping[str, Any], *, what: str, error_type: type[Flip27Error]
) -> tuple[Any, str]:
    """The fsspec file system of a URL that is not local, and the path in it.

    Args:
        what: what the URL is, for the message: ``path`` or ``stateLocation``.

    Raises:
        Flip27Error: an ``error_type``; the protocol is unknown, its package is missing, or the
            server cannot be reached.
    """
    import fsspec

    try:
        file_system, root = fsspec.core.url_to_fs(url, **storage_options)
    except Exception as error:
        raise error_type(
            f"{what} {redacted(url)} cannot be opened: {error_text(error, url)}",
            remedy="check the URL's protocol, and install what it needs "
            "(for example pip install 'flip27-source[s3]')",
        ) from error
    return file_system, root


def canonical_path(url: str) -> str:
    """The form in which listings name a path: absolute, without credentials, no slash at its end."""
    local = local_path(url)
    if local is not None:
        return os.path.abspath(local)
    shown = redacted(url).rstrip("/")
    if "::" in shown or shown.startswith(("http://", "https://")):
        return shown
    import fsspec

    try:
        kind = fsspec.get_filesystem_class(shown.partition("://")[0])
    except (ImportError, ValueError):
        return shown  # what was moved away from need not be installed any more
    protocols = _protocols(kind)
    name = str(kind._strip_protocol(shown))
    if name.startswith(tuple(f"{p}://" for p in protocols)):
        return name
    return f"{host_before(shown, name) or f'{protocols[0]}://'}{name}"


def host_before(url: str, name: str) -> str:
    """``sftp://host:22`` where ``name``, what is left of ``url`` in its file system, lacks it; else empty."""
    shown = redacted(url).rstrip("/")
    protocol, _, rest = shown.partition("://")
    host, _, path = rest.partition("/")
    return f"{protocol}://{host}" if host and name.strip("/") == path.strip("/") else ""


def host_of(url: str) -> str:
    """``sftp://host:22`` where the file system is one of a host; empty for buckets and local paths."""
    import fsspec

    if local_path(url) is not None:
        return ""
    shown = redacted(url)
    try:
        kind = fsspec.get_filesystem_class(shown.partition("://")[0])
    except (ImportError, ValueError):
        return ""  # whoever opens it says what to install
    return host_before(shown, str(kind._strip_protocol(shown)))


def redacted(url: str) -> str:
    """The URL without user name and password."""
    protocol, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("/")
    return f"{protocol}://{host.rpartition('@')[2]}{slash}{path}"


def names_a_user(url: str) -> bool:
    """Whether a URL has a user name or password in it; before the @ of object stores stands a container."""
    return _kind(url) not in _OBJECT_STORES and redacted(url) != url


def is_web(url: str) -> bool:
    """Whether a URL is one of HTTP, perhaps through a cache of fsspec."""
    return _kind(url) in _WEB


def says_gone(error: Exception, url: str) -> bool:
    """Whether ``error``, raised when the file ``url`` was asked for, says that there is no such file.

    Over HTTP that are the statuses 404 and 410; fsspec raises FileNotFoundError for any request that fails.
    """
    if not is_web(url):
        return isinstance(error, FileNotFoundError)
    cause = _cause(error)
    return isinstance(cause, FileNotFoundError) or getattr(cause, "status", None) in _GONE


def answer_text(error: Exception) -> str:
    """The error in words; of a web server the status only: its errors hold URLs, which may hold tokens."""
    cause = _cause(error)
    status = getattr(cause, "status", None)
    return (
        f"{type(cause).__name__}: {cause}" if status is None else f"the server answered with status {status}"
    )


def _cause(error: Exception) -> BaseException:
    found = error.__cause__ if isinstance(error, FileNotFoundError) else None
    return found or error


def _kind(url: str) -> str:
    return url.partition("://")[0].rpartition("::")[2] if "://" in url else ""


def error_text(error: Exception, url: str) -> str:
    """The error in words; some libraries put the whole URL, password and all, into theirs."""
    credentials = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    told = f"{type(error).__name__}: {error}"
    for secret in (credentials, credentials.partition(":")[2]):
        told = told.replace(secret, "***") if secret else told
    return told


def is_object_store(file_system: Any) -> bool:
    """Whether an fsspec file system has objects only: a folder is there as long as a file in it is."""
    return not _OBJECT_STORES.isdisjoint(_protocols(file_system))


def is_web_server(file_system: Any) -> bool:
    """Whether an fsspec file system is that of HTTP itself, not a cache of it."""
    return not _WEB.isdisjoint(_protocols(file_system))


def _protocols(file_system: Any) -> tuple[str, ...]:
    """The names of a file system or of its class."""
    protocol = file_system.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)
