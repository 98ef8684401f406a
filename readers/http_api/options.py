"""The options of the http reader, and the checks of their combinations."""

from __future__ import annotations

from typing import Any

import msgspec

from flip27_source.errors import OptionError
from flip27_source.options import (
    FirstStartOption,
    Option,
    Options,
    ReadingOption,
    boolean,
    duration_s,
    integer,
    one_of,
    optional,
    size_bytes,
)

Path = tuple[str, ...]


def _path(value: str) -> Path:
    parts = tuple(value.strip().split("."))
    if not all(parts):
        raise ValueError("names joined by dots are expected, such as data.items")
    return parts


def _header_map(value: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(value, type=dict[str, str])
    except msgspec.MsgspecError:
        raise ValueError('a JSON object of strings is expected, such as {"Accept-Language": "en"}') from None


RECORDS_PATH: Option[Path] = ReadingOption(
    name="recordsPath",
    parse=_path,
    default=(),
    default_text="not set: the whole answer is the list",
    doc="Position of the list of records in an answer: names joined by dots, such as data.items.",
)
MISSING_LIST_IS_EMPTY: Option[bool] = ReadingOption(
    name="missingListIsEmpty",
    parse=boolean,
    default=False,
    doc="An answer without recordsPath has no records; for APIs that leave out empty lists.",
)
PAGINATION: Option[str] = FirstStartOption(
    name="pagination",
    parse=one_of("none", "cursor", "link", "page", "since"),
    doc="How the API is paged: cursor (in the answer, at cursorPath), link (the Link header, or a URL at "
    "linkPath), page (numbers), since (records not older than a time), none (one answer).",
)
AT_END: Option[str] = ReadingOption(
    name="atEnd",
    parse=one_of("poll", "finish"),
    doc="What to do with an endpoint that has no more records: poll requests it again later; finish ends it "
    "permanently after a batch that finds no new records.",
)
CURSOR_PATH: Option[Path | None] = ReadingOption(
    name="cursorPath",
    parse=optional(_path),
    doc="Position of the next cursor in an answer, such as meta.next. If it is missing, null, false or "
    "empty, the page is the last one.",
)
CURSOR_PARAM: Option[str] = ReadingOption(
    name="cursorParam", default="cursor", doc="URL parameter for the cursor."
)
START_CURSOR: Option[str | None] = FirstStartOption(name="startCursor", doc="Cursor of the first request.")
LINK_PATH: Option[Path | None] = ReadingOption(
    name="linkPath",
    parse=optional(_path),
    default_text="the Link header",
    doc="Position of the URL of the next page in an answer, such as links.next.",
)
EMPTY_PAGE_ENDS: Option[bool] = ReadingOption(
    name="emptyPageEnds",
    parse=boolean,
    doc="A page without records is the end for now, even if it links to a next page; for APIs where every "
    "page has such a link. A page is left only when the next one has records.",
)
PAGE_PARAM: Option[str] = ReadingOption(
    name="pageParam", default="page", doc="URL parameter for the number of the page."
)
FIRST_PAGE: Option[int] = FirstStartOption(
    name="firstPage", parse=integer(minimum=0), default=1, doc="Number of the first page."
)
PAGE_SIZE_PARAM: Option[str | None] = ReadingOption(
    name="pageSizeParam", doc="URL parameter for the number of records per page; needs pageSize."
)
PAGE_SIZE: Option[int | None] = ReadingOption(
    name="pageSize",
    parse=optional(integer(minimum=1)),
    doc="Records per page. Needed by since, to detect that a page is too small for all records with the "
    "same time; with checkRecords=false, pages by number need fewer requests with it.",
)
SINCE_PARAM: Option[str] = ReadingOption(
    name="sinceParam",
    default="since",
    doc="URL parameter for the time; the API has to return records with exactly that time too.",
)
SINCE_FIELD: Option[Path | None] = FirstStartOption(
    name="sinceField",
    parse=optional(_path),
    doc="Position of the time in a record, such as updated_at; the API has to return records in the order "
    "of this time, oldest first.",
)
START_SINCE: Option[str | None] = FirstStartOption(
    name="startSince",
    default_text="not set: the first request has no sinceParam",
    doc="Time of the first request, as the API writes it.",
)
ID_FIELD: Option[Path | None] = FirstStartOption(
    name="idField",
    parse=optional(_path),
    default_text="not set: a record is identified by its whole content",
    doc="Position of the id in a record, which identifies the record when its other fields change.",
)
CHECK_RECORDS: Option[bool] = ReadingOption(
    name="checkRecords",
    parse=boolean,
    default=True,
    doc="Check that the records around the position where reading continues are the records that were read "
    "before; false: continue after the same number of records without a check.",
)
HEADERS: Option[dict[str, str]] = ReadingOption(
    name="headers",
    parse=_header_map,
    default={},
    default_text="none",
    doc="Headers of each request, as a JSON object of strings. Never stored or shown.",
    secret=True,
)
AUTH_ENV: Option[str | None] = ReadingOption(
    name="authEnv", doc="Environment variable, on the executors, that contains the token or password."
)
AUTH_TOKEN: Option[str | None] = ReadingOption(
    name="authToken", doc="The token or password itself. Never stored or shown.", secret=True
)
AUTH_HEADER: Option[str] = ReadingOption(
    name="authHeader", default="Authorization", doc="Header for the token."
)
AUTH_SCHEME: Option[str | None] = ReadingOption(
    name="authScheme",
    default_text="`Bearer` in the header Authorization, none in others",
    doc="Word before the token in the header.",
)
AUTH_PARAM: Option[str | None] = ReadingOption(
    name="authParam", doc="URL parameter for the token, instead of a header."
)
HTTP_RETRIES: Option[int] = ReadingOption(
    name="httpRetries",
    parse=integer(minimum=0),
    default=5,
    doc="How often a request is retried after status 202, 408, 429 or 5xx, a broken connection, a truncated "
    "body, or an answer that is no page or a page that was read before.",
)
MAX_BACKOFF: Option[float] = ReadingOption(
    name="maxBackoff",
    parse=duration_s,
    default_text="1 minute",
    doc="Longest pause before a request is retried, even if Retry-After asks for more; without Retry-After, "
    "pauses grow from 1 second.",
)
REQUEST_TIMEOUT: Option[float] = ReadingOption(
    name="requestTimeout",
    parse=duration_s,
    default_text="1 minute",
    doc="Longest duration of a request, from the connection to the last byte of the answer.",
)
MAX_RESPONSE_BYTES: Option[int] = ReadingOption(
    name="maxResponseBytes",
    parse=size_bytes,
    default_text="128m",
    doc="Largest answer, both as sent and after decompression. A larger answer fails the task.",
)

HTTP_OPTIONS: tuple[Option[Any], ...] = (
    RECORDS_PATH, MISSING_LIST_IS_EMPTY, PAGINATION, AT_END, CURSOR_PATH, CURSOR_PARAM, START_CURSOR,
    LINK_PATH, EMPTY_PAGE_ENDS, PAGE_PARAM, FIRST_PAGE, PAGE_SIZE_PARAM, PAGE_SIZE, SINCE_PARAM, SINCE_FIELD,
    START_SINCE, ID_FIELD, CHECK_RECORDS, HEADERS, AUTH_ENV, AUTH_TOKEN, AUTH_HEADER, AUTH_SCHEME,
    AUTH_PARAM, HTTP_RETRIES, MAX_BACKOFF, REQUEST_TIMEOUT, MAX_RESPONSE_BYTES,
)  # fmt: skip

_ONLY_FOR: dict[str, tuple[Option[Any], ...]] = {
    "cursor": (CURSOR_PATH, CURSOR_PARAM, START_CURSOR),
    "link": (LINK_PATH,),
    "page": (PAGE_PARAM, FIRST_PAGE),
    "since": (SINCE_PARAM, SINCE_FIELD, START_SINCE),
}


def check_http_options(options: Options) -> None:
    """Refuse invalid combinations of options."""
    chosen = options[PAGINATION]
    for pagination, own in _ONLY_FOR.items():
        for option in own:
            if pagination != chosen and options.is_set(option):
                raise OptionError(
                    f"option {option.name} is for pagination {pagination}, but pagination is {chosen}",
                    remedy=f'add .option("pagination", "{pagination}"), or remove {option.name}',
                )
    if chosen == "cursor":
        options.require(CURSOR_PATH, why="pagination cursor reads the next cursor from each answer")
    if chosen == "since":
        options.require(SINCE_FIELD, why="pagination since continues from the time of the last record")
        options.require(PAGE_SIZE, why="a page that is full of records with the same time has to be detected")
    if options[PAGE_SIZE_PARAM] is not None:
        options.require(PAGE_SIZE, why="pageSizeParam requests that many records")
    if options[AUTH_ENV] is not None and options[AUTH_TOKEN] is not None:
        raise OptionError(
            "options authEnv and authToken are both set", remedy="remove one of them: both set the same token"
        )
    if options[AUTH_PARAM] is not None and (options.is_set(AUTH_HEADER) or options.is_set(AUTH_SCHEME)):
        raise OptionError(
            "option authParam puts the token into the URL, but authHeader or authScheme puts it into a "
            "header",
            remedy="remove one of the options",
        )
