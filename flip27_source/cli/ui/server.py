"""The server of the pages: routes, and a socket. The routes of edits exist only if they are allowed."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from flip27_source.errors import MissingStateError

from ..commands import unusable
from .answers import NOT_FOUND, Answers, key_of
from .edit_routes import edit_routes
from .guard import Guard
from .pages import HERE, Pages
from .runbook import runbook


def application(
    pages: Pages, token: str | None, now: Callable[[], dt.datetime], *, allow_edits: bool = False
) -> Any:
    answers = Answers(pages, now)

    def page(request: Request) -> str:
        return pages.page(key_of(request), request.path_params["view"], request.query_params)

    def elsewhere(_request: Request, _error: Exception) -> Response:
        error = MissingStateError("there is no such page", remedy="begin at /")
        return answers.said(NOT_FOUND, "Not found", error)

    routes: list[BaseRoute] = [
        Route("/", answers.page(lambda _: pages.overview())),
        Route("/runbook", lambda _: HTMLResponse(pages.render("runbook.html", text=runbook()))),
        Route("/s/{place}/{lineage}/ask", answers.asked),
        *(edit_routes(pages, answers) if allow_edits else ()),
        Route("/s/{place}/{lineage}/{view}", answers.page(page)),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    app = Starlette(routes=routes, exception_handlers={NOT_FOUND: elsewhere})
    return Guard(app, token=token, allow_edits=allow_edits)


def bound(host: str, port: int) -> socket.socket:
    """A socket at this address.

    Raises:
        OptionError: the address cannot be used.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise unusable(host, port, error) from None


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
    logging.getLogger("uvicorn.error").addFilter(_is_no_interrupted_page)
    return uvicorn.Server(config)


def _is_no_interrupted_page(record: logging.LogRecord) -> bool:
    """At the end pages that still wait are cancelled, which is no error."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


@contextmanager
def serving(app: Any, listening: socket.socket) -> Iterator[None]:
    """Answer on a thread within this block."""
    server = server_of(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="page", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
