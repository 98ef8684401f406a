"""Routes of edits and savepoints: pages that are got, and forms that are posted, each with its token."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from flip27_source.errors import MissingStateError, OptionError

from .answers import Answers, busy, key_of
from .edit_forms import Form
from .edit_pages import EditPages
from .guard import body_of
from .pages import Pages
from .savepoint_pages import SavepointPages
from .sources import ANSWER_S, Source

_LONGEST_FORM = 2_000_000
_OUTDATED = OptionError(
    "the form is of another page, or flip27 ui was started again since",
    remedy="go back, load the page again, and send it once more",
)


def edit_routes(pages: Pages, answers: Answers) -> Iterator[Route]:
    """The routes; from now on the pages have links and buttons that lead there."""
    token = secrets.token_urlsafe(32)
    pages.allow_edits(token)
    forms = _Forms(pages, answers, token)
    for part in (EditPages(pages), SavepointPages(pages)):
        for name, make in part.views.items():
            yield Route(f"/s/{{place}}/{{lineage}}/{name}", forms.page(make))
        for name, act in part.posts.items():
            yield Route(f"/s/{{place}}/{{lineage}}/{name}", forms.posted(act), methods=["POST"])


class _Forms:
    def __init__(self, pages: Pages, answers: Answers, token: str) -> None:
        self._pages = pages
        self._answers = answers
        self._token = token
        # By place: a store that does not answer holds only the edits of its own sources.
        self._editing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def page(self, make: Callable[[Source, Mapping[str, str]], str]) -> Callable[[Request], Any]:
        return self._answers.page(lambda request: make(self._source(request), request.query_params))

    def posted(self, act: Callable[[Source, Form], str]) -> Callable[[Request], Any]:
        """An endpoint that does what a form asks for, and leads to the page that shows what came of it."""

        def done(request: Request, form: Form) -> Response:
            with self._alone(request.path_params["place"]):
                source = self._answers.looked(self._source, request, again=True)
                return RedirectResponse(act(source, form), 303)

        async def endpoint(request: Request) -> Response:
            body = await body_of(request, _LONGEST_FORM)
            if body is None:
                return PlainTextResponse("the form is too long\n", 413)
            try:
                form = Form.parse(body)
            except ValueError as error:
                return PlainTextResponse(f"the form cannot be read: {error}\n", 400)
            if not hmac.compare_digest(form["form"].encode(), self._token.encode()):
                return self._answers.said(403, "This was not done", _OUTDATED)
            return await self._answers.in_turn(request, "This was not done", lambda: done(request, form))

        return endpoint

    @contextmanager
    def _alone(self, place: str) -> Iterator[None]:
        if not self._editing[place].acquire(timeout=ANSWER_S):
            raise busy("the dry run or edit before this one has not ended")
        try:
            yield
        finally:
            self._editing[place].release()

    def _source(self, request: Request) -> Source:
        source = self._pages.sources.source(key_of(request))
        if source is None:
            raise MissingStateError("there is no such source", remedy="begin at the overview")
        return source
