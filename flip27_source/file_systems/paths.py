"""What a path or URL means: local or not, which fsspec file system, which name in it, what may be shown.

Only this module decides that (R14). An absolute path is never a URL, and no character in a path is special:
``/landing/a::b``, ``/landing/http://x`` and ``/landing/#?*~$`` are ordinary file names.

Paths as text: the state is JSON, so each byte of a name that is not UTF-8 is written as NUL and two hex
digits. No file system allows NUL in a name, so the text is unambiguous.
"""

from __future__ import annotations

import ftplib
import functools
import os
import re
import time
from collections.abc import Mapping
from enum import Enum
from typing import Any

from ..errors import Flip27Error
from .secrets_in_texts import Hidden
from .url_credentials import AZURE, has_account, masked, secret_parameter, signs, without_users

_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", *AZURE, "oss", "oci"})
_VERSION_ID = {"s3": "?versionId=", "s3a": "?versionId=", **dict.fromkeys(AZURE, "?versionid=")}
_WASB = frozenset({"wasb", "wasbs"})
_DATABRICKS_VOLUMES = "dbfs:/Volumes/"
_DATABRICKS_FILES = re.compile(r"dbfs:/(?!/)(.*)", re.DOTALL)
_NEXT_CHECK_S = "_flip27_next_check_s"
_FTP_CHECK_S = 10.0
"""An FTP connection is asked at most this often whether it still exists: each time takes a round trip."""
_SSH = frozenset({"sftp", "ssh"})
_WEB = frozenset({"http", "https"})
_GONE = frozenset({404, 410})

_LOCAL = re.compile("(?:file|local):", re.IGNORECASE)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_CHAIN = re.compile(r"::[A-Za-z][A-Za-z0-9+.-]*://")
_NOT_UTF8 = re.compile(r"[\udc80-\udcff]")
_ESCAPED = re.compile(r"\0([0-9a-f]{2})")


def local_path(url: str) -> str | None:
    """The path on local disk, as text; None if the URL belongs to another file system."""
    if url.startswith(_DATABRICKS_VOLUMES):
        return url.removeprefix("dbfs:")
    named = _LOCAL.match(url)
    path = url if named is None else url[named.end() :]
    if path.startswith("/"):
        return "/" + path.lstrip("/")  # POSIX and abspath keep a second slash
    return path if named is not None or _URL.match(url) is None else None


def disk_path(path: str) -> str | None:
    """The operating system's name for a local path given as text; None as for :func:`local_path`."""
    local = local_path(path)
    if local is None or "\0" not in local:
        return local
    return _ESCAPED.sub(lambda byte: chr(0xDC00 + int(byte[1], 16)), local)


