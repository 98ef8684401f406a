"""Answers: pages and errors as responses. One request at a time reads at each place."""

from __future__ import annotations

import datetime as dt
import hmac
from collections.abc import Callable
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from flip27_source.errors import Flip27Error, MissingStateError

from .pages import Pages
from .sources import LATE_S

T = TypeVar("T")

NOT_FOUND, FAILED = 404, 500


class Answers:
    def __init__(self, pages: Pages, now: Callable[[], dt.datetime]) -> None:
        self._pages = pages
        self._now = now

    def page(self, make: Callable[[Request], str]) -> Callable[[Request], Response]:
        """An endpoint that answers with a page of the state as it is."""

        def endpoint(request: Request) -> Response:
            return self._tried("This page cannot be made", lambda: self._made(make, request))

        return endpoint

    def _made(self, make: Callable[[Request], str], request: Request) -> Response:
        try:
            return HTMLResponse(self._looked(make, request))
        except MissingStateError:  # clean-up may have been quicker: a new look does not ask for it
            return HTMLResponse(self._looked(make, request, again=True))

    def _looked(self, make: Callable[[Request], T], request: Request, *, again: bool = False) -> T:
        """What is made after a look: at all places, or only at that of its source, held meanwhile."""
        sources = self._pages.sources
        if "place" not in request.path_params:
            sources.look(self._now(), again=again, limit_s=LATE_S)
            return make(request)
        with sources.held(key_of(request), self._now(), again=again):
            return make(request)

    def _tried(self, title: str, make: Callable[[], Response]) -> Response:
        try:
            return make()
        except MissingStateError as error:
            return self.said(NOT_FOUND, "Not found", error)
        except Flip27Error as error:
            return self.said(FAILED, title, error)

    def done(self, request: Request, find: Callable[[Request], T], act: Callable[[T], Response]) -> Response:
        """What ``act`` answers to what ``find`` finds at a new look."""
        return self._tried("This was not done", lambda: act(self._looked(find, request, again=True)))

    def asked(self, request: Request) -> Response:
        """Ask a source itself, if the page has given the token for it; then show what is known."""
        given, token = self._pages.looks_with, request.query_params.get("token", "").encode(errors="replace")
        if given is None or not hmac.compare_digest(token, self._pages.ask_token.encode()):
            raise HTTPException(NOT_FOUND)
        self._pages.sources.look_into(given, self._now(), key_of(request))
        return RedirectResponse(f"/s/{key_of(request)}/progress", 303)

    def said(self, status: int, title: str, error: Flip27Error) -> Response:
        """An error with its remedy."""
        text = self._pages.render("error.html", title=title, what=error.what, remedy=error.remedy)
        return HTMLResponse(text, status)


def key_of(request: Request) -> str:
    """The key of the source in the path of a request."""
    return "{place}/{lineage}".format(**request.path_params)
