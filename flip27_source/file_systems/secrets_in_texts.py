"""Removes secrets from texts that are printed or stored, such as the errors of libraries. Pure."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

from ..errors import Flip27Error, text_of
from ..options import Options, maybe_json
from .url_credentials import is_secret_name, without_basic, without_users

T = TypeVar("T")

_ESCAPED = re.compile("%[0-9A-F]{2}")
_PARTS_OF_CONNECTION_STRING = re.compile(r"(?:^|;)\s*([A-Za-z]+)=([^;]*)")
_CREDENTIAL_ENDINGS = (
    "key", "secret", "token", "password", "passphrase", "passwd", "pwd", "credential", "credentials", "auth",
    "authorization", "cookie", "cookies", "signature", "connection_string", "connectionstring", "headers",
    "jwt", "pem", "_pass", "pass_phrase", "key_content",
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
        """The text with ``***`` in place of each secret, and without users and passwords."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return without_basic(without_users(text))

    def in_errors(self, call: Callable[..., T]) -> Callable[..., T]:
        """The call; an error of it whose text has a secret is replaced by one that does not."""

        def guarded(*given: Any) -> T:
            try:
                return call(*given)
            except Exception as error:
                text = text_of(error)
                if self.in_text(text) == without_users(text):
                    raise
                # Spark shows the causes of an error, too; ``may_pass`` finds this one all the same.
                raise self._without_secrets(error, text) from None

        return guarded

    def _without_secrets(self, error: Exception, text: str) -> Flip27Error:
        if isinstance(error, Flip27Error):
            reduced: Any = error.__reduce__()
            make, (_, *rest) = reduced[:2]
            remedy = error.remedy and self.in_text(error.remedy)
            made: Flip27Error = make(self.in_text(error.what), *rest, remedy=remedy)
            return made
        return Flip27Error(
            self.in_text(f"{type(error).__name__}: {text}"), remedy="fix the cause that this text names"
        )

    def in_data(self, value: Any) -> Any:
        """A JSON value with :meth:`in_text` applied to every text in it; surrogates are escaped."""
        if isinstance(value, str):
            return self.in_text(value).encode(errors="backslashreplace").decode()
        if isinstance(value, Mapping):
            return {self.in_text(str(name)): self.in_data(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.in_data(item) for item in value]
        return value


def hidden_of_store(options: Options) -> Hidden:
    """Masks the secrets of a source's store, which are never stored or shown."""
    return Hidden(options.with_prefix("storage."))


def spellings(secrets: Iterable[str], *, shortest: int) -> list[str]:
    """The spellings of secrets in URLs, markup, JSON and quotations, longest first, without short ones."""
    spelled = {text for secret in secrets for text in (secret, secret.strip()) if len(text) >= shortest}
    for _ in range(2):  # one in another, such as JSON in a URL
        spelled |= {spelling for text in spelled for spelling in _spellings(text)}
    return sorted(spelled, key=len, reverse=True)


def _spellings(text: str) -> set[str]:
    in_urls = {quote(text, safe=safe, errors="replace") for safe in ("", "/", "!*'()")}
    in_urls.add(quote_plus(text, errors="replace"))
    in_urls |= {_ESCAPED.sub(lambda found: found[0].lower(), one) for one in in_urls}
    in_markup = {html.escape(text), escape(text), escape(text, {"'": "&apos;", '"': "&quot;"})}
    in_json = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    in_json |= {one.replace("/", r"\/") for one in in_json}
    # With both kinds of quotes in it, the single ones are escaped, and without a single one none is.
    in_python = {repr(text)[1:-1], repr(f"{text}'\"")[1:-4], repr(text.encode(errors="replace"))[2:-1]}
    return in_urls | in_markup | in_json | in_python | {ascii(text)[1:-1]}


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
    if not (value is None or isinstance(value, bool)):
        yield str(value)
        # The account of Azure Storage is not a secret; its key and signature are.
        for name, part in _PARTS_OF_CONNECTION_STRING.findall(str(value)):
            if is_secret_name(name) or name == "SharedAccessSignature":
                yield part


def _decoded(value: Any) -> Any:
    """A value given as JSON text, decoded; any other value unchanged."""
    return maybe_json(value) if isinstance(value, str) else value
