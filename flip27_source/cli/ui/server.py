"""The server of the pages: routes, errors, and a socket. One request at a time reads at each place."""

from __future__ import annotations

import datetime as dt
import hmac
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from flip27_source.errors import Flip27Error, MissingStateError, OptionError, ProtocolError, said_of

from .guard import Guard
from .pages import HERE, Pages
from .sources import LATE_S

_NOT_FOUND, _FAILED = 404, 500


def application(pages: Pages, token: str | None, now: Callable[[], dt.datetime]) -> Any:
    """The ASGI application."""

    def answered(make: Callable[[Request], str]) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            try:
                try:
                    return HTMLResponse(_looked(pages, request, make, now()))
                except MissingStateError:  # clean-up may have been quicker: a new look does not ask for it
                    return HTMLResponse(_looked(pages, request, make, now(), again=True))
            except MissingStateError as error:
                return said(_NOT_FOUND, "Not found", error)
            except Flip27Error as error:
                return said(_FAILED, "This page cannot be made", error)

        return endpoint

    def said(status: int, title: str, error: Flip27Error) -> Response:
        text = pages.render("error.html", title=title, what=error.what, remedy=error.remedy)
        return HTMLResponse(text, status)

    def page(request: Request) -> str:
        return pages.page(_key_of(request), request.path_params["view"], request.query_params)

    def elsewhere(_request: Request, _error: Exception) -> Response:
        return said(_NOT_FOUND, "Not found", MissingStateError("there is no such page", remedy="begin at /"))

    def failed(_request: Request, error: Exception) -> Response:
        what = ProtocolError(
            f"a bug of flip27: {said_of(error)}", remedy="report it, with the log of flip27 ui"
        )
        return said(_FAILED, "This page cannot be made", what)

    routes = [
        Route("/", answered(lambda _: pages.overview())),
        Route("/s/{place}/{lineage}/ask", lambda request: _asked(pages, request, now())),
        Route("/s/{place}/{lineage}/{view}", answered(page)),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    return Guard(
        Starlette(routes=routes, exception_handlers={_NOT_FOUND: elsewhere, Exception: failed}), token=token
    )


def _asked(pages: Pages, request: Request, now: dt.datetime) -> Response:
    """Ask a source itself, if this page has given the token for it; then show what is known."""
    given, token = pages.looks_with, request.query_params.get("token", "").encode(errors="replace")
    if given is None or not hmac.compare_digest(token, pages.ask_token.encode()):
        raise HTTPException(_NOT_FOUND)
    pages.sources.look_into(given, now, _key_of(request))
    return RedirectResponse(f"/s/{_key_of(request)}/progress", 303)


def _key_of(request: Request) -> str:
    return "{place}/{lineage}".format(**request.path_params)


def _looked(
    pages: Pages, request: Request, make: Callable[[Request], str], now: dt.datetime, *, again: bool = False
) -> str:
    """A page after a look: at all places, or at that of its source only, which is held meanwhile."""
    if "place" not in request.path_params:
        pages.sources.look(now, again=again, limit_s=LATE_S)
        return make(request)
    with pages.sources.held(_key_of(request), now, again=again):
        return make(request)


def bound(host: str, port: int) -> socket.socket:
    """A socket at this address.

    Raises:
        OptionError: the address cannot be used.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise OptionError(
            f"{host} port {port} cannot be used: {error}", remedy="choose another --port, or end what uses it"
        ) from None


def server_of(app: Any) -> uvicorn.Server:
    """A server that answers until the user interrupts, or it is told that it should exit."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # it would be noise
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        http="h11",
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
