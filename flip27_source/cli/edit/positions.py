"""Positions in splits as users write them: on the command line, and in the forms of ``flip27 ui``."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from flip27_source.edits.moves import Move, Shift
from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.options import integer, maybe_json

from ..commands import instant


def milliseconds(text: str, zone: dt.tzinfo | None = None) -> int:
    """A time, ISO 8601 (as for ``instant``) or milliseconds since 1970; raises ValueError."""
    if text.isascii() and text.isdigit():
        return integer(minimum=0)(text)
    return round(instant(text, zone).timestamp() * 1000)


def fields(text: str) -> dict[str, Any]:
    """Fields of a split as a JSON object; raises ValueError."""
    given = maybe_json(text)
    if not isinstance(given, dict):
        raise ValueError('a JSON object of fields of the split is expected, such as {"next": 500}')
    return given


def move(text: str) -> Move:
    """A position in one text: an offset, +N or -N, earliest, latest, a time (UTC without a zone), or a JSON
    object of fields.

    Raises:
        ValueError: the text has none of these forms.
    """
    text = text.strip()
    if text.startswith("{"):
        return fields(text)
    if text.lower() in ("earliest", "latest"):
        return NamedPosition(word=text.lower())
    if re.fullmatch(r"[+-]\d+", text, re.ASCII):
        return Shift(rows=(-1 if text[0] == "-" else 1) * integer(minimum=0)(text[1:]))
    if re.fullmatch(r"\d+", text, re.ASCII):
        return NamedPosition(offset=integer(minimum=0)(text))
    return NamedPosition(timestamp_ms=milliseconds(text, dt.UTC))
