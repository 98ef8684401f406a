"""Credentials in URLs: recognising and removing them. Pure: no I/O.

A URL may contain a user and a password before its host, and tokens and signatures among the parameters
of its query. Every URL that is shown or stored passes through here, and so do texts with headers of HTTP.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from urllib.parse import unquote

_KINDS = {
    "key": "api access secret subscription private account app",
    "token": "api access auth refresh id bearer session security sas",
    "secret": "client app api",
}
_SECRET_NAMES = frozenset(
    ("key", "token", "secret", "password", "passwd", "pwd", "passphrase", "auth", "authorization",
     "proxyauthorization", "signature", "sig", "credential", "cookie", "jwt")
) | {kind + word for word, kinds in _KINDS.items() for kind in kinds.split()}  # fmt: skip
"""Not every name that ends in ``key`` or ``token``: a page token is not secret and helps to locate errors."""

_OF_CLOUDS = ("x_", "amz_", "goog_", "ms_")
_NAMES_OF_PAGES = frozenset(("key", "token"))

AZURE = frozenset({"abfs", "abfss", "az", "wasb", "wasbs"})
_WITH_CONTAINERS = AZURE | {"oci"}
"""Protocols whose URLs have a container or bucket before the @: ``abfs://container@account/path``."""

_PROTOCOL_CHARS = string.ascii_letters + string.digits + "+.-"
_AUTHORITY = re.compile(r"[^\s/?#'\"<>]*")
_WORD = re.compile(r"\S*")
_PARAMETERS = re.compile(r"[^\s'\"<>]*")
_PARAMETER = re.compile(r"([?&;#])([^=&;?#\s'\"<>]+)=([^&#\s'\"<>]*)")
_BASIC = re.compile(r"\b(basic\s+)([\w+/-]{4,}=*)", re.ASCII | re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether the name of a header or parameter suggests a credential."""
    plain = name.lower().replace("-", "_")
    for prefix in _OF_CLOUDS:
        plain = plain.removeprefix(prefix)
    plain = plain.replace("_", "")
    return plain in _SECRET_NAMES or plain.endswith("signature")


def signs(name: str) -> bool:
    """Whether the name of a parameter suggests the signature of a URL."""
    return name.lower() == "sig" or name.lower().endswith("signature")


def may_be_stored(name: str) -> bool:
    """Whether a parameter of this name, in a link that a server sent, may be part of a position.

    Many APIs use ``key`` and ``token`` for the token or last key of a page.
    """
    return not is_secret_name(name) or name.lower() in _NAMES_OF_PAGES


def without_users(text: str) -> str:
    """The text with user and password removed from its URLs; containers stay."""
    return "://".join([text.partition("://")[0], *(rest[len(user) :] for user, rest in _users(text))])


def without_basic(text: str) -> str:
    """The text with user and password of HTTP's basic authentication masked, which are base64 there."""
    return _BASIC.sub(lambda found: found[1] + "***" if _has_colon(found[2]) else found[0], text)


def _has_colon(encoded: str) -> bool:
    try:
        return b":" in base64.urlsafe_b64decode(encoded.replace("+", "-").replace("/", "_"))
    except ValueError:
        return False


def has_account(url: str) -> bool:
    """Whether an Azure URL names the account of its container: ``abfs://container@account/path``."""
    protocol, _, rest = without_users(url).partition("://")
    return protocol in AZURE and "@" in rest.partition("/")[0]


def masked(text: str, *, users_of: str = "") -> str:
    """The text with users, passwords and apparent credentials removed from its URLs.

    Args:
        users_of: a URL whose users and passwords are masked everywhere in the text.
    """
    first, *others = without_users(text).split("://")
    without_secrets = partial(_PARAMETERS.sub, lambda url: _PARAMETER.sub(_masked, url[0]), count=1)
    shown = without_basic("://".join([first, *map(without_secrets, others)]))
    for user, _ in _users(users_of):
        for secret in filter(None, (user[:-1], user[:-1].partition(":")[2])):
            shown = shown.replace(secret, "***")
    return shown


def secret_parameter(url: str) -> str | None:
    """The first parameter of the URL's query that looks like a credential."""
    names = (unquote(match[2]) for match in _PARAMETER.finditer(url))
    return next((name for name in names if is_secret_name(name)), None)


def passwords_in(text: str) -> Iterator[str]:
    """The passwords in the URLs of a text, as they are there and as they are sent."""
    for user, _ in _users(text):
        password = user[:-1].partition(":")[2]
        yield from filter(None, (password, unquote(password)))


def _users(text: str) -> Iterator[tuple[str, str]]:
    """For each URL, its user with the @, or an empty text, and the text after its ``://``."""
    for before, rest in pairwise(text.split("://")):
        protocol = before[len(before.rstrip(_PROTOCOL_CHARS)) :]
        yield _user(protocol.lower(), rest), rest


def _user(protocol: str, rest: str) -> str:
    authority = _matched(_AUTHORITY, rest)
    user, at, _ = authority.rpartition("@")
    port = authority.partition(":")[2]
    if not at and port and not port.isdigit() and not authority.startswith("["):
        # A password that contains a slash, which is not allowed there.
        user, at, _ = _matched(_WORD, rest).partition("::")[0].rpartition("@")
    is_container = protocol in _WITH_CONTAINERS and not set(":@") & set(user)
    return "" if is_container else user + at


def _matched(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.match(text)
    return match[0] if match else ""


def _masked(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}=***" if is_secret_name(unquote(match[2])) else match[0]
