"""Removes secrets from texts that are printed or stored, such as the errors of libraries. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from ..options import maybe_json
from .url_credentials import is_secret_name, without_users

_PARTS_OF_CONNECTION_STRING = re.compile(r"(?:^|;)\s*([A-Za-z]+)=([^;]*)")
_CREDENTIAL_ENDINGS = (
    "key", "secret", "token", "password", "passphrase", "passwd", "pwd", "credential", "credentials", "auth",
    "authorization", "cookie", "signature", "connection_string", "connectionstring", "headers",
)  # fmt: skip


class Hidden:
    """Masks secrets in texts.

    Args:
        values: the given options by name. The value of a credential, at any depth, is masked as a whole,
            and so are the secrets in it.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._secrets = spellings(_secrets_in(values), shortest=3)

    def in_text(self, text: str) -> str:
        """The text with ``***`` in place of each secret, and its URLs without user and password."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return without_users(text)

    def in_data(self, value: Any) -> Any:
        """A JSON value with :meth:`in_text` applied to every text in it; surrogates are escaped."""
        if isinstance(value, str):
            return self.in_text(value).encode(errors="backslashreplace").decode()
        if isinstance(value, Mapping):
            return {self.in_text(str(name)): self.in_data(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.in_data(item) for item in value]
        return value


def spellings(secrets: Iterable[str], *, shortest: int) -> list[str]:
    """The spellings of secrets in URLs, JSON and quotations, longest first; shorter texts are skipped."""
    spelled: set[str] = set()
    for text in secrets:
        if len(text) >= shortest:
            quoted = {quote(text, safe=safe, errors="replace") for safe in ("", "/", "!*'()")}
            spelled |= {text, *quoted, quote_plus(text, errors="replace"), text.replace("/", r"\/")}
    spelled |= {repr(text)[1:-1] for text in spelled}
    return sorted(spelled, key=len, reverse=True)


def _secrets_in(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if name.lower().endswith(_CREDENTIAL_ENDINGS):
            yield from _texts(value)
        elif isinstance(decoded := _decoded(value), Mapping):
            yield from _secrets_in(decoded)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(decoded := _decoded(value), Mapping | list | tuple):
        for item in decoded.values() if isinstance(decoded, Mapping) else decoded:
            yield from _texts(item)
    if value is not None:
        yield str(value)
        # The account of Azure Storage is not a secret; its key and signature are.
        for name, part in _PARTS_OF_CONNECTION_STRING.findall(str(value)):
            if is_secret_name(name) or name == "SharedAccessSignature":
                yield part


def _decoded(value: Any) -> Any:
    """A value given as JSON text, decoded; any other value unchanged."""
    return maybe_json(value) if isinstance(value, str) else value
