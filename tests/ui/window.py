"""A page in the browser of the tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Window:
    """A page in the browser, and what went wrong in it: dialogs, errors, and what its policy has blocked."""

    page: Any
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(30_000)
        self.page.on(
            "dialog", lambda dialog: (self.wrong.append(f"dialog {dialog.message}"), dialog.dismiss())
        )
        self.page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        self.page.on("console", lambda said: said.type == "error" and self.wrong.append(said.text))

    def waits_for(self, text: str | re.Pattern[str]) -> None:
        self.page.get_by_text(text).first.wait_for()
