"""Answers: pages and errors as responses. One request at a time looks at the state."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from flip27_source.errors import Flip27Error, MissingStateError

from .pages import Pages

T = TypeVar("T")

NOT_FOUND, FAILED = 404, 500


class Answers:
    def __init__(self, pages: Pages, now: Callable[[], dt.datetime]) -> None:
        self._pages = pages
        self._now = now
        self._looking = threading.Lock()

    def page(self, make: Callable[[Request], str]) -> Callable[[Request], Response]:
        """An endpoint that answers with a page of the state as it is."""

        def endpoint(request: Request) -> Response:
            with self._looking:
                return self._tried("This page cannot be made", lambda: self._made(make, request))

        return endpoint

    def _made(self, make: Callable[[Request], str], request: Request) -> Response:
        sources = self._pages.sources
        sources.look(self._now())
        try:
            return HTMLResponse(make(request))
        except MissingStateError:  # clean-up may have been quicker: a new look does not ask for it
            sources.look(self._now(), again=True)
            return HTMLResponse(make(request))

    def _tried(self, title: str, make: Callable[[], Response]) -> Response:
        try:
            return make()
        except MissingStateError as error:
            return self.said(NOT_FOUND, "Not found", error)
        except Flip27Error as error:
            return self.said(FAILED, title, error)

    def done(self, find: Callable[[], T], act: Callable[[T], Response]) -> Response:
        """What ``act`` answers to what ``find`` finds at a new look."""

        def look() -> T:
            with self._looking:
                self._pages.sources.look(self._now(), again=True)
                return find()

        return self._tried("This was not done", lambda: act(look()))

    def said(self, status: int, title: str, error: Flip27Error) -> Response:
        """An error with its remedy."""
        text = self._pages.render("error.html", title=title, what=error.what, remedy=error.remedy)
        return HTMLResponse(text, status)
