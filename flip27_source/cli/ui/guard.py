"""Guard: which requests may see the page, and the headers of every answer.

Without a token a request has to name a loopback host: a page of another site whose name leads here (DNS
rebinding) sends its own name. On other addresses a token is needed, which becomes a cookie of this server's
name.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)
_LONGEST_FORM = 4096

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer browsers send our own form without its origin
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_FORM = """<!doctype html><html lang="en"><meta charset="utf-8"><title>flip27: token</title>
<link rel="stylesheet" href="/static/style.css"><main><h1>flip27</h1>
<form method="post" action="/login"><p><label for="token">Token</label>
<input type="password" id="token" name="token" autofocus required> <button>Show</button></p></form></main>"""


class Guard:
    """An ASGI application around another one.

    Args:
        token: what a browser has to give once, and programs as a bearer token; None on loopback, without one.
        allow_edits: whether forms of sources may be posted. The application checks their own tokens.
    """

    def __init__(self, app: Any, *, token: str | None, allow_edits: bool = False) -> None:
        self._app = app
        self._allows_edits = allow_edits
        self._token = token
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return  # neither sockets nor events of the server's life

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope, receive)
        answer = await self._refusal(request) or self._app
        await answer(scope, receive, send_with_headers)

    async def _refusal(self, request: Request) -> Response | None:
        """What is answered instead of the page; None if the request may see it."""
        host = request.headers.get("host", "")
        if self._token is None and not _LOOPBACK.fullmatch(host):
            return PlainTextResponse("flip27 ui answers only to localhost and 127.0.0.1\n", 421)
        path = request.scope["path"]  # not that of request.url, which old Starlettes make from the host too
        is_login = (request.method, path) == ("POST", "/login") and self._token is not None
        is_edit = self._allows_edits and request.method == "POST" and path.startswith("/s/")
        if request.method not in ("GET", "HEAD") and not (is_login or is_edit):
            return PlainTextResponse("this page only shows\n", 405)
        is_own = request.headers.get("origin") in (f"http://{host}", f"https://{host}")
        sent_by = request.headers.get("sec-fetch-site", "same-origin")
        if (is_login or is_edit) and not (is_own and sent_by == "same-origin"):
            return PlainTextResponse(
                "another site sends this form, or a proxy changes the Host header\n", 403
            )
        if is_login:
            return await self._logged_in(request)
        if self._token is None or path == "/static/style.css" or self._knows(request):
            return None
        return HTMLResponse(_FORM, 401, {"WWW-Authenticate": "Bearer"})

    def _knows(self, request: Request) -> bool:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return _equal(given, self._token) or _equal(request.cookies.get(_cookie(request), ""), self._session)

    async def _logged_in(self, request: Request) -> Response:
        body = await body_of(request, _LONGEST_FORM)
        if body is None:
            return PlainTextResponse("the form is too long\n", 413)
        (given,) = parse_qs(body.decode(errors="replace")).get("token", [""])[:1]
        if not _equal(given, self._token):
            return HTMLResponse(_FORM, 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(_cookie(request), self._session, httponly=True, samesite="strict")
        return answer


async def body_of(request: Request, longest: int) -> bytes | None:
    """The body of a request; None if it is longer than this many bytes."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > longest:
            return None
    return body


def _cookie(request: Request) -> str:
    """The name of the cookie: browsers send those of all ports of a host, where other pages may be."""
    return f"flip27_ui_{request.scope['server'][1]}"


def _equal(given: str, wanted: str | None) -> bool:
    return wanted is not None and hmac.compare_digest(given.encode(), wanted.encode())
