"""Parses an answer of a JSON API: its records, its next cursor or link, and the identity of a record.

Records stay the bytes that the server sent. ``reader`` converts them by the rules of Spark.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import urldefrag, urljoin

import msgspec

from flip27_source.errors import AccessError, SplitReadError, quotation
from flip27_source.readers.http_api.client import Doubtful, Response
from flip27_source.readers.http_api.options import (
    AT_END,
    CHECK_RECORDS,
    ID_FIELD,
    MISSING_LIST_IS_EMPTY,
    RECORDS_PATH,
    Path,
)

Position: TypeAlias = "str | int | float"
"""A cursor, a link, a page number, or a time in the server's format."""

Time: TypeAlias = "Decimal | datetime"

_DIGEST_BYTES = 8
_LONGEST_TIME = 100
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder()
_NOT_DECODED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*+"?|(?<![\w.+-])(NaN|[+-]?Infinity|[+-]INF)(?![\w.])', re.DOTALL)
_HAS_WORD = re.compile(rb"NaN|Infinity|INF")
_CANONICAL = msgspec.json.Encoder(order="deterministic")
# The Link header (RFC 8288). Possessive, so that the time is linear in the length of a hostile header.
_PARAM = r'[ \t]*+;[ \t]*+([^\s=;,]*+)[ \t]*+(?:=[ \t]*+(?:"((?:[^"\\]|\\.)*+)(?:"|$)[^;,]*+|([^;,]*+)))?+'
_PARAMS = re.compile(_PARAM)
_LINK = re.compile(rf"<([^>]*+)>((?:{_PARAM})*+)\s*+(?:,|$)")
_BETWEEN = re.compile(r"[\s,]*+")


