"""Answers: pages and errors as responses. One request at a time reads at each place, and few wait for it."""

from __future__ import annotations

import asyncio
import datetime as dt
import hmac
import traceback
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from flip27_source.errors import Flip27Error, MissingStateError, ProtocolError, StateLocationError, said_of
from flip27_source.log import LOG

from .pages import Pages
from .sources import ANSWER_S, LATE_S

T = TypeVar("T")

NOT_FOUND, FAILED = 404, 500
_MOST_AT_ONCE, _MOST_OF_ALL = 4, 32
"""How many requests for a place, and for the page of all, have a thread; the others wait without one."""


class Answers:
    def __init__(self, pages: Pages, now: Callable[[], dt.datetime]) -> None:
        self._pages = pages
        self._now = now
        self._elsewhere = asyncio.Semaphore(_MOST_OF_ALL)
        self._turns = {str(place.number): asyncio.Semaphore(_MOST_AT_ONCE) for place in pages.sources.places}

    def page(self, make: Callable[[Request], str]) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint that answers with a page of the state as it is."""

        async def endpoint(request: Request) -> Response:
            return await self.in_turn(request, "This page cannot be made", lambda: self._made(make, request))

        return endpoint

    async def in_turn(self, request: Request, title: str, make: Callable[[], Response]) -> Response:
        """What is made on a thread: a place that does not answer leaves threads for the others."""
        turn = self._turns.get(request.path_params.get("place", ""), self._elsewhere)
        try:
            async with asyncio.timeout(ANSWER_S):
                await turn.acquire()
        except TimeoutError:
            return self.said(FAILED, title, busy("too many requests wait for this location"))
        try:
            limiter = anyio.CapacityLimiter(1)  # its own: the common one would run out
            return await anyio.to_thread.run_sync(self._tried, title, make, limiter=limiter)
        finally:
            turn.release()

    def _made(self, make: Callable[[Request], str], request: Request) -> Response:
        try:
            return HTMLResponse(self.looked(make, request))
        except MissingStateError:  # clean-up may have been quicker: a new look does not ask for it
            return HTMLResponse(self.looked(make, request, again=True))

    def looked(self, make: Callable[[Request], T], request: Request, *, again: bool = False) -> T:
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
        except Exception as error:  # noqa: BLE001 - the server would print it with its secrets
            LOG.error("a page could not be made:\n%s", self._pages.hide(traceback.format_exc()))
            what = ProtocolError(
                f"a bug of flip27: {said_of(error, self._pages.hide)}",
                remedy="report it, with the log of flip27 ui",
            )
            return self.said(FAILED, title, what)

    def asked(self, request: Request) -> Response:
        """Ask a source itself, if the page has given the token for it; then show what is known.

        A source that answers soon is not shown as it was before.
        """
        given, token = self._pages.looks_with, request.query_params.get("token", "").encode(errors="replace")
        if given is None or not hmac.compare_digest(token, self._pages.ask_token.encode()):
            raise HTTPException(NOT_FOUND)
        self._pages.sources.look_into(given, self._now(), key_of(request), limit_s=LATE_S)
        shown = "edit?operation=set-position" if "positions" in request.query_params else "progress"
        return RedirectResponse(f"/s/{key_of(request)}/{shown}", 303)

    def said(self, status: int, title: str, error: Flip27Error) -> Response:
        """An error with its remedy."""
        text = self._pages.render("error.html", title=title, what=error.what, remedy=error.remedy)
        return HTMLResponse(text, status)


def busy(what: str) -> StateLocationError:
    return StateLocationError(what, remedy="wait, and try again; or check the network and the store")


def key_of(request: Request) -> str:
    """The key of the source in the path of a request."""
    return "{place}/{lineage}".format(**request.path_params)