def path_text(path: str) -> str:
    """A path of the operating system as text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return _NOT_UTF8.sub(lambda byte: f"\0{ord(byte[0]) - 0xDC00:02x}", path)
    return path


def with_percents(path: str) -> str:
    """A path given as text, with the bytes that are not UTF-8 percent-encoded as in URIs."""
    return _ESCAPED.sub(lambda byte: f"%{byte[1].upper()}", path)


def shown_path(path: str) -> str:
    """A path for display: unprintable characters are escaped."""
    if path.isprintable():
        return path
    text = _ESCAPED.sub(lambda byte: f"\\x{byte[1]}", path)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class _Names(Enum):
    """How the names in a file system are derived from the URLs of its files."""

    AFTER_PROTOCOL = "s3://bucket/a is bucket/a"
    AFTER_HOST = "sftp://host/a is /a"
    URLS = "https://host/a is https://host/a"


def open_file_system(
    url: str,
    storage_options: Mapping[str, Any],
    *,
    what: str,
    error_type: type[Flip27Error],
    caches_listings: bool = True,
) -> tuple[Any, str]:
    """The fsspec file system of a path or URL given by a user, and the name in it.

    Args:
        what: what the URL is, for error messages: ``path`` or ``stateLocation``.
        caches_listings: False for an instance of its own that keeps no listings, whatever the options and
            the release of the file system say (R19).

    Raises:
        Flip27Error: an ``error_type``: the protocol is unknown, its package is missing, or the
            server cannot be reached.
    """
    url = checked_location(url, what=what, error_type=error_type)
    refuse_credentials(url, what, error_type)
    try:
        file_system = _file_system(url, storage_options, caches_listings=caches_listings)
        name = given_name(url)
    except Exception as error:  # noqa: BLE001 - each file system raises its own errors
        raise error_type(
            f"{what} {redacted(url)} cannot be opened: "
            f"{Hidden(storage_options).in_text(error_text(error, url))}",
            remedy="check the URL's protocol, and install its package (for example "
            "pip install 'flip27-source[s3]')",
        ) from None  # the original text may contain the password
    return file_system, name


def open_listed(path: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    """The fsspec file system of a file from a listing, and the file's name in it.

    Raises:
        Exception: any error of fsspec or the file system.
    """
    return _file_system(path, storage_options), listed_name(path)


def listed_name(path: str) -> str:
    """The name of a remote file in its file system, from its URL in a listing.

    Raises:
        OSError: the file system would read the name as that of another object.
    """
    protocol, _, rest = path.partition("://")
    if has_account(path):
        server, slash, name = rest.partition("/")
        rest = server.partition("@")[0] + slash + name
    check_name(protocol, rest)
    if protocol in AZURE:
        return rest
    names = _names_of(protocol)
    if names is _Names.URLS:
        return path
    return rest if names is _Names.AFTER_PROTOCOL else "/" + rest.partition("/")[2]


def check_name(protocol: str, name: str) -> None:
    """Refuse a name that the library of a file system would read as that of another file.

    Raises:
        OSError: s3fs reads the end of the name as a version; adlfs does too, parses names as URLs, and so
            loses a ``#`` or ``?`` at the end, and tabs and line feeds.
    """
    mark = _VERSION_ID.get(protocol)
    if mark is not None and mark in name:
        raise OSError(
            f"{shown_path(name)}: the text after {mark} in a name is read as the version of another object"
        )
    if protocol in AZURE and _class_of("abfs")._strip_protocol(f"abfs://{name}") != name:
        raise OSError(f"{shown_path(name)}: adlfs reads this name as that of another blob; rename the blob")


def given_name(url: str) -> str:
    """The name, in its file system, of a location given by a user; an absolute path on local disk.

    Raises:
        OSError: as for :func:`listed_name`.
    """
    local = local_path(url)
    if local is not None:
        return os.path.abspath(local)
    url = with_lower_scheme(url)
    protocol = url.partition("://")[0]
    if protocol in AZURE:
        return listed_name(url.rstrip("/"))
    if _names_of(protocol) is _Names.AFTER_HOST:
        return _plain(listed_name(url))
    return str(_class_of(protocol)._strip_protocol(url))


def _plain(name: str) -> str:
    """A name on a server, as an absolute path without empty parts and ``.``; ``..`` may leave a link."""
    return "/" + "/".join(part for part in name.split("/") if part not in ("", "."))


def location(value: str) -> str:
    """An option or argument that must be a path or URL, as :func:`with_lower_scheme` spells it.

    Raises:
        ValueError: the value is empty, contains NUL, is a chained URL of fsspec such as
            ``simplecache::s3://...``, begins with ``dbfs:/`` and names no volume, or names one version of an
            object.
    """
    value = with_lower_scheme(value)
    if not value.strip():
        raise ValueError("the value is empty; a path or URL is expected")
    if "\0" in value:
        raise ValueError("a path or URL must not contain a NUL character")
    named = _DATABRICKS_FILES.fullmatch(value)
    if named is not None and local_path(value) == value:
        raise ValueError(
            "dbfs:/ is Spark's name on Databricks for files that other programs find below /dbfs/: give "
            f"/dbfs/{named[1]} where it is mounted, or a path below /Volumes/, or the URL of cloud storage"
        )
    if not value.startswith("/") and _CHAIN.search(value) is not None:
        raise ValueError(
            "a chained URL, which names several file systems, is not supported: give the URL of the file "
            "system itself (write a local path that looks like this as an absolute path)"
        )
    mark = _VERSION_ID.get(value.partition("://")[0])
    if mark is not None and mark in value:
        raise ValueError(f"the text after {mark} names one version of one object, not a location")
    return value


def with_lower_scheme(url: str) -> str:
    """A path or URL with its scheme in lower case, by which file systems are known (RFC 3986, 3.1)."""
    scheme = _URL.match(url)
    return url if scheme is None else scheme[0].lower() + url[scheme.end() :]


def checked_location(value: str, *, what: str, error_type: type[Flip27Error]) -> str:
    """As :func:`location`, for locations that are not given by an option.

    Raises:
        Flip27Error: an ``error_type``.
    """
    try:
        return location(value)
    except ValueError as error:
        raise error_type(
            f"{what} {shown_path(redacted(value))!r} cannot be used: {error}",
            remedy="give another path or URL",
        ) from None


def canonical_path(url: str) -> str:
    """The form of a path in listings: absolute, without credentials, without a trailing slash."""
    local = local_path(url)
    if local is not None:
        return os.path.abspath(local)
    shown = without_users(with_lower_scheme(url)).rstrip("/")
    protocol, _, rest = shown.partition("://")
    if has_account(shown):
        return f"abfs://{_account_of_dfs(protocol, rest)}"
    if protocol in _WEB:
        return redacted(shown)
    try:
        kind, names = _class_of(protocol), _names_of(protocol)
    except (ImportError, ValueError):
        return shown  # the file system of a former location may no longer be installed
    if names is _Names.AFTER_PROTOCOL:
        return f"{_protocols(kind)[0]}://{kind._strip_protocol(shown)}"
    host, _, name = rest.partition("/")
    return shown if names is _Names.URLS else f"{protocol}://{host}{_plain(name)}".rstrip("/")


def host_of(url: str) -> str:
    """``sftp://host:22`` if the file system belongs to a host; empty for buckets and local paths.

    In Azure, the account if the URL has one: ``abfs://account`` of ``abfs://container@account/a``.
    """
    if local_path(url) is not None:
        return ""
    protocol, _, rest = without_users(url).partition("://")
    if has_account(url):
        return "abfs://" + _account_of_dfs(protocol, rest).partition("@")[2].partition("/")[0]
    try:
        names = _names_of(protocol)
    except (ImportError, ValueError):
        return ""  # opening the URL reports what to install
    host = rest.partition("/")[0]
    return f"{protocol}://{host}" if host and names is _Names.AFTER_HOST else ""


def _account_of_dfs(protocol: str, rest: str) -> str:
    """``rest``, with the blob endpoint of a ``wasb`` URL replaced by the endpoint that ``abfs`` URLs name."""
    server, slash, name = rest.partition("/")
    if protocol in _WASB:
        server = server.replace(".blob.", ".dfs.", 1)
    return server + slash + name


def listed_path(file_system: Any, host: str, name: str) -> str:
    """The URL of a file in a listing, from its name and the :func:`host_of` of the listing's root."""
    if host.startswith("abfs://"):
        container, slash, rest = name.partition("/")
        return f"abfs://{container}@{host.removeprefix('abfs://')}{slash}{rest}"
    match _names_of(_protocols(file_system)[0]):
        case _Names.URLS:
            return name
        case _Names.AFTER_HOST:
            return host + name
        case _Names.AFTER_PROTOCOL:
            return f"{_protocols(file_system)[0]}://{name}"