def _decimal(text: str) -> Decimal | str:
    """The number, or its text if its exponent is greater than any of a decimal."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return text


def _exact(text: str) -> float | str:
    """The number, or its text if a float does not have all of its digits."""
    number = float(text)
    return number if Decimal(repr(number)) == _decimal(text) else text


_TIME = msgspec.json.Decoder(float_hook=_decimal)
"""A float has 16 digits, too few for numbers of nanoseconds."""
_EXACT = msgspec.json.Decoder(float_hook=_exact)
"""The digests of numbers that a float holds are those that states of older releases have."""


@dataclass(frozen=True, slots=True)
class Page:
    """The records of one answer.

    Attributes:
        following: the position of the next page, if the answer has one.
        place: the request's URL without secrets.
    """

    records: Sequence[bytes]
    following: Position | None
    place: str


def records_of(response: Response, path: Path, *, may_be_missing: bool) -> list[bytes]:
    """The records of an answer, each one a JSON object.

    Args:
        may_be_missing: a missing list is an empty one.

    Raises:
        Doubtful: the body is no page; it may be truncated, or not from the API (a proxy, maintenance).
        SplitReadError: a record is not an object.
    """
    if response.status == HTTPStatus.NO_CONTENT:
        return []
    try:
        raw_list = _at(response.body, path)
        if raw_list is None and not may_be_missing:
            raise _no_records(response, path, "the member is missing")
        if raw_list is None or raw_list.strip() == b"null":
            return []  # how some servers write an empty list
        records = _items(raw_list)
    except msgspec.ValidationError as error:
        raise _no_records(response, path, str(error)) from None
    except _NOT_DECODED as error:
        raise _no_json(response, error) from None
    for number, record in enumerate(records):
        if record[:1] != b"{":
            raise SplitReadError(
                f"{response.place}: record {number} of the page is not a JSON object: {quotation(record)}",
                remedy=f"check {RECORDS_PATH.name}: it has to point to a list of objects",
            )
    return records


def cursor_of(response: Response, path: Path) -> str | int | None:
    """The string or integer at ``path``; None if it is missing, null, false or empty."""
    if response.status == HTTPStatus.NO_CONTENT:
        return None
    try:
        raw = _at(response.body, path)
    except msgspec.ValidationError:
        return None
    except _NOT_DECODED as error:
        raise _no_json(response, error) from None
    try:
        value = None if raw is None else _ANY.decode(raw)
    except _NOT_DECODED:  # such as a number of 5,000 digits
        value = raw
    if value is None or value is False or value == "":
        return None
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise AccessError(
        f"{response.place}: the value at {'.'.join(path)} is not a cursor: {quotation(raw or b'')}",
        remedy="name the member with the next cursor or link, which must be a string or an integer",
    )


def next_link(response: Response) -> str | None:
    """The target of the first link to the next page in the Link header (RFC 8288); None if there is none.

    The parser of the package requests knows one spelling of ``rel``, and is misled by ``;`` and ``,`` in
    titles.
    """
    header, url, at = response.links, urldefrag(response.url).url, 0
    while (at := _BETWEEN.match(header, at).end()) < len(header):  # type: ignore[union-attr]
        link = _LINK.match(header, at)
        if link is None:
            raise AccessError(
                f"{response.place}: the Link header cannot be read: {header[at : at + 200]!r}",
                remedy="the header must be as in RFC 8288; set linkPath if the answer has the link too",
            )
        params: dict[str, str] = {}
        for name, quoted, token in _PARAMS.findall(link[2]):
            params.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or token)
        # With another anchor it is the next page of another resource.
        context = urldefrag(urljoin(url, params.get("anchor", ""))).url
        if "next" in params.get("rel", "").lower().split() and context == url:
            return link[1]
        at = link.end()
    return None


class Identity:
    """The identity of records: the value at ``id_path``, or the whole content if that is None."""

    def __init__(self, id_path: Path | None) -> None:
        self._path = id_path

    def digest(self, record: bytes, place: str) -> str:
        """A short text that is equal for equal records."""
        known_by: Any = record if self._path is None else value_of(record, self._path, "idField", place)
        try:
            known_by = _CANONICAL.encode(_EXACT.decode(known_by))
        except _NOT_DECODED:  # such as invalid UTF-8
            known_by = bytes(known_by)
        return blake2b(known_by, digest_size=_DIGEST_BYTES).hexdigest()

    def page_digest(self, page: Page) -> str:
        """A digest of a whole page: of its ids if all records have one, otherwise byte by byte."""
        parts = page.records
        if self._path is not None:
            with contextlib.suppress(SplitReadError):
                parts = [self.digest(record, page.place).encode() for record in parts]
        return blake2b(b"\n".join(parts), digest_size=_DIGEST_BYTES).hexdigest()

    def place_after(self, records: Sequence[bytes], taken: int, last: str, place: str) -> int | None:
        """The index at which to continue: after the record ``last``, which was at ``taken - 1``.

        None if the record is not on this page, if it has moved and has no id to search for, or if others
        have come before it (the newest come first), which were not read.
        """
        if taken <= len(records) and self.digest(records[taken - 1], place) == last:
            return taken
        if self._path is None:
            return None
        numbers = [number for number, record in enumerate(records) if self.digest(record, place) == last]
        return numbers[0] + 1 if len(numbers) == 1 and numbers[0] < taken else None


def value_of(record: bytes, path: Path, option: str, place: str) -> bytes:
    """The JSON text at ``path`` in a record; ``option`` requires that it exists."""
    try:
        raw = _at(record, path)
    except _NOT_DECODED:
        raw = None
    if raw is None or raw == b"null":
        raise SplitReadError(
            f"{place}: a record has no {'.'.join(path)}: {quotation(record)}",
            remedy=f"check option {option}: every record needs a value in this field",
        )
    return raw


def time_of(record: bytes, path: Path, place: str) -> tuple[Time, str]:
    """The time at ``path`` in a record: a comparable value, and the text for a request."""
    raw = value_of(record, path, "sinceField", place)
    try:
        value: Any = _TIME.decode(raw)
    except _NOT_DECODED:
        value = None
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool) and len(raw) <= _LONGEST_TIME:
        number = Decimal(value)
        if abs(number.adjusted()) <= _LONGEST_TIME:
            return number, f"{number:f}"  # an API may not know exponents
    if isinstance(value, str) and len(value) <= _LONGEST_TIME:
        text = value.strip()
        try:
            if text.removeprefix("-").replace(".", "", 1).isdecimal():
                return Decimal(text), value
            moment = datetime.fromisoformat(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC), value
        except ValueError:
            pass
    raise SplitReadError(
        f"{place}: the value {quotation(raw)} at {'.'.join(path)} is not a time",
        remedy="set option sinceField to a field with numbers, or with times such as 2026-01-31T12:00Z",
    )


def as_time(value: Position) -> tuple[Time, str]:
    """The comparable time of a position, and its text."""
    return time_of(_CANONICAL.encode({"at": value}), ("at",), "the position")


def changed_records(place: str, what: str) -> AccessError:
    """The error for records that differ from those read before."""
    return AccessError(
        f"{place}: {what}",
        remedy="records that were read must keep their positions, in one order (oldest first, by a sort "
        "parameter in the path), and stay as they were, unless the query was started with "
        f"{ID_FIELD.name}. To continue anyway, set {CHECK_RECORDS.name} to false: rows may then be missing "
        "or arrive twice",
    )


def repeated(place: str, what: str) -> Doubtful:
    """The ``Doubtful`` for a page that was already read."""
    return Doubtful(
        f"{place}: {what}",
        remedy="the server repeats a page; no record was lost or read twice. If the API marks its end like "
        f"this, detect the end in another way (see {AT_END.name}, cursorPath, emptyPageEnds); if pages "
        f"may be equal, set {CHECK_RECORDS.name} to false",
    )


def _at(document: bytes, path: Path) -> bytes | None:
    """The JSON text at ``path``; None if a member is missing."""
    for name in path:
        member = _members(document).get(name)
        if member is None:
            return None
        document = member
    return document


def _members(document: bytes) -> dict[str, bytes]:
    text, numbers = _without_words(document)
    return {name: _with_words(bytes(raw), numbers) for name, raw in _MEMBERS.decode(text).items()}


def _items(document: bytes) -> list[bytes]:
    text, numbers = _without_words(document)
    return [_with_words(bytes(raw), numbers) for raw in _LIST.decode(text)]


def _without_words(document: bytes) -> tuple[bytes, Mapping[bytes, bytes]]:
    """The text with numbers in place of NaN and infinities, and the number of each of these words.

    Spark's JSON parser accepts the words, msgspec does not. The numbers are nowhere else in the text.
    """
    numbers: dict[bytes, bytes] = {}
    if _HAS_WORD.search(document) is None:
        return document, numbers
    # The digest keeps a server from sending many of the numbers.
    first = int.from_bytes(blake2b(document, digest_size=_DIGEST_BYTES).digest()) + 1
    unused = (text for number in itertools.count(first) if (text := b"%d" % number) not in document)
    for word in filter(None, _WORD.findall(document)):
        if word not in numbers:
            numbers[word] = next(unused)
    return _WORD.sub(lambda found: numbers.get(found[1], found[0]), document), numbers


def _with_words(text: bytes, numbers: Mapping[bytes, bytes]) -> bytes:
    for word, number in numbers.items():
        text = text.replace(number, word)
    return text


def _no_records(response: Response, path: Path, why: str) -> Doubtful:
    where = f"at {RECORDS_PATH.name} {'.'.join(path)}" if path else "in the answer"
    try:
        names = ", ".join(list(_members(response.body))[:20])
    except _NOT_DECODED:
        names = ""
    has = f"; the answer has {names}" if names else ""
    return Doubtful(
        f"{response.place}: no list of records {where}: {why}{has}",
        remedy=f"set {RECORDS_PATH.name} to the position of the list, such as data.items; without this "
        "option the whole answer has to be a list. If the API leaves out an empty list, set "
        f"{MISSING_LIST_IS_EMPTY.name}",
    )


def _no_json(response: Response, error: Exception) -> Doubtful:
    why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return Doubtful(
        f"{response.place}: the answer is not JSON: {why}: {quotation(response.body)}",
        remedy="check the path: the server has to return JSON",
    )
