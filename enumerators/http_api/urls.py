"""URLs of an HTTP API: its endpoints, their parameters, and their form without secrets. No requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, parse_qsl, quote, unquote_plus, urlencode, urljoin, urlsplit, urlunsplit

from flip27_source.errors import OptionError
from flip27_source.file_systems.paths import redacted
from flip27_source.file_systems.url_credentials import is_secret_name

_SCHEMES = frozenset({"http", "https"})
_HOST = re.compile(r"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_SHOWN_CHARS = 500


def endpoint_urls(base: str, endpoints: Iterable[str]) -> tuple[str, ...]:
    """The endpoints below ``base``, each once; ``base`` itself if there are no endpoints.

    An endpoint is appended to the path of ``base``, with or without a leading slash, and gets the
    parameters of ``base`` too. A complete URL is used unchanged.
    """
    root = _checked(base, "path")
    urls = [_below(root, endpoint) for endpoint in endpoints]
    return tuple(dict.fromkeys(urls or [urlunsplit(root)]))


def with_params(url: str, params: Mapping[str, str | int | float | None]) -> str:
    """``url`` with these parameters, which replace those of the same names; None removes a parameter."""
    parts = urlsplit(url)
    written = parts.query.split("&") if parts.query else []
    # The others stay byte for byte: some servers sign their links, and not all escapes are UTF-8.
    kept = [text for text in written if unquote_plus(text.partition("=")[0]) not in params]
    added = [(name, str(value)) for name, value in params.items() if value is not None]
    if not added and len(kept) == len(written):
        return url
    query = "&".join([*kept, *([urlencode(added, quote_via=quote)] if added else [])])
    return urlunsplit(parts._replace(query=query))


def joined_link(url: str, link: str) -> str:
    """The URL that ``link`` leads to, in an answer from ``url``.

    Raises:
        ValueError: URL parsers disagree about the target; the text says why.
    """
    _check_characters(link)
    try:
        parts = urlsplit(urljoin(url, link))
        own = urlsplit(link)
    except ValueError:
        raise ValueError("its host or port cannot be read") from None
    if parts.scheme not in _SCHEMES:
        raise ValueError("it is not an HTTP URL")
    if "@" in own.netloc:
        raise ValueError("it contains a user name")
    # If the host is missing, some parsers use the next word as the host.
    if (own.netloc or own.scheme) and _HOST.fullmatch(own.netloc) is None:
        raise ValueError("its host or port cannot be read")
    return urlunsplit(parts._replace(fragment=""))


def shown_url(url: str, secret_names: Iterable[str] = ()) -> str:
    """The URL without user, password, and parameters that look like credentials."""
    hidden = {_plain(name) for name in secret_names}

    def shown(name: str, value: str) -> str:
        secret = is_secret_name(name) or _plain(name) in hidden
        return f"{quote(name)}=" + ("***" if secret else quote(value, safe=":/,"))

    try:
        parts = urlsplit(redacted(url))
        query = "&".join(shown(name, value) for name, value in _query(parts.query))
        text = urlunsplit(parts._replace(query=query))
    except ValueError:
        text = redacted(url).partition("?")[0]
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def shortened(text: str) -> str:
    """The text, truncated if it is very long."""
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."


def _checked(url: str, option: str) -> SplitResult:
    parts = _parts(url)
    if parts is None:
        raise OptionError(
            f"option {option} has the value {shown_url(url)!r}, which is not a URL of an HTTP API",
            remedy="write it as https://api.example.com/v1/orders",
        )
    credentials = [name for name, _ in _query(parts.query) if is_secret_name(name)]
    if credentials or "@" in parts.netloc:
        what = f"the parameter {credentials[0]}" if credentials else "a user name or password"
        raise OptionError(
            f"option {option} contains {shown_url(url)!r} with {what}, which would be stored with the query",
            remedy="set the credential with authEnv or authToken, with authParam if the API expects it as a "
            "URL parameter, or with headers",
        )
    return parts._replace(fragment="")


def _parts(url: str) -> SplitResult | None:
    """The parts of a complete URL; None if it is not complete."""
    try:
        _check_characters(url.strip())
        parts = urlsplit(url.strip())
        is_complete = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_complete else None


def _check_characters(url: str) -> None:
    """Raise ValueError for characters that URL parsers treat differently."""
    if "\\" in url or any(char < " " or char == "\x7f" for char in url):
        raise ValueError("it contains a backslash or control characters")


def _below(root: SplitResult, endpoint: str) -> str:
    if "://" in endpoint:
        return urlunsplit(_checked(endpoint, "endpoints"))
    path, _, query = endpoint.partition("?")
    queries = "&".join(filter(None, [root.query, query.partition("#")[0]]))
    path = root.path.rstrip("/") + "/" + path.partition("#")[0].lstrip("/")
    return urlunsplit(_checked(urlunsplit(root._replace(path=path, query=queries)), "endpoints"))


def _query(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
