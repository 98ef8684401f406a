"""One GET request of the http reader: credentials, retries, and errors that tell no secret.

What a page is, is not known here: the caller's ``accept`` looks at each answer, and may have the
request made again. The credential is read where the request is made, goes into the request and
nowhere else.
"""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from flip27_source.enumerator import RetryPolicy
from flip27_source.enumerators.http_urls import is_secret_name, shown_url, with_params
from flip27_source.errors import OptionError, RegistryError, SplitReadError
from flip27_source.options import Options
from flip27_source.readers.http_options import (
    AUTH_ENV,
    AUTH_HEADER,
    AUTH_PARAM,
    AUTH_SCHEME,
    AUTH_TOKEN,
    HEADERS,
    HTTP_RETRIES,
    MAX_BACKOFF,
    REQUEST_TIMEOUT,
)

T = TypeVar("T")

_SHOWN_CHARS = 200
_LOOKED_AT_BYTES = 100_000
_QUOTATION_ENDS = ("'...", '"...')
_REMEDIES: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "check the credential: authEnv or authToken, and how it is sent: authHeader, "
    "authScheme, authParam",
    HTTPStatus.FORBIDDEN: "check what the credential (authEnv, authToken) may read",
    HTTPStatus.NOT_FOUND: "check the path and endpoints",
    HTTPStatus.GONE: "the server no longer knows this position: start a query with a new checkpoint",
}


