"""Pagination of an API: the steps from one position to the next, one step per page.

A walk makes requests and finds new records. Positions count records from a place that the server names,
and keep the last record's identity. So each record is in exactly one step, even if pages grow, repeat, or
change their size. What must not live here: rows and batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from flip27_source.enumerators.http_api.enumerator import HttpSplit
from flip27_source.enumerators.http_api.urls import with_params
from flip27_source.options import Options
from flip27_source.readers.http_api import options as opts
from flip27_source.readers.http_api.answers import (
    Identity,
    Page,
    Position,
    changed_records,
    cursor_of,
    next_link,
    records_of,
    repeated,
)
from flip27_source.readers.http_api.client import HttpClient, Response


@dataclass(frozen=True, slots=True)
class Step:
    """The records after a position, and the position after these records.

    Attributes:
        place: the URL of the request without secrets.
        first: the number of the first record on its page.
    """

    records: Sequence[bytes]
    after: HttpSplit
    place: str
    first: int = 0


class Walk(ABC):
    """Walks the pages of an endpoint."""

    def __init__(self, options: Options, client: HttpClient) -> None:
        self._client = client
        self._options = options
        self._identity = Identity(options[opts.ID_FIELD])
        self._checks = options[opts.CHECK_RECORDS]
        size_param = options[opts.PAGE_SIZE_PARAM]
        self._size_params = {} if size_param is None else {size_param: options[opts.PAGE_SIZE]}

    @abstractmethod
    def steps(self, split: HttpSplit) -> Iterator[Step]:
        """The steps over all records that now follow the position of ``split``."""

    def steps_until(self, split: HttpSplit, end: HttpSplit) -> Iterator[Step]:
        """Steps over the same records that led from ``split`` to ``end``; ignore their positions."""
        left = end.count - split.count
        if left == 0:
            return
        for step in self.steps_to_the_end(split):
            records = step.records[:left]
            left -= len(records)
            checks = left == 0 and self._checks
            if checks and self._identity.digest(records[-1], step.place) != end.last:
                raise changed_records(
                    step.place, "the batch is read again, but it now ends with another record"
                )
            if records:
                yield replace(step, records=records)
            if left == 0:
                return
        if self._checks:
            place = self._client.shown(split.split_id)
            raise changed_records(
                place, f"the batch is read again, but its last {left} records no longer exist"
            )

    def steps_to_the_end(self, split: HttpSplit) -> Iterator[Step]:
        """Like ``steps``, but it ends only if two attempts in a row find no record.

        If the page size changes, one attempt with pages by number may find a false end.
        """
        looks = 0
        while looks < 2:
            looks += 1
            for step in self.steps(split):
                looks, split = 0, step.after
                yield step

    def _moved(self, split: HttpSplit, at: Position | None, taken: int, page: Page, first: int) -> HttpSplit:
        """The position after all of ``page``, whose records from ``first`` on are new."""
        fresh = len(page.records) - first
        last = self._identity.digest(page.records[-1], page.place) if fresh else split.last
        return replace(split, at=at, taken=taken, count=split.count + fresh, last=last)

    def _records_of(self, response: Response) -> list[bytes]:
        may_be_missing = self._options[opts.MISSING_LIST_IS_EMPTY]
        return records_of(response, self._options[opts.RECORDS_PATH], may_be_missing=may_be_missing)

    def _is_known(self, page: Page, known: Collection[str]) -> bool:
        """True if the whole page equals one of those with the digests ``known``."""
        return self._checks and len(page.records) > 0 and self._identity.page_digest(page) in known

    def _check_found(self, page: Page, *, at_end: bool) -> None:
        """The last record read is not there: an error, unless there are just fewer records, unchecked."""
        if self._checks or not at_end:
            raise changed_records(page.place, "the last record that was read is not at its previous position")

    def _place_after(self, page: Page, split: HttpSplit, taken: int) -> int | None:
        """The index on the page after the ``taken`` records that were read; None if they do not match."""
        if taken == 0:
            return 0
        if self._checks and split.last is not None:
            return self._identity.place_after(page.records, taken, split.last, page.place)
        return taken if taken <= len(page.records) else None


class ChainWalk(Walk):
    """A walk along cursors or links: each answer but the last names the next page. Also for one page."""

    def __init__(self, options: Options, client: HttpClient) -> None:
        super().__init__(options, client)
        self._kind = options[opts.PAGINATION]
        self._cursor_param = options[opts.CURSOR_PARAM]
        self._start = options[opts.START_CURSOR] if self._kind == "cursor" else None
        self._next_path = options[opts.CURSOR_PATH] if self._kind == "cursor" else options[opts.LINK_PATH]
        self._empty_page_ends = options[opts.EMPTY_PAGE_ENDS]

    def steps(self, split: HttpSplit) -> Iterator[Step]:
        """A position is the last cursor or link followed, and the number of records taken after it.

        Records are counted over several pages if necessary, because the server may have changed the page
        size. At the end, the position stays on the last page, which may grow: if every page has a next one,
        a page is left only when that has records.
        """
        known: set[Position | None] = set()
        ahead: Page | None = None
        while True:
            known.add(split.at)
            page, ahead = ahead or self._fetched(split, known), None
            first = self._place_after(page, split, split.taken)
            ends = page.following is None or (self._empty_page_ends and not page.records)
            ends = ends or page.following == split.at
            if first is None and (ends or split.taken <= len(page.records)):
                self._check_found(page, at_end=ends)
                return
            records = [] if first is None else page.records[first:]
            stays = ends or self._empty_page_ends
            if stays and records:
                split = self._moved(split, split.at, len(page.records), page, first or 0)
                yield Step(records, split, page.place, first or 0)
            if ends:
                return
            left = split.taken - len(page.records) if first is None else 0
            start = len(page.records) if first is None or stays else first
            following = self._moved(split, page.following, left, page, start)
            # All early pages, and fewer and fewer of the later ones: enough to find any endless circle.
            if len(split.seen) < following.count.bit_length():
                following = replace(following, seen=(*split.seen, self._identity.page_digest(page)))
            if not stays:
                split = following
                yield Step(records, split, page.place, start)
                continue
            ahead = self._fetched(following, known | {following.at})
            if not ahead.records:
                if first is None:
                    self._check_found(page, at_end=True)
                return
            if first is not None and self._checks and self._has_more(split, known):
                ahead = None
            else:
                split = following

    def _has_more(self, split: HttpSplit, known: set[Position | None]) -> bool:
        """True if the page that was read has grown, or changed, before the next one was requested."""
        page = self._fetched(split, known)
        return self._place_after(page, split, split.taken) != len(page.records)

    def _fetched(self, split: HttpSplit, known: set[Position | None]) -> Page:
        def accept(response: Response) -> Page:
            records = self._records_of(response)
            following = self._following(response, split)
            page = Page(records, following, response.place)
            # Some servers mark the last page with a link to itself.
            is_last = following == split.at and len(records) <= split.taken
            if following is not None and following in known and not is_last:
                raise repeated(response.place, "the answer links back to a page that was read before")
            if split.taken == 0 and self._is_known(page, split.seen):
                raise repeated(response.place, "the page has the records of a page that was read before")
            return page

        return self._client.get(self._url(split), accept, home=split.split_id)

    def _url(self, split: HttpSplit) -> str:
        url = with_params(split.split_id, self._size_params)
        if self._kind == "cursor":
            return with_params(url, {self._cursor_param: split.at if split.at is not None else self._start})
        # A link is complete and may be signed, so it must not change.
        return url if split.at is None else str(split.at)

    def _following(self, response: Response, split: HttpSplit) -> Position | None:
        if self._kind == "none":
            return None
        if self._next_path is None:
            position: Position | None = next_link(response)
        else:
            position = cursor_of(response, self._next_path)
        if position is None:
            return None
        if self._kind == "cursor":
            self._client.refuse_secret(str(position), response.place)
            return position
        return self._client.followed(str(position), response, split.split_id)


class PageWalk(Walk):
    """A walk over numbered pages; a page without records (or status 404) is after the last page.

    The meaning of a number depends on the page size, which may change.
    """

    def __init__(self, options: Options, client: HttpClient) -> None:
        super().__init__(options, client)
        self._param = options[opts.PAGE_PARAM]
        self._first_number = options[opts.FIRST_PAGE]
        self._size = options[opts.PAGE_SIZE]

    def steps(self, split: HttpSplit) -> Iterator[Step]:
        """A position is the number of the last page read, and how many of its records were read.

        It moves to the next page only with records of that page, and only if the previous page is known
        to be full. Otherwise rows that are added to the previous page in the meantime would be lost.
        """
        number = self._first_number if split.at is None else int(split.at)
        size = self._size
        page = self._fetched(split, number)
        first: int | None = 0
        if split.taken:
            number, page, first = self._found_again(split, number, page)
        known: set[str] = set()
        while page.records and first is not None:
            if first < len(page.records):
                split = self._moved(split, number, len(page.records), page, first)
                split = replace(split, page_size=self._size)
                yield Step(page.records[first:], split, page.place, first)
            known.add(self._identity.page_digest(page))
            following = self._fetched(split, number + 1, known)
            if not following.records:
                return
            if self._checks or not len(page.records) == len(following.records) == size:
                # If the page has grown, the page size has changed or a record was removed from a page that
                # was read, the next page starts elsewhere.
                last_page, page, first = self._found_again(split, number, self._fetched(split, number))
                size = len(page.records)
                if last_page != number or first is None or first < size:
                    number = last_page
                    continue
            number, page, first = number + 1, following, 0

    def _found_again(self, split: HttpSplit, number: int, page: Page) -> tuple[int, Page, int | None]:
        """The page with the last record read, and the index to continue at; ``number`` is the best guess.

        The index is None if there are fewer records than were read.
        """
        first = self._place_after(page, split, split.taken)
        is_checked = self._checks and split.last is not None
        # Without a check, only the number of records is the same whatever the page size.
        if first is not None and (is_checked or split.page_size == self._size):
            return number, page, first
        start = self._fetched(split, self._first_number)
        size = len(start.records)
        if size:
            pages, rest = divmod(split.count - 1, size) if split.count > size else (0, split.count - 1)
            number = self._first_number + pages
            page = self._fetched(split, number) if pages else start
            first = self._place_after(page, split, rest + 1)
        if first is None:
            self._check_found(page, at_end=not self._fetched(split, number + 1).records)
        return number, page, first

    def _fetched(self, split: HttpSplit, number: int, known: Collection[str] = ()) -> Page:
        """A page; a page whose content is ``known`` is not the requested page."""

        def accept(response: Response) -> Page:
            if response.status == HTTPStatus.NOT_FOUND:
                return Page([], None, response.place)
            page = Page(self._records_of(response), None, response.place)
            if known and self._is_known(page, known):
                raise repeated(response.place, "the page has the records of an earlier page")
            return page

        url = with_params(split.split_id, {**self._size_params, self._param: number})
        return self._client.get(
            url,
            accept,
            home=split.split_id,
            also=lambda status: status == HTTPStatus.NOT_FOUND and number > self._first_number,
        )
