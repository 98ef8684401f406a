"""The runbook as a page: docs/troubleshooting.md, which the wheel contains, with a section for each error."""

from __future__ import annotations

import functools
import itertools
import re

from markdown_it import MarkdownIt
from markupsafe import Markup

from .pages import HERE


@functools.cache
def runbook() -> Markup:
    """Its HTML. Links to other pages of the documentation, which are not here, become texts."""
    markdown = MarkdownIt("js-default")
    tokens = markdown.parse((HERE / "troubleshooting.md").read_text(encoding="utf-8"))
    for token, following in itertools.pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", re.sub(r"\W+", "-", following.content.lower()).strip("-"))
        for part in token.children or ():
            if not str(part.attrs.get("href", "#")).startswith("#"):
                del part.attrs["href"]
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))