def _file_system(url: str, storage_options: Mapping[str, Any], *, caches_listings: bool = True) -> Any:
    import fsspec

    match = _URL.match(url)
    protocol = "file" if match is None or local_path(url) is not None else match[1]
    kind = _class_of(protocol)
    # Only the server part is parsed: a path may contain characters that are special in URLs.
    server = "" if match is None else f"{protocol}://{url[match.end() :].partition('/')[0]}/"
    of_url = kind._get_kwargs_from_urls(server) if server else {}
    given = {name: value for name, value in storage_options.items() if name not in _NOT_OF_FILE_SYSTEMS}
    if protocol in _WEB:
        from ..web.sessions import session_for

        given["get_client"] = session_for(server)
    if caches_listings:
        return connected(fsspec.filesystem(_registered(protocol), **of_url, **given))
    return _without_listings(_registered(protocol), {**of_url, **given})


_WITHOUT_LISTINGS: dict[str, Any] = {}
"""The instances of this process that keep no listings, by their arguments. fsspec would give the data the
same instances, because not every file system takes an argument that tells the two apart."""


def _without_listings(protocol: str, arguments: dict[str, Any]) -> Any:
    import fsspec
    from fsspec.dircache import DirCache
    from fsspec.utils import tokenize

    # An instance does not survive a fork.
    key = tokenize(protocol, arguments, os.getpid())
    file_system = _WITHOUT_LISTINGS.get(key)
    if file_system is None or _is_closed(file_system):
        file_system = fsspec.filesystem(protocol, **(arguments | {"skip_instance_cache": True}))
        file_system.dircache = DirCache(use_listings_cache=False)
        if not arguments.get("skip_instance_cache"):
            _WITHOUT_LISTINGS[key] = file_system
    return file_system


def connected(file_system: Any) -> Any:
    """The same file system, opened again if its server has closed the connection.

    File systems are kept until the process ends, and those of SFTP and FTP use one connection for all that
    time, but servers close connections that are idle.
    """
    if not _is_closed(file_system):
        return file_system
    kind = type(file_system)
    kind.clear_instance_cache()
    return kind(*file_system.storage_args, **file_system.storage_options)


