"""Edits on the page without a browser: what forms contain, and what is sent."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from urllib.parse import urlencode

from tests.ui.served import Answer, Served
from tests.ui.test_pages import source_path, text_of


@dataclass(frozen=True, slots=True)
class Editor:
    """Sends the forms of the first source of a site as a browser does."""

    site: Served

    @property
    def path(self) -> str:
        return source_path(self.site)

    @property
    def token(self) -> str:
        return field(self.site.get(f"{self.path}/savepoints").text, "form")

    def post(self, action: str, fields: dict[str, str | list[str]], **headers: str) -> Answer:
        """Send a form; headers replace those of a browser, and ``_`` stands for ``-``."""
        sent = {"Origin": self.site.url, "Content-Type": "application/x-www-form-urlencoded", **headers}
        body = urlencode({"form": self.token, **fields}, doseq=True)
        return self.site.ask("POST", f"{self.path}/{action}", sent, body)

    def sent(self, action: str, **fields: str | list[str]) -> str:
        """Send a form; the URL that it leads to."""
        answer = self.post(action, dict(fields))
        assert answer.status == 303, text_of(answer.text)
        return answer.headers["location"]

    def form(self, operation: str, **query: str) -> str:
        return self.site.get(f"{self.path}/edit?{urlencode({'operation': operation, **query})}").text

    def dry_run(self, operation: str, **fields: str | list[str]) -> DryRun:
        at = self.sent("dry-run", operation=operation, **{"why": "a test", "who": "tester", **fields})
        return DryRun(self, at, self.site.get(at).text)

    def edits(self) -> str:
        return text_of(self.site.get(f"{self.path}/edits").text)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The page that a form for a dry run leads to."""

    editor: Editor
    url: str
    page: str

    @property
    def text(self) -> str:
        return text_of(self.page)

    @property
    def word(self) -> str:
        (word,) = re.findall(r'class="word">([^<]*)<', self.page)
        return html.unescape(word)

    def confirm(self, word: str | None = None) -> str:
        """Confirm it; the URL that this leads to."""
        return self.editor.sent(
            "confirm", id=field(self.page, "id"), word=self.word if word is None else word
        )


def field(page: str, name: str) -> str:
    """The value of a hidden field."""
    value, *_ = re.findall(rf'<input type="hidden" name="{name}" value="([^"]*)"', page)
    return html.unescape(value)


def boxes(page: str) -> list[str]:
    """The values of the boxes that can be ticked."""
    return [
        html.unescape(value) for value in re.findall(r'type="checkbox" name="split" value="([^"]*)"', page)
    ]
