"""Errors of drivers: their texts without secrets, and what the user can do. No I/O."""

from __future__ import annotations

import contextlib
import re
from functools import partial
from urllib.parse import quote, unquote, urlsplit

from flip27_source.errors import OptionError
from flip27_source.optional_packages import needed

_NAMED_SECRET = re.compile(
    # In quotation marks; or words up to the next "=", because the quotation marks may be missing.
    r"(?:password|passwd|pwd|token|secret|key)\s*=\s*"
    r"(?:'((?:[^'\\]|\\.)*)'|([^\s'&;]+(?:\s+[^\s=]+(?=\s|$))*))",
    re.IGNORECASE,
)
_DELIMITERS = re.compile(r"[\s/@?#:%\[\]]+")
_REMEDIES = (
    (r"password|authentication|access denied", "check the user in uri, and the password in passwordEnv"),
    (r"no such table|does not exist|unknown table|catalog error|undefinedtable|no such column|binder error",
     "check options table, query and cursorColumns, and the rights of the user"),
    (r"permission denied|not authorized", "give the user of uri the right to SELECT"),
    (r"\block(ed)?\b", "wait until the process that writes has closed the file; the read is retried"),
    (r"connect|unable to open|failed to open|could not open|cannot open",
     "check uri, and whether this machine can reach the database"),
)  # fmt: skip

driver_needed = partial(needed, by="the sql source", extra="sql", error_type=OptionError)


class DatabaseFailure(Exception):  # noqa: N818 - the callers' errors say what failed
    """A driver raised an error.

    Attributes:
        what: its text without secrets.
        remedy: what the user can do.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy


class Secrets:
    """The secrets of a connection, which no text may contain."""

    def __init__(self, uri: str, password: str | None) -> None:
        secrets = {password or ""}
        with contextlib.suppress(ValueError):
            secrets.add(urlsplit(uri).password or "")
        # Drivers may split a URI elsewhere if its password contains an unescaped / or @.
        user, is_given, _ = uri.partition("://")[2].rpartition("@")
        name, has_password, rest = user.partition(":")
        if is_given and has_password and "@" not in name:
            secrets.add(rest)
        secrets.update(text for groups in _NAMED_SECRET.findall(uri) for text in groups)
        # A driver may name a part of a password in which characters are not escaped.
        secrets.update(part for text in tuple(secrets) for part in (*_DELIMITERS.split(text), unquote(text)))
        spellings = {quote(text, safe=safe) for text in secrets for safe in ("", "/", "!*'()")} | secrets
        self._hidden = sorted((text for text in spellings if len(text) > 1), key=len, reverse=True)
        self._uri = uri

    def failure(self, error: BaseException) -> DatabaseFailure:
        """The failure for an error of a driver."""
        said = " ".join(str(error).split()) or type(error).__name__
        lowered = said.lower()
        known = (remedy for pattern, remedy in _REMEDIES if re.search(pattern, lowered))
        remedy = next(known, "fix the cause, which the database names")
        return DatabaseFailure(self.masked(said)[:1000], remedy)

    def masked(self, text: str) -> str:
        if "://" in self._uri:
            text = text.replace(self._uri, "***")
        for secret in self._hidden:
            text = text.replace(secret, "***")
        return text
