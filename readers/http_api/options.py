"""Options of the http reader, and what they amount to together."""

from __future__ import annotations

from typing import Any

import msgspec

from flip27_source.errors import OptionError
from flip27_source.options import (
    Option,
    Options,
    boolean,
    duration_s,
    integer,
    one_of,
    optional,
    size_bytes,
    text,
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
        raise ValueError('a JSON object of texts is expected, such as {"Accept-Language": "en"}') from None


RECORDS_PATH: Option[Path] = Option(
    name="recordsPath",
    parse=_path,
    default=(),
    default_text="the whole answer is the list",
    doc="Where the list of records is in an answer: names joined by dots, such as data.items.",
)
PAGINATION: Option[str] = Option(
    name="pagination",
    parse=one_of("none", "cursor", "link", "page", "since"),
    default="none",
    doc="How the API is paged: cursor (in the answer, at cursorPath), link (the Link header, or a URL at "
    "linkPath), page (numbers), since (records not older than a time), none (one answer).",
    first_start_only=True,
)
AT_END: Option[str] = Option(
    name="atEnd",
    parse=one_of("poll", "finish"),
    default="poll",
    doc="What becomes of an endpoint that has no more records: poll asks again later, finish ends it for "
    "good once a batch after the last records finds no more.",
)
CURSOR_PATH: Option[Path | None] = Option(
    name="cursorPath",
    parse=optional(_path),
    default=None,
    doc="Where the next cursor is in an answer, such as meta.next. Missing, null, false or empty: last page.",
)
CURSOR_PARAM: Option[str] = Option(
    name="cursorParam", parse=text, default="cursor", doc="Parameter of the URL that takes the cursor."
)
START_CURSOR: Option[str | None] = Option(
    name="startCursor",
    parse=optional(text),
    default=None,
    doc="Cursor of the first request.",
    first_start_only=True,
)
LINK_PATH: Option[Path | None] = Option(
    name="linkPath",
    parse=optional(_path),
    default=None,
    default_text="the Link header",
    doc="Where the URL of the next page is in an answer, such as links.next.",
)
EMPTY_PAGE_ENDS: Option[bool] = Option(
    name="emptyPageEnds",
    parse=boolean,
    default=False,
    doc="A page without records is the end for now, although it names a next one: for APIs that always do.",
)
PAGE_PARAM: Option[str] = Option(
    name="pageParam",
    parse=text,
    default="page",
    doc="Parameter of the URL that takes the page's number.",
)
FIRST_PAGE: Option[int] = Option(
    name="firstPage",
    parse=integer(minimum=0),
    default=1,
    doc="Number of the first page.",
    first_start_only=True,
)
PAGE_SIZE_PARAM: Option[str | None] = Option(
    name="pageSizeParam",
    parse=optional(text),
    default=None,
    doc="Parameter of the URL that takes the records per page; needs pageSize.",
)
PAGE_SIZE: Option[int | None] = Option(
    name="pageSize",
    parse=optional(integer(minimum=1)),
    default=None,
    doc="Records per page. Needed by since, which notices by it that a page is too small for all records of "
    "one time; pages by number need fewer requests with it.",
)
SINCE_PARAM: Option[str] = Option(
    name="sinceParam",
    parse=text,
    default="since",
    doc="Parameter of the URL that takes the time; the API has to give the records of that very time too.",
)
SINCE_FIELD: Option[Path | None] = Option(
    name="sinceField",
    parse=optional(_path),
    default=None,
    doc="Where the time is in a record, such as updated_at; records have to come in its order, oldest first.",
    first_start_only=True,
)
START_SINCE: Option[str | None] = Option(
    name="startSince",
    parse=optional(text),
    default=None,
    default_text="none: the first request has no sinceParam",
    doc="Time of the first request, as the API writes it.",
    first_start_only=True,
)
ID_FIELD: Option[Path | None] = Option(
    name="idField",
    parse=optional(_path),
    default=None,
    default_text="a record is known by all it holds",
    doc="Where the id is in a record, by which it is known again when other fields of it change.",
    first_start_only=True,
)
CHECK_RECORDS: Option[bool] = Option(
    name="checkRecords",
    parse=boolean,
    default=True,
    doc="Check that the records around the place where reading goes on are those that were read before; "
    "false goes on at the same number of records, whatever they are.",
)
HEADERS: Option[dict[str, str]] = Option(
    name="headers",
    parse=_header_map,
    default={},
    default_text="none",
    doc="Headers of each request, as a JSON object of texts. Never stored or shown.",
    secret=True,
)
AUTH_ENV: Option[str | None] = Option(
    name="authEnv",
    parse=optional(text),
    default=None,
    doc="Environment variable of the executors that holds the token or password.",
)
AUTH_TOKEN: Option[str | None] = Option(
    name="authToken",
    parse=optional(text),
    default=None,
    doc="The token or password itself. Never stored or shown.",
    secret=True,
)
AUTH_HEADER: Option[str] = Option(
    name="authHeader", parse=text, default="Authorization", doc="Header that takes the token."
)
AUTH_SCHEME: Option[str | None] = Option(
    name="authScheme",
    parse=optional(text),
    default=None,
    default_text="`Bearer` in the header Authorization, none in others",
    doc="Word before the token in the header.",
)
AUTH_PARAM: Option[str | None] = Option(
    name="authParam",
    parse=optional(text),
    default=None,
    doc="Parameter of the URL that takes the token, instead of a header.",
)
HTTP_RETRIES: Option[int] = Option(
    name="httpRetries",
    parse=integer(minimum=0),
    default=5,
    doc="How often a request is tried again after status 408, 429 or 5xx, a broken connection, a body that "
    "is cut off, or a page that is not the one asked for.",
)
MAX_BACKOFF: Option[float] = Option(
    name="maxBackoff",
    parse=duration_s,
    default=60.0,
    default_text="1 minute",
    doc="Longest pause before a request is tried again, also where Retry-After asks for more; without it "
    "pauses grow from 1 second.",
)
REQUEST_TIMEOUT: Option[float] = Option(
    name="requestTimeout",
    parse=duration_s,
    default=60.0,
    default_text="1 minute",
    doc="Longest time that a request may take: from the connection to the last byte of the answer.",
)
MAX_RESPONSE_BYTES: Option[int] = Option(
    name="maxResponseBytes",
    parse=size_bytes,
    default=128 * 1024 * 1024,
    default_text="128m",
    doc="Largest answer, as it is sent and as it is once it is unpacked. A larger one fails the task.",
)

HTTP_OPTIONS: tuple[Option[Any], ...] = (
    RECORDS_PATH,
    PAGINATION,
    AT_END,
    CURSOR_PATH,
    CURSOR_PARAM,
    START_CURSOR,
    LINK_PATH,
    EMPTY_PAGE_ENDS,
    PAGE_PARAM,
    FIRST_PAGE,
    PAGE_SIZE_PARAM,
    PAGE_SIZE,
    SINCE_PARAM,
    SINCE_FIELD,
    START_SINCE,
    ID_FIELD,
    CHECK_RECORDS,
    HEADERS,
    AUTH_ENV,
    AUTH_TOKEN,
    AUTH_HEADER,
    AUTH_SCHEME,
    AUTH_PARAM,
    HTTP_RETRIES,
    MAX_BACKOFF,
    REQUEST_TIMEOUT,
    MAX_RESPONSE_BYTES,
)

_ONLY_FOR: dict[str, tuple[Option[Any], ...]] = {
    "cursor": (CURSOR_PATH, CURSOR_PARAM, START_CURSOR),
    "link": (LINK_PATH,),
    "page": (PAGE_PARAM, FIRST_PAGE),
    "since": (SINCE_PARAM, SINCE_FIELD, START_SINCE),
}


def check_http_options(options: Options) -> None:
    """Refuse options that do not go together.

    Raises:
        OptionError: with what is missing, or has no meaning here.
    """
    chosen = options[PAGINATION]
    for pagination, own in _ONLY_FOR.items():
        for option in own:
            if pagination != chosen and options.is_set(option):
                raise OptionError(
                    f"option {option.name} is for pagination {pagination}, and pagination is {chosen}",
                    remedy=f'add .option("pagination", "{pagination}"), or leave {option.name} out',
                )
    if chosen == "cursor":
        options.require(CURSOR_PATH, why="pagination cursor takes the next cursor from each answer")
    if chosen == "since":
        options.require(SINCE_FIELD, why="pagination since goes on from the time of the last record")
        options.require(PAGE_SIZE, why="a page that is full of records of one time has to be noticed")
    if options[PAGE_SIZE_PARAM] is not None:
        options.require(PAGE_SIZE, why="pageSizeParam asks for that many records")
    if options[AUTH_ENV] is not None and options[AUTH_TOKEN] is not None:
        raise OptionError(
            "options authEnv and authToken are both set", remedy="leave one of them out: they are the same"
        )
    if options[AUTH_PARAM] is not None and (options.is_set(AUTH_HEADER) or options.is_set(AUTH_SCHEME)):
        raise OptionError(
            "option authParam puts the token into the URL, and authHeader or authScheme into a header",
            remedy="leave one of them out",
        )