class Doubtful(Exception):  # noqa: N818 - a request to ask again, which becomes an error at last
    """An answer that is whole, but cannot be right; its text says why."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of the server, with its whole body.

    Attributes:
        place: the request's URL, as it may be shown.
        next_link: target of ``rel="next"`` in the Link header.
        framed: the headers told how long the body is: it is known to be whole.
    """

    url: str
    place: str
    status: int
    body: bytes
    next_link: str | None
    framed: bool


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a try failed, and how long the server asks to wait, if it does."""

    why: str
    remedy: str = (
        "see whether the server is up; more and longer tries: httpRetries, maxBackoff, requestTimeout. A "
        "restarted query goes on where it stopped"
    )
    retry_after_s: float | None = None


class HttpClient:
    """Makes requests until they succeed or have failed too often.

    Args:
        pause: waits so many seconds.
        now_s: the time, in seconds since the epoch.
    """

    def __init__(
        self,
        options: Options,
        *,
        pause: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._requests = _imported_requests()
        self._session = self._requests.Session()
        self._credential = _Credential.of(options)
        headers = options[HEADERS]
        self._headers = {"Accept": "application/json", **_checked_headers(headers)}
        credentials = [self._credential.token, *_credentials_in(headers)]
        self._credentials = _spellings(credentials)
        self._hidden = _spellings([*credentials, *headers.values()])
        self._policy = RetryPolicy(retries=options[HTTP_RETRIES], longest_pause_s=options[MAX_BACKOFF])
        self._timeout_s = options[REQUEST_TIMEOUT]
        self._pause = pause
        self._now_s = now_s

    def get(
        self, url: str, accept: Callable[[Response], T], *, also: Callable[[int], bool] = lambda _: False
    ) -> T:
        """What ``accept`` makes of the answer.

        Args:
            accept: may raise Doubtful to have the request made again.
            also: further statuses that ``accept`` takes, besides 200.

        Raises:
            SplitReadError: there is no such answer; retries are used up where they could help.
        """
        failures = 0
        while True:
            outcome = self._tried(url, accept, also)
            if not isinstance(outcome, _Failure):
                return outcome
            failures += 1
            if failures > self._policy.retries:
                raise SplitReadError(
                    f"GET {self.shown(url)} failed {failures} times: {outcome.why}", remedy=outcome.remedy
                )
            asked_s = outcome.retry_after_s
            longest_s = self._policy.longest_pause_s
            self._pause(self._policy.pause_s(failures) if asked_s is None else min(asked_s, longest_s))

    def shown(self, url: str) -> str:
        """The URL as it may be shown."""
        return self.masked(shown_url(url, filter(None, [self._credential.param])))

    def masked(self, text: str) -> str:
        """The text without any secret that it may hold, whole or as the end of a quotation."""
        for secret in self._hidden:
            text = text.replace(secret, "***")
            for end in _QUOTATION_ENDS:
                for length in range(len(secret) - 1, 3, -1):
                    text = text.replace(secret[:length] + end, "***" + end)
        return text

    def without_credential(self, url: str, place: str) -> str:
        """A URL that the server sent, as it may be stored.

        Raises:
            SplitReadError: a secret is in it, somewhere else than where we put it.
        """
        if self._credential.param is not None:
            url = with_params(url, {self._credential.param: None})
        self.refuse_secret(url, place)
        return url

    def refuse_secret(self, position: str, place: str) -> None:
        """Nothing that holds a secret may be stored."""
        if any(secret in position for secret in self._credentials):
            raise SplitReadError(
                f"{place}: the link or cursor to the next page holds the credential, which is never stored",
                remedy="give the credential in a header (authHeader), or by authParam under the name that "
                "the server uses in its links",
            )

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _tried(self, url: str, accept: Callable[[Response], T], also: Callable[[int], bool]) -> T | _Failure:
        errors = self._requests.exceptions
        try:
            answer = self._session.get(
                self._credential.in_url(url),
                headers=self._headers,
                auth=self._credential.in_headers,
                timeout=self._timeout_s,
                allow_redirects=False,
            )
        except errors.Timeout:
            return _Failure(f"no answer within {self._timeout_s:g} seconds (requestTimeout)")
        except (errors.ConnectionError, errors.ChunkedEncodingError, errors.ContentDecodingError) as error:
            return _Failure(f"the connection broke or the body was cut off: {self._told(error)}")
        except (errors.RequestException, ValueError) as error:
            # Without the cause: its text may hold the credential.
            raise SplitReadError(
                f"GET {self.shown(url)} cannot be made: {self._told(error)}",
                remedy="check the path, endpoints and headers",
            ) from None
        response = self._response(url, answer)
        if response.status != HTTPStatus.OK and not also(response.status):
            return self._failure_of_status(response, answer)
        try:
            return accept(response)
        except Doubtful as doubt:
            return _Failure(self.masked(str(doubt)), doubt.remedy)
        except SplitReadError as error:
            # It quotes the answer, and some servers quote the request there.
            raise SplitReadError(self.masked(error.what), remedy=error.remedy) from None

    def _response(self, url: str, answer: Any) -> Response:
        headers = answer.headers
        return Response(
            url=url,
            place=self.shown(url),
            status=answer.status_code,
            body=answer.content.removeprefix(codecs.BOM_UTF8),
            next_link=answer.links.get("next", {}).get("url"),
            framed="Content-Length" in headers or "chunked" in headers.get("Transfer-Encoding", ""),
        )

    def _failure_of_status(self, response: Response, answer: Any) -> _Failure:
        status = response.status
        phrase = next((known.phrase for known in HTTPStatus if known == status), "")
        body = self.masked(response.body[:_LOOKED_AT_BYTES].decode("utf-8", "replace"))[:_SHOWN_CHARS]
        said = f"status {status} {phrase}".rstrip() + (f", {body!r}" if body else "")
        if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or status >= 500:
            return _Failure(said, retry_after_s=self._retry_after_s(answer.headers.get("Retry-After")))
        remedy = _REMEDIES.get(status)
        if 300 <= status < 400:
            target = self.shown(answer.headers.get("Location", "nowhere"))
            remedy = f"redirects are not followed with credentials: give the URL that it leads to, {target}"
        raise SplitReadError(
            f"GET {response.place} failed: {said}",
            remedy=remedy
            or "check the path, endpoints and parameters; a position that the server has "
            "forgotten needs a query with a new checkpoint",
        )

    def _retry_after_s(self, value: str | None) -> float | None:
        """Seconds that a Retry-After header asks for: a number, or a date."""
        if value is None:
            return None
        if value.strip().isdecimal():
            return float(value)
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - self._now_s())
        except ValueError:
            return None

    def _told(self, error: Exception) -> str:
        return f"{type(error).__name__}: {self.masked(str(error))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Credential:
    """The token, and where it goes; empty when there is none."""

    token: str
    header: str
    prefix: str
    param: str | None

    @classmethod
    def of(cls, options: Options) -> _Credential:
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
        # Given as ``auth`` of the request even when there is none: else requests takes one from .netrc.
        if self.token and not self.param:
            request.headers[self.header] = self.prefix + self.token
        return request


def _token(options: Options) -> str:
    name = options[AUTH_ENV]
    token = options[AUTH_TOKEN] if name is None else os.environ.get(name)
    if token is None and name is not None:
        raise OptionError(
            f"the environment variable {name} of option authEnv is not set on this executor",
            remedy="set it for the Python workers of all executors (spark.executorEnv.* in the "
            "configuration of Spark, or the environment that Spark is started in)",
        )
    token = (token or "").strip()
    if not _fits_header(token):
        raise OptionError(
            f"the token of option {'authToken' if name is None else 'authEnv'} (not shown) has characters "
            "that cannot be sent",
            remedy="check for line breaks and characters beyond Latin-1 in it",
        )
    return token


def _checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not _fits_header(value) or value != value.strip() or not name.strip():
            raise OptionError(
                f"the header {name!r} of option headers has a value (not shown) that cannot be sent",
                remedy="check for line breaks, blanks at its ends, and characters beyond Latin-1 in it",
            )
    return headers


def _credentials_in(headers: Mapping[str, str]) -> list[str]:
    """Values of headers that look like credentials, with and without a word such as Basic before them."""
    found = [value for name, value in headers.items() if is_secret_name(name)]
    return [*found, *(value.rpartition(" ")[2] for value in found)]


def _fits_header(value: str) -> bool:
    return all(" " <= char <= "\xff" and char != "\x7f" for char in value)


def _spellings(secrets: list[str]) -> list[str]:
    """The secrets as they may occur in URLs, JSON and quotations, longest first; very short ones are none."""
    found: set[str] = set()
    for text in secrets:
        if len(text) > 3:
            found |= {text, quote(text), quote(text, safe=""), quote_plus(text), text.replace("/", r"\/")}
    found |= {repr(text)[1:-1] for text in found}
    return sorted(found, key=len, reverse=True)


def _imported_requests() -> Any:
    try:
        import requests
    except ImportError as error:
        raise RegistryError(
            f"the http reader needs the package requests: {error}",
            remedy="pip install 'flip27-source[http]' on the driver and on every executor node",
        ) from error
    return requests
