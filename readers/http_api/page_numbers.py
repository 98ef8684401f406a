"""Pages by number; the meaning of a number depends on the page size, which may change."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from http import HTTPStatus

from flip27_source.enumerators.http_api.enumerator import HttpSplit
from flip27_source.enumerators.http_api.urls import with_params
from flip27_source.options import Options
from flip27_source.readers.http_api.answers import Page, changed_records, repeated
from flip27_source.readers.http_api.client import HttpClient, Response
from flip27_source.readers.http_api.options import FIRST_PAGE, PAGE_PARAM, PAGE_SIZE
from flip27_source.readers.http_api.pagination import Step, Walk


class PageWalk(Walk):
    """A walk over numbered pages; a page without records (or status 404) is after the last page."""

    def __init__(self, options: Options, client: HttpClient) -> None:
        super().__init__(options, client)
        self._param = options[PAGE_PARAM]
        self._first_number = options[FIRST_PAGE]
        self._size = options[PAGE_SIZE]

    def steps(self, split: HttpSplit) -> Iterator[Step]:
        """A position is the number of the last page read, and how many of its records were read.

        It moves to the next page only with records of that page, and only if the previous page is known
        to be full. Otherwise rows that are added to the previous page in the meantime would be lost.
        """
        number = self._first_number if split.at is None else int(split.at)
        size = self._size
        page, first = self._fetched(split, number), 0
        if split.taken:
            number, page, first = self._found_again(split, number, page)
        known: set[str] = set()
        while page.records:
            if first < len(page.records):
                split = self._moved(split, number, len(page.records), page, first)
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
                if last_page != number or first < size:
                    number = last_page
                    continue
            number, page, first = number + 1, following, 0

    def _found_again(self, split: HttpSplit, number: int, page: Page) -> tuple[int, Page, int]:
        """The page with the last record read, and the index to continue at; ``number`` is the best guess."""
        first = self._place_after(page, split, split.taken)
        if first is not None:
            return number, page, first
        start = self._fetched(split, self._first_number)
        size = len(start.records)
        if size:
            pages, rest = divmod(split.count - 1, size) if split.count > size else (0, split.count - 1)
            number = self._first_number + pages
            page = self._fetched(split, number) if pages else start
            first = self._place_after(page, split, rest + 1)
        if first is None:
            raise changed_records(page.place, "the last record that was read is not at its previous position")
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
