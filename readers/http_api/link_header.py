"""The Link header of an answer (RFC 8288). Pure.

The parser of the package requests knows one spelling of ``rel``, and is misled by ``;`` and ``,`` in titles.
"""

from __future__ import annotations

import re
from urllib.parse import urldefrag, urljoin

# Possessive, so that the time is linear in the length of a hostile header.
_PARAM = r'[ \t]*+;[ \t]*+([^\s=;,]*+)[ \t]*+(?:=[ \t]*+(?:"((?:[^"\\]|\\.)*+)(?:"|$)[^;,]*+|([^;,]*+)))?+'
_PARAMS = re.compile(_PARAM)
_LINK = re.compile(rf"<([^>]*+)>((?:{_PARAM})*+)\s*+(?:,|$)")
_BETWEEN = re.compile(r"[\s,]*+")


def next_link(header: str, url: str) -> str | None:
    """The target of the first link to the next page after ``url``; None if there is none.

    Raises:
        ValueError: the header is not a list of links.
    """
    at = 0
    while (at := _BETWEEN.match(header, at).end()) < len(header):  # type: ignore[union-attr]
        link = _LINK.match(header, at)
        if link is None:
            raise ValueError(f"the Link header cannot be read: {header[at : at + 200]!r}")
        params: dict[str, str] = {}
        for name, quoted, token in _PARAMS.findall(link[2]):
            params.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or token)
        # With another anchor it is the next page of another resource.
        context = urldefrag(urljoin(url, params.get("anchor", ""))).url
        if "next" in params.get("rel", "").lower().split() and context == urldefrag(url).url:
            return link[1]
        at = link.end()
    return None
