"""The credential of the http reader: its source and its place in a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.http_api.urls import with_params
from flip27_source.environment_variables import variable_of
from flip27_source.errors import OptionError
from flip27_source.file_systems.url_credentials import is_secret_name
from flip27_source.options import Options
from flip27_source.readers.http_api.options import AUTH_ENV, AUTH_HEADER, AUTH_PARAM, AUTH_SCHEME, AUTH_TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The token and its place in a request; the token is empty if none is set."""

    token: str
    header: str
    prefix: str
    param: str | None

    @classmethod
    def of(cls, options: Options) -> Credential:
        token = _token(options)
        header, scheme = options[AUTH_HEADER], options[AUTH_SCHEME]
        if scheme is None:
            scheme = "Bearer" if header.lower() == "authorization" else ""
        return cls(
            token=token,
            header=header,
            prefix=scheme.strip() + " " if scheme.strip() else "",
            param=options[AUTH_PARAM],
        )

    def in_url(self, url: str) -> str:
        return with_params(url, {self.param: self.token}) if self.param and self.token else url

    def in_headers(self, request: Any) -> Any:
        # Passed as ``auth`` of the request even without a token: otherwise requests uses .netrc.
        if self.token and not self.param:
            request.headers[self.header] = self.prefix + self.token
        return request


def _token(options: Options) -> str:
    name = options[AUTH_ENV]
    token = options[AUTH_TOKEN] if name is None else variable_of(AUTH_ENV.name, name)
    token = (token or "").strip()
    if not _fits_header(token):
        raise OptionError(
            f"the token of option {'authToken' if name is None else 'authEnv'} (not shown) contains "
            "characters that cannot be sent",
            remedy="check the token for line breaks and characters outside Latin-1",
        )
    return token


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not _fits_header(value) or value != value.strip() or not name.strip():
            raise OptionError(
                f"the header {name!r} of option headers has a value (not shown) that cannot be sent",
                remedy="check the value for line breaks, blanks at its ends, and characters outside Latin-1",
            )
    return headers


def credentials_in(headers: Mapping[str, str]) -> list[str]:
    """Values of headers that look like credentials, with and without a scheme such as Basic."""
    secrets = [value for name, value in headers.items() if is_secret_name(name)]
    return [*secrets, *(value.rpartition(" ")[2] for value in secrets)]


def _fits_header(value: str) -> bool:
    return all(" " <= char <= "\xff" and char != "\x7f" for char in value)
