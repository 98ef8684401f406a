"""The page of ``flip27 ui`` beside the demo. Knows nothing about the demo's processes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from flip27_source.errors import OptionError
from flip27_source.optional_packages import needed

from ..state.rows import Place
from .folder import DemoFolder

_HOST = "127.0.0.1"
_INTERVAL_S = 1.0
"""How often the open page asks for news: a killed query is back after a few seconds."""


@contextmanager
def opened(port: int) -> Iterator[Callable[[DemoFolder], str]]:
    """Within this block the returned function serves the page of a folder, and returns its address.

    Args:
        port: 0 for any free one. It is taken at once, so that nothing has started if it is in use.

    Raises:
        OptionError: a package of the extra ``ui`` is missing, or the port cannot be used.
    """
    where = "in this environment"
    with needed("starlette", by="flip27 demo --ui", extra="ui", where=where, error_type=OptionError):
        from ..ui.pages import Pages
        from ..ui.server import application, bound, serving
        from ..ui.sources import Sources
    with bound(_HOST, port) as listening, ExitStack() as stack:

        def show(folder: DemoFolder) -> str:
            pages = Pages(Sources([Place(location=str(folder.checkpoint))]), str, _INTERVAL_S)
            app = application(pages, None, lambda: dt.datetime.now(dt.UTC))
            stack.enter_context(serving(app, listening))
            return f"http://{_HOST}:{listening.getsockname()[1]}/"

        yield show
