"""Removes secrets from texts that are printed or stored, such as the errors of libraries. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ..errors import Flip27Error, text_of
from ..options import Options, maybe_json
from .encoded_secrets import EncodedSecrets
from .url_credentials import is_secret_name, may_be_stored, passwords_in, without_basic, without_users

T = TypeVar("T")

_PARTS_OF_CONNECTION_STRING = re.compile(r"(?:^|;)\s*([A-Za-z]+)=([^;]*)")
_NAMED = re.compile(r"""([\w.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'&;,]+))""")
"""Parts of a value that has a password among others, such as a DSN, or the configuration of JAAS."""
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
        self._secrets = EncodedSecrets(_secrets_in(values), shortest=3)

    def in_text(self, text: str) -> str:
        """The text with ``***`` in place of each secret, and without users and passwords."""
        return without_basic(without_users(self._secrets.masked(text)))

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


def in_bytes(data: bytes, hide: Callable[[str], str]) -> bytes:
    """The data with ``***`` in place of what ``hide`` masks in its text."""
    return hide(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def hidden_of_store(options: Options) -> Hidden:
    """Masks the secrets of a source's store, which are never stored or shown."""
    return Hidden(options.with_prefix("storage."))


def _secrets_in(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if name.lower().endswith(_CREDENTIAL_ENDINGS):
            yield from _texts(value)
        elif isinstance(decoded := _decoded(value), Mapping):
            yield from _secrets_in(decoded)
        elif isinstance(value, str):
            yield from passwords_in(value)
            for part, *texts in _NAMED.findall(value):
                if not may_be_stored(part):
                    yield from filter(None, texts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(decoded := _decoded(value), Mapping | list | tuple):
        for item in decoded.values() if isinstance(decoded, Mapping) else decoded:
            yield from _texts(item)
    if not (decoded is None or isinstance(decoded, bool)):
        yield str(value)
        # The account of Azure Storage is not a secret; its key and signature are.
        for name, part in _PARTS_OF_CONNECTION_STRING.findall(str(value)):
            if is_secret_name(name) or name == "SharedAccessSignature":
                yield part


def _decoded(value: Any) -> Any:
    """A value given as JSON text, decoded; any other value unchanged."""
    return maybe_json(value) if isinstance(value, str) else value