def _is_closed(file_system: Any) -> bool:
    if is_ssh(file_system):
        return bool(file_system.client.is_closed())
    now_s = time.monotonic()
    if "ftp" not in _protocols(file_system) or now_s < getattr(file_system, _NEXT_CHECK_S, 0.0):
        return False
    setattr(file_system, _NEXT_CHECK_S, now_s + _FTP_CHECK_S)
    try:
        file_system.ftp.voidcmd("NOOP")
    except ftplib.all_errors:
        return True
    return False


def is_ssh(file_system: Any) -> bool:
    return not _SSH.isdisjoint(_protocols(file_system))


_NOT_OF_FILE_SYSTEMS = frozenset(
    {"compression", "encoding", "errors", "expand", "mode", "name_function", "newline", "num"}
)
"""Arguments of fsspec.open that users copy together with those of the file system."""


def _class_of(protocol: str) -> Any:
    import fsspec

    return fsspec.get_filesystem_class(_registered(protocol))


def _registered(protocol: str) -> str:
    """The protocol under which fsspec knows the file system."""
    return "abfs" if protocol in _WASB else protocol


@functools.cache
def _names_of(protocol: str) -> _Names:
    """How names are derived, found by converting a made-up URL: fsspec has no attribute for it."""
    kind = _class_of(protocol)
    name = str(kind._strip_protocol(f"{protocol}://flip27-host/file"))
    if name.startswith(tuple(f"{one}://" for one in _protocols(kind))):
        return _Names.URLS
    return _Names.AFTER_PROTOCOL if "flip27-host" in name else _Names.AFTER_HOST


def redacted(url: str) -> str:
    """The URL for display: without user name, password and credentials in its query."""
    return url if _is_path(url) else masked(url)


def names_a_user(url: str) -> bool:
    """Whether a URL contains a user name or password."""
    return not _is_path(url) and without_users(url) != url


def refuse_credentials(url: str, what: str, error_type: type[Flip27Error]) -> None:
    """Refuse a URL with credentials, which would be stored and shown with the URL.

    Credentials are refused in the query of any URL, and before an @ in the URL of an object store.

    Raises:
        Flip27Error: an ``error_type``, without the credentials.
    """
    named = None if _is_path(url) else secret_parameter(url)
    # The name of an object may contain any character.
    if named is not None and (is_web(url) or signs(named)):
        has = f"the parameter {named}, which looks like a credential"
    elif _kind(url) in _OBJECT_STORES and names_a_user(url):
        has = "a user name or password"
    else:
        return
    raise error_type(
        f"{what} {redacted(url)} has {has}; it would be stored and shown",
        remedy="write the URL without it, and give credentials as options of the file system: storage.key "
        "and storage.secret for s3://, storage.sas_token or storage.account_key for abfs://, headers in "
        "storage.client_kwargs for https://",
    )


def _is_path(url: str) -> bool:
    return url.startswith(("/", _DATABRICKS_VOLUMES)) or _LOCAL.match(url) is not None


def is_web(url: str) -> bool:
    return _kind(url) in _WEB


def says_gone(error: Exception, url: str) -> bool:
    """Whether ``error``, raised by a request for the file ``url``, says that the file does not exist.

    Over HTTP these are the statuses 404 and 410; fsspec raises FileNotFoundError for any failed request.
    """
    if not is_web(url):
        return isinstance(error, FileNotFoundError)
    cause = _cause(error)
    return isinstance(cause, FileNotFoundError) or getattr(cause, "status", None) in _GONE


def answer_text(error: Exception) -> str:
    """The error as text. A web server's error is reduced to its status: it may contain URLs with tokens."""
    cause = _cause(error)
    status = getattr(cause, "status", None)
    return f"the server answered with status {status}" if status else f"{type(cause).__name__}: {cause}"


def _cause(error: Exception) -> BaseException:
    cause = error.__cause__ if isinstance(error, FileNotFoundError) else None
    return cause or error


def _kind(url: str) -> str:
    match = _URL.match(url)
    return "" if match is None else match[1]


def error_text(error: Exception, url: str) -> str:
    """The error as text, masked: some libraries include the whole URL with its password."""
    return masked(f"{type(error).__name__}: {error}", users_of=url)


def is_object_store(file_system: Any) -> bool:
    """Whether an fsspec file system is an object store: a folder exists while a file in it exists."""
    return not _OBJECT_STORES.isdisjoint(_protocols(file_system))


def is_azure(file_system: Any) -> bool:
    return not AZURE.isdisjoint(_protocols(file_system))


def is_web_server(file_system: Any) -> bool:
    return not _WEB.isdisjoint(_protocols(file_system))


def _protocols(file_system: Any) -> tuple[str, ...]:
    """The names of a file system or of its class."""
    protocol = file_system.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)
