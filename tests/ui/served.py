"""The page of ``flip27 ui``, served on this machine, with a clock that tests may set."""

from __future__ import annotations

import datetime as dt
import http.client
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flip27_source.cli.state.rows import Place
from flip27_source.cli.ui.pages import Pages
from flip27_source.cli.ui.server import application, bound, serving
from flip27_source.cli.ui.sources import Sources


def as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(slots=True)
class Clock:
    """The time of the page: goes on by two seconds with each look, so that no look is that of before."""

    at: dt.datetime = field(default_factory=lambda: dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC))

    def __call__(self) -> dt.datetime:
        self.at += dt.timedelta(seconds=2)
        return self.at


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str = "/", **headers: str) -> Answer:
        return self.ask("GET", path, headers)

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: str | None = None) -> Answer:
        """The answer to a request; in names of headers ``_`` stands for ``-``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Answer(status=answer.status, headers=dict(answer.headers), text=text)


def pages_of(
    places: Sequence[Path | Place],
    hide: Callable[[str], str] = as_it_is,
    *,
    looks_with: Mapping[str, str] | None = None,
) -> Pages:
    given = [at if isinstance(at, Place) else Place(location=str(at)) for at in places]
    return Pages(Sources(given), hide, 1.0, looks_with=looks_with)


@contextmanager
def served(
    pages: Pages,
    *,
    token: str | None = None,
    now: Callable[[], dt.datetime] | None = None,
    allow_edits: bool = False,
) -> Iterator[Served]:
    """Serve these pages on a thread."""
    app = application(pages, token, now or Clock(), allow_edits=allow_edits)
    with bound("127.0.0.1", 0) as listening, serving(app, listening):
        yield Served(port=listening.getsockname()[1])
