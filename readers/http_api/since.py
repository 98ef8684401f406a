"""Records since a time: each request starts at the time of the last record read.

The API returns the records of that time again, and may have new ones. So the position keeps digests of the
records read, and each record of that time is compared with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from flip27_source.enumerators.http_api.enumerator import HttpSplit
from flip27_source.enumerators.http_api.urls import with_params
from flip27_source.options import Options
from flip27_source.readers.http_api.answers import (
    Identity,
    Page,
    Time,
    as_time,
    changed_records,
    next_link,
    time_of,
)
from flip27_source.readers.http_api.client import Doubtful, HttpClient, Response
from flip27_source.readers.http_api.options import PAGE_SIZE, SINCE_FIELD, SINCE_PARAM, START_SINCE
from flip27_source.readers.http_api.pagination import Step, Walk

_ID = 16
"""The length of the first part of a digest: the identity of the record."""


@dataclass(frozen=True, slots=True)
class _Dated:
    """A record, its comparable and its written time, and its number on the page."""

    record: bytes
    time: Time
    written: str
    number: int


def _ids(split: HttpSplit) -> Counter[str]:
    return Counter(digest[:_ID] for digest in split.seen)


class SinceWalk(Walk):
    """A walk that requests the records since a time, oldest first, until no new records come."""

    def __init__(self, options: Options, client: HttpClient) -> None:
        super().__init__(options, client)
        self._param = options[SINCE_PARAM]
        self._field = options.require(SINCE_FIELD, why="pagination since continues after the last record")
        self._start = options[START_SINCE]
        self._size = options.require(PAGE_SIZE, why="a full page has to be detected")
        self._content = Identity(None)

    def steps(self, split: HttpSplit) -> Iterator[Step]:
        """A position is the newest time read, and digests of the records of that time that were read."""
        while True:
            page, new = self._fetched(split)
            if not new:
                return
            split = self._after(split, new, page)
            yield Step([dated.record for dated in new], split, page.place, new[0].number)

    def steps_until(self, split: HttpSplit, end: HttpSplit) -> Iterator[Step]:
        """Steps up to the time of ``end``, with only those records of that time that ``end`` has seen.

        Records of that time may come in any order and new ones may have been added. So the same number of
        records is not necessarily the same records.
        """
        left = end.count - split.count
        if left == 0 or end.at is None:
            return
        (limit, _), allowed = as_time(end.at), _ids(end)
        if split.at is not None and as_time(split.at)[0] == limit:
            allowed -= _ids(split)
        while True:
            page, new = self._fetched(split, limit)
            matching: list[_Dated] = []
            for dated in new:
                if self._is_before(dated, limit, page.place):
                    matching.append(dated)
                elif dated.time == limit and allowed[known := self._digest(dated, page)[:_ID]]:
                    allowed[known] -= 1
                    matching.append(dated)
            left -= len(matching)
            if matching:
                yield Step([dated.record for dated in matching], end, page.place, matching[0].number)
            # A record with an older time may have come, so the number alone does not tell the end.
            is_past = bool(new) and self._is_past(new[-1], limit, not allowed.total(), page.place)
            if not new or is_past or (left < 0 and self._checks):
                break
            split = self._after(split, new, page)
        if self._checks and (left or allowed.total()):
            difference = f"{left} fewer" if left > 0 else "more" if left < 0 else "other"
            raise changed_records(
                page.place, f"the batch is read again, but there are {difference} records than before"
            )

    def _is_past(self, newest: _Dated, limit: Time, is_whole: bool, place: str) -> bool:
        """True if no record of the batch can follow ``newest``."""
        return not self._is_before(newest, limit, place) and (is_whole or newest.time != limit)

    def _digest(self, dated: _Dated, page: Page) -> str:
        """The digest of the identity, and that of the content, which is new after an update."""
        both = (one.digest(dated.record, page.place) for one in (self._identity, self._content))
        return "".join(dict.fromkeys(both))

    def _after(self, split: HttpSplit, new: list[_Dated], page: Page) -> HttpSplit:
        newest = new[-1]
        seen = [self._digest(dated, page) for dated in new if dated.time == newest.time]
        last = seen[-1]
        if split.at is not None and as_time(split.at)[0] == newest.time:
            seen = [*split.seen, *seen]
        count = split.count + len(new)
        return replace(split, at=newest.written, count=count, last=last, seen=tuple(sorted(seen)))

    def _fetched(self, split: HttpSplit, limit: Time | None = None) -> tuple[Page, list[_Dated]]:
        """A page, and its records that ``split`` has not seen; their times can be compared with ``limit``."""

        def accept(response: Response) -> tuple[Page, list[_Dated]]:
            page = Page(self._records_of(response), None, response.place)
            new = self._new(page, split)
            if new and limit is not None:
                self._is_before(new[0], limit, page.place)
            if not new and (len(page.records) >= self._size or next_link(response) is not None):
                raise Doubtful(
                    f"{page.place}: the page is full but has no new record, so the following records cannot "
                    "be reached",
                    "more records may have the same time than fit on a page: request larger pages "
                    "(pageSizeParam and pageSize), or use pagination cursor or link, if the API supports it",
                )
            return page, new

        since = self._start if split.at is None else as_time(split.at)[1]
        url = with_params(split.split_id, {**self._size_params, self._param: since})
        return self._client.get(url, accept, home=split.split_id)

    def _new(self, page: Page, split: HttpSplit) -> list[_Dated]:
        reached = None if split.at is None else as_time(split.at)[0]
        seen = Counter(split.seen)
        new: list[_Dated] = []
        before: _Dated | None = None
        for number, record in enumerate(page.records):
            time, written = time_of(record, self._field, page.place)
            dated = _Dated(record, time, written, number)
            if before is not None and self._is_before(dated, before.time, page.place):
                raise Doubtful(
                    f"{page.place}: record {number} of the page has the time {written!r}, which is older "
                    f"than {before.written!r} of the record before it",
                    remedy="let the API sort by sinceField, oldest first, with a parameter in the path",
                )
            before = dated
            if reached is not None:
                if self._is_before(dated, reached, page.place):
                    continue  # some APIs accept only whole seconds or days, and return known records again
                if time == reached:
                    whole = self._digest(dated, page)
                    # Earlier versions stored the first part alone.
                    known = whole if seen[whole] else whole[:_ID]
                    if seen[known]:
                        seen[known] -= 1
                        continue
            new.append(dated)
        return new

    def _is_before(self, dated: _Dated, time: Time, place: str) -> bool:
        try:
            return dated.time < time  # type: ignore[operator]
        except TypeError:
            raise Doubtful(
                f"{place}: record {dated.number} of the page has the time {dated.written!r}, which cannot be "
                f"compared with {time}",
                remedy="set option sinceField to a field whose values are all numbers or all times",
            ) from None
