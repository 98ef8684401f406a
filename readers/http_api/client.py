"""One GET request of the http reader: credentials, retries, and errors without secrets.

The caller's ``accept`` checks each answer and may request a retry, so this module does not know pages.
:mod:`flip27_source.readers.http_api.connections` sends the request. The credential is read where the
request is made, and goes only into the request.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeVar

from flip27_source.access_errors import BUSY, status_cause
from flip27_source.enumerator_context import RetryPolicy
from flip27_source.enumerators.http_api.urls import joined_link, shortened, shown_url, with_params
from flip27_source.errors import AccessError, SplitReadError
from flip27_source.file_systems.encoded_secrets import EncodedSecrets
from flip27_source.file_systems.url_credentials import may_be_stored, secret_parameter
from flip27_source.optional_packages import needed
from flip27_source.options import Options
from flip27_source.readers.http_api import options as opts
from flip27_source.readers.http_api.credentials import Credential, checked_headers, credentials_in

T = TypeVar("T")

_SHOWN_CHARS = 200
_LONGEST_POSITION = 8192
_ACCEPTED = (HTTPStatus.OK, HTTPStatus.NO_CONTENT)
_HALF_PAIR = re.compile(rb"(\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""Group 1 is what only looks like half a pair: a backslash itself, or a whole pair."""
_CHARSET = re.compile(r""";\s*charset\s*=\s*["']?([^\s;"']+)""", re.IGNORECASE)
_NOT_UTF8 = re.compile(rb"[\0\x1b]")
"""Bytes that no JSON in UTF-8 has, but UTF-16, UTF-32 and ISO 2022 have."""
_QUOTATION_ENDS = ("'...", '"...')
_REMEDIES: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "check the credential (authEnv or authToken) and how it is sent (authHeader, "
    "authScheme, authParam)",
    HTTPStatus.FORBIDDEN: "check the permissions of the credential (authEnv, authToken)",
    HTTPStatus.NOT_FOUND: "check the path and endpoints",
    HTTPStatus.NOT_MODIFIED: "remove If-None-Match or If-Modified-Since from option headers: the source "
    "keeps no page that the server could refer to",
    HTTPStatus.GONE: "the server no longer has this position: start a query with a new checkpoint",
}


class Doubtful(Exception):  # noqa: N818 - a request to retry, which becomes an error in the end
    """A complete answer that cannot be right; the message says why."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of the server, with its whole body.

    Attributes:
        place: the request's URL without secrets.
        body: with a question mark for each half of a surrogate pair, as Spark reads it; the parser of whole
            pages refuses such halves.
        links: the Link header.
    """

    url: str
    place: str
    status: int
    body: bytes
    links: str


@dataclass(frozen=True, slots=True)
class _Failure:
    """The reason why an attempt failed, the remedy, and the wait that the server requests."""

    why: str
    remedy: str = (
        "check that the server is up; for more or longer attempts raise httpRetries, maxBackoff or "
        "requestTimeout. A restarted query continues where it stopped"
    )
    retry_after_s: float | None = None


def imported_connections() -> Any:
    """The module that uses the package requests."""
    with needed("requests", by="the http reader", extra="http"):
        from flip27_source.readers.http_api import connections
    return connections


