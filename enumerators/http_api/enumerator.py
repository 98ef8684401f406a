"""The http enumerator: one split for each endpoint of a JSON API, assigned once.

What lives here: the endpoints, and which of them were assigned. The position of each endpoint is in its
split, and readers advance it (:mod:`flip27_source.readers.http_api.reader`). No request is made here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

from flip27_source.enumerator import SplitEnumerator
from flip27_source.enumerator_context import SplitEnumeratorContext
from flip27_source.enumerator_mixins import CompletesPositions
from flip27_source.enumerators.http_api.urls import endpoint_urls
from flip27_source.errors import EditError, OptionError
from flip27_source.file_systems.moved_paths import PathRewrite, RewritesPaths
from flip27_source.options import NextBatchOption, Option, Options, one_of, texts
from flip27_source.source_options import PATH

ENDPOINTS: Option[tuple[str, ...]] = NextBatchOption(
    name="endpoints",
    parse=texts,
    default=(),
    default_text="the path itself",
    doc="Endpoints below the path, separated by commas or as a JSON list: orders, customers. They are read "
    "independently and in parallel. Endpoints that are added later are read from their start.",
    change_note="onRemovedEndpoint decides about endpoints that are removed",
)
ON_REMOVED_ENDPOINT: Option[str] = NextBatchOption(
    name="onRemovedEndpoint",
    parse=one_of("fail", "finish"),
    doc="What to do with an endpoint that was read before and is no longer set: fail stops the query; finish "
    "ends the endpoint and forgets its position, so the endpoint cannot be added again.",
)

_STARTS_WITH_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSplit:
    """An endpoint and its position.

    Attributes:
        split_id: the URL of the endpoint, without credentials.
        at: where the next request starts: a cursor, the URL of a page, a page number, or a value of
            ``sinceField``; None for the start.
        taken: the number of records already read from there on.
        count: the number of records of the endpoint already read.
        last: the digest that identifies the last record read.
        seen: with pagination ``since``, digests of the records already read whose time equals ``at``; with
            cursors and links, digests of pages that were read.
        page_size: with pagination ``page``, the page size that was requested, which ``at`` and ``taken``
            depend on; None if none was, or if an earlier version stored the position.
    """

    split_id: str
    at: str | int | float | None = None
    taken: int = 0
    count: int = 0
    last: str | None = None
    seen: tuple[str, ...] = ()
    page_size: int | None = None

    def __post_init__(self) -> None:
        if min(self.taken, self.count) < 0:
            raise ValueError("taken and count are 0 or greater")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpState:
    """The state of the enumerator.

    Attributes:
        handed_out: endpoints that were assigned and are being read or finished.
        given_up: endpoints that were assigned and then removed, with ``onRemovedEndpoint`` ``finish``.
        returned: splits that were added back, with their positions.
    """

    handed_out: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    returned: tuple[HttpSplit, ...] = ()


class HttpEnumerator(CompletesPositions, RewritesPaths[HttpSplit], SplitEnumerator[HttpSplit]):
    """Assigns each endpoint once."""

    options: ClassVar[tuple[Option[Any], ...]] = (ENDPOINTS, ON_REMOVED_ENDPOINT)
    default_reader: ClassVar[str | None] = "http"
    state_version: ClassVar[int] = 2
    split_version: ClassVar[int] = 2

    def __init__(
        self, context: SplitEnumeratorContext[HttpSplit], options: Options, state: HttpState | None = None
    ) -> None:
        super().__init__(context, options, state)
        before = state or HttpState()
        self._endpoints = endpoints_of(options)
        self._handed_out = dict.fromkeys(before.handed_out)
        self._given_up = dict.fromkeys(before.given_up)
        self._returned = list(before.returned)

    def start(self) -> None:
        """Refuse endpoints that were added again, and removed ones unless onRemovedEndpoint is finish."""
        back = [url for url in self._endpoints if url in self._given_up]
        if back:
            raise OptionError(
                f"option {ENDPOINTS.name} contains {', '.join(back)} again, which was removed before; the "
                "position was forgotten",
                remedy="remove the endpoint, or read it from its start in a separate query",
            )
        known = [*self._handed_out, *(split.split_id for split in self._returned)]
        removed = [url for url in known if url not in self._endpoints]
        if removed and self.options_given[ON_REMOVED_ENDPOINT] == "fail":
            raise OptionError(
                f"this query has read {', '.join(removed)}, which option {ENDPOINTS.name} (or the path) no "
                "longer contains",
                remedy="add them again; or, to leave their remaining records unread, set "
                f'.option("{ON_REMOVED_ENDPOINT.name}", "finish")',
            )
        for url in removed:
            self._handed_out.pop(url, None)
            self._given_up[url] = None
        self._returned = [split for split in self._returned if split.split_id not in self._given_up]

    def handle_split_request(self, subtask_id: int) -> None:
        fresh = (HttpSplit(split_id=url) for url in self._endpoints if url not in self._handed_out)
        split = self._returned.pop(0) if self._returned else next(fresh, None)
        if split is not None:
            self._handed_out[split.split_id] = None
            self.context.assign_split(split)

    def add_splits_back(self, splits: Sequence[HttpSplit], subtask_id: int) -> None:
        for split in splits:
            self._handed_out.pop(split.split_id, None)
        # Others were removed only while a batch was pending, and are read on.
        kept = (split for split in splits if split.split_id not in self._given_up)
        self._returned = [*kept, *self._returned]

    def snapshot_state(self, checkpoint_id: int) -> HttpState:
        return HttpState(
            handed_out=tuple(self._handed_out), given_up=tuple(self._given_up), returned=tuple(self._returned)
        )

    @classmethod
    def upgrade_state(cls, version: int, raw: Any) -> Any:
        return raw  # version 1 has splits without page_size

    @classmethod
    def upgrade_split(cls, version: int, raw: Any) -> Any:
        return raw  # version 1 has no page_size

    @classmethod
    def completed_position(cls, fields: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
        """At another position, the records and pages that were read are not those before it."""
        then = {**now, **fields}
        if then["at"] is not None and not _is_like(then["at"], now["at"], now["split_id"]):
            # The batch after the edit would fail, at every start.
            raise EditError(
                f"{then['at']!r} is not a position like the present one, {now['at']!r}",
                remedy="give a page, cursor, link or time of this endpoint as the position has it, or null "
                "for the start",
            )
        depending: dict[str, Any] = {}
        if (then["at"], then["taken"]) != (now["at"], now["taken"]):
            depending["last"] = None
        if then["at"] != now["at"]:
            depending["seen"] = ()
        if then["at"] is None:
            depending["count"] = then["taken"]
        elif now["page_size"] is not None and all(isinstance(one["at"], int) for one in (now, then)):
            before = now["count"] - now["taken"] + (then["at"] - now["at"]) * now["page_size"]
            depending["count"] = max(0, before) + then["taken"]
        return {**depending, **fields}

    @classmethod
    def rewrite_split(cls, split: HttpSplit, rewrite: PathRewrite) -> HttpSplit:
        """The endpoint at its new URL; a position that is a link is rewritten too."""
        at = rewrite.now(split.at) if isinstance(split.at, str) else split.at
        return replace(split, split_id=rewrite.now(split.split_id), at=at)

    @classmethod
    def rewrite_state(cls, state: HttpState, rewrite: PathRewrite, options: Options) -> HttpState:
        return HttpState(
            handed_out=tuple(map(rewrite.now, state.handed_out)),
            given_up=tuple(map(rewrite.now, state.given_up)),
            returned=tuple(cls.rewrite_split(split, rewrite) for split in state.returned),
        )


def endpoints_of(options: Options) -> tuple[str, ...]:
    """The URLs of all endpoints that the options name."""
    path = options.require(PATH, why="the http enumerator reads an API")
    endpoints = options[ENDPOINTS]
    return endpoint_urls(path, endpoints)


def _is_like(at: Any, known: Any, endpoint: str) -> bool:
    """True if a request could start at ``at`` as it could at a known position, which may be None."""
    server = "/".join(endpoint.split("/")[:3]) + "/"
    if known is None:
        return not isinstance(at, str) or "://" not in at or at.startswith(server)
    if type(at) is not type(known):
        return False
    if not isinstance(at, str):
        return bool(at >= 0 or known < 0)
    if known.startswith(server):
        return at.startswith(server)
    return not _is_time(known) or _is_time(at)


def _is_time(text: str) -> bool:
    """True for a date or time; a cursor may be as many digits as a date has."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return _STARTS_WITH_DATE.match(text) is not None