class HttpClient:
    """Makes requests until they succeed or have failed too often."""

    def __init__(
        self,
        options: Options,
        *,
        pause: Callable[[float], None],
        now_s: Callable[[], float],
        most_requests: int,
    ) -> None:
        self._http: Any = imported_connections()
        self._connections = self._http.Connections(
            timeout_s=options[opts.REQUEST_TIMEOUT], max_body_bytes=options[opts.MAX_RESPONSE_BYTES]
        )
        self._credential = Credential.of(options)
        headers = options[opts.HEADERS]
        # A cache that has an older page than the server would hide records.
        asked = {"Accept": "application/json", "Cache-Control": "no-cache"}
        self._headers = {**asked, **checked_headers(headers)}
        credentials = [self._credential.token, *credentials_in(headers)]
        self._credentials = EncodedSecrets(credentials, shortest=4)
        self._hidden = EncodedSecrets([*credentials, *headers.values()], shortest=4)
        self._policy = RetryPolicy(
            retries=options[opts.HTTP_RETRIES], longest_pause_s=options[opts.MAX_BACKOFF]
        )
        self._pause = pause
        self._now_s = now_s
        self._most_requests = most_requests
        self.requests_in_a_row = 0

    def get(
        self,
        url: str,
        accept: Callable[[Response], T],
        *,
        home: str,
        also: Callable[[int], bool] = lambda _: False,
    ) -> T:
        """The result of ``accept`` for the answer.

        Args:
            home: the endpoint; requests go only to its server.
            accept: may raise Doubtful to retry the request.
            also: further statuses that ``accept`` handles, in addition to 200 and 204.

        Raises:
            AccessError: no answer was accepted: the following records cannot be reached.
            SplitReadError: a record of the answer is bad.
        """
        self.requests_in_a_row += 1
        if self.requests_in_a_row > self._most_requests:
            raise AccessError(
                f"GET {self.shown(url)} is not sent: {self._most_requests} requests in a row returned no "
                "rows, and the API links to another page",
                remedy="check why the API links from one empty page to the next; no record was lost or read "
                "twice",
            )
        failures = 0
        while True:
            outcome = self._tried(url, accept, home, also)
            if not isinstance(outcome, _Failure):
                return outcome
            failures += 1
            if failures > self._policy.retries:
                raise AccessError(
                    f"GET {self.shown(url)} failed {failures} times: {outcome.why}", remedy=outcome.remedy
                )
            asked_s = outcome.retry_after_s
            longest_s = self._policy.longest_pause_s
            self._pause(self._policy.pause_s(failures) if asked_s is None else min(asked_s, longest_s))

    def shown(self, url: str) -> str:
        return shortened(self.masked(shown_url(url, filter(None, [self._credential.param]))))

    def masked(self, text: str) -> str:
        """The text without secrets, also without the start of a secret at the end of a quotation."""
        text = self._hidden.masked(text)
        for secret in self._hidden.forms:
            for end in _QUOTATION_ENDS:
                for length in range(len(secret) - 1, 3, -1):
                    text = text.replace(secret[:length] + end, "***" + end)
        return text

    def same_server(self, url: str, home: str) -> bool:
        """True if a request for ``url`` goes to the server of ``home``."""
        try:
            return bool(self._http.origin_of(url) == self._http.origin_of(home))
        except ValueError:
            return False

    def followed(self, link: str, response: Response, home: str) -> str:
        """The URL of a link in an answer, in a form that may be stored.

        Raises:
            AccessError: the link leads to another server than ``home`` or is ambiguous, or it has a
                secret outside the parameter that this client adds.
        """
        self._refuse_long(link, response.place)
        try:
            url = joined_link(response.url, link)
        except ValueError as error:
            raise AccessError(
                f"{response.place}: the link to the next page is not followed, {error}: {self.shown(link)}",
                remedy="the API has to return http or https URLs, absolute or relative, with all other "
                "characters escaped",
            ) from None
        if not self.same_server(url, home):
            raise AccessError(
                f"{response.place}: the link to the next page leads to another server, {self.shown(url)}",
                remedy="set the path with the scheme, host and port of the API's links: the credential is "
                "only sent to that server",
            )
        if self._credential.param is not None:
            url = with_params(url, {self._credential.param: None})
        self.refuse_secret(url, response.place)
        named = secret_parameter(url)
        if named is not None and not may_be_stored(named):
            raise AccessError(
                f"{response.place}: the link to the next page has the parameter {named}, which looks like a "
                "credential and would be stored",
                remedy="use pagination cursor, page or since, if the API supports it; or, if the parameter "
                "is your own credential, set authParam to its name",
            )
        return url

    def refuse_secret(self, position: str, place: str) -> None:
        """Refuse a position that contains a secret or is too long, because it would be stored."""
        self._refuse_long(position, place)
        if self._credentials.are_in(position):
            raise AccessError(
                f"{place}: the link or cursor to the next page contains the credential, which is never "
                "stored",
                remedy="send the credential in a header (authHeader), or set authParam to the name that the "
                "server uses in its links",
            )

    @staticmethod
    def _refuse_long(position: str, place: str) -> None:
        if len(position) > _LONGEST_POSITION:
            raise AccessError(
                f"{place}: the link or cursor to the next page has {len(position)} characters, but at most "
                f"{_LONGEST_POSITION} can be stored",
                remedy="check cursorPath or linkPath: it has to point to the cursor or link alone",
            )

    def close(self) -> None:
        self._connections.close()

    def _tried(
        self, url: str, accept: Callable[[Response], T], home: str, also: Callable[[int], bool]
    ) -> T | _Failure:
        try:
            answer = self._connections.get(
                self._credential.in_url(url),
                home=home,
                headers=self._headers,
                auth=self._credential.in_headers,
            )
        except self._http.Unanswered as error:
            return _Failure(self.masked(str(error)))
        except self._http.Refused as error:
            # Drop the cause, because its text may contain the credential.
            raise AccessError(
                f"GET {self.shown(url)} failed: {self.masked(str(error))}", remedy=error.remedy
            ) from None
        try:
            response = self._response(url, answer)
            if response.status not in _ACCEPTED and not also(response.status):
                return self._failure_of_status(response, answer)
            return accept(response)
        except Doubtful as doubt:
            return _Failure(self.masked(str(doubt)), doubt.remedy)
        except SplitReadError as error:
            # The error quotes the answer, and some servers quote the request in the answer.
            raise type(error)(self.masked(error.what), remedy=error.remedy) from None

    def _response(self, url: str, answer: Any) -> Response:
        body = answer.body
        charset = _CHARSET.search(answer.headers.get("Content-Type", ""))
        if charset is not None and answer.status == HTTPStatus.OK:
            body = _as_utf8(body, charset[1])
        body = body.removeprefix(codecs.BOM_UTF8)
        is_escaped = rb"\ud" in body or rb"\uD" in body
        return Response(
            url=url,
            place=self.shown(url),
            status=answer.status,
            body=_HALF_PAIR.sub(lambda found: found[1] or rb"\u003f", body) if is_escaped else body,
            links=_as_sent(answer.headers.get("Link", "")),
        )

    def _failure_of_status(self, response: Response, answer: Any) -> _Failure:
        status = response.status
        phrase = next((known.phrase for known in HTTPStatus if known == status), "")
        body = self.masked(response.body.decode("utf-8", "replace"))[:_SHOWN_CHARS]
        said = f"status {status} {phrase}".rstrip() + (f", {body!r}" if body else "")
        if status_cause(status) is BUSY or status == HTTPStatus.ACCEPTED:
            return _Failure(said, retry_after_s=self._retry_after_s(answer.headers.get("Retry-After")))
        remedy = _REMEDIES.get(status)
        if 300 <= status < 400 and remedy is None:
            target = self.shown(answer.headers.get("Location", "nowhere"))
            remedy = f"redirects are not followed with credentials: set the target as the URL, {target}"
        # No record was read, so the server's answer says nothing about the records that follow.
        raise AccessError(
            f"GET {response.place} failed: {said}",
            remedy=remedy
            or "check the path, endpoints and parameters; if the server no longer has the position, start a "
            "query with a new checkpoint",
        )

    def _retry_after_s(self, value: str | None) -> float | None:
        """The seconds that a Retry-After header requests, as a number or a date."""
        if value is None:
            return None
        if value.strip().isdecimal():
            return float(value)
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - self._now_s())
        except (ValueError, OverflowError):
            return None


def _as_sent(header: str) -> str:
    """The text of a header, which http.client takes for ISO 8859-1 although many servers write UTF-8."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


def _as_utf8(body: bytes, charset: str) -> bytes:
    """The body in UTF-8. All JSON should be, so many servers declare another charset out of habit.

    Raises:
        Doubtful: the body is neither in UTF-8 nor in ``charset``.
    """
    with contextlib.suppress(UnicodeDecodeError):
        if not _NOT_UTF8.search(body):
            body.decode()
            return body
    try:
        return body.decode(charset).encode()
    except (LookupError, ValueError):
        raise Doubtful(
            f"the answer is not in UTF-8, and not in the charset {charset!r} either, which its header "
            "Content-Type declares",
            remedy="let the server answer in UTF-8",
        ) from None
