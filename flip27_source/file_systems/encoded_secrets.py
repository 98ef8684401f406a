"""EncodedSecrets: finds secrets in texts, however URLs, markup, JSON and quotations have encoded these. Pure.

A text is read as it is, and as each encoding that may be in it says: libraries differ in which characters
they escape, so the encoded forms of a secret cannot be listed.
"""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

_DEPTH = 3
"""How many encodings may be within each other, such as JSON in JSON in a URL."""
_LONG = 8
"""From this length on, forms count that are like other words if they are short."""
_OF_LETTERS = dict(zip("abfnrtv0", "\a\b\f\n\r\t\v\0", strict=True))


class EncodedSecrets:
    """Secrets of at least ``shortest`` characters.

    Attributes:
        forms: what is looked for, longest first.
    """

    def __init__(self, secrets: Iterable[str], *, shortest: int) -> None:
        given = {text for secret in secrets for text in (secret, secret.strip()) if len(text) >= shortest}
        self.forms = sorted({form for text in given for form in _forms(text)}, key=len, reverse=True)

    def masked(self, text: str) -> str:
        """The text with ``***`` in place of each secret."""
        ends: dict[int, int] = {}
        for start, end in self._found(text):
            ends[start] = max(end, ends.get(start, 0))
        parts, shown_to = [], 0
        for start, end in sorted(ends.items()):
            if start >= shown_to:
                parts += [text[shown_to:start], "***"]
            shown_to = max(shown_to, end)
        return "".join([*parts, text[shown_to:]])

    def are_in(self, text: str) -> bool:
        return next(self._found(text), None) is not None

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        """Where secrets begin and end."""
        if not self.forms:
            return
        for read, at in _readings(text):
            for form in self.forms:
                start = read.find(form)
                while start >= 0:
                    yield at[start], at[start + len(form)]
                    start = read.find(form, start + 1)


def _forms(secret: str) -> set[str]:
    """A secret as it is, in other forms of Unicode, in base64 and in hex."""
    data = secret.encode(errors="replace")
    forms = {secret, secret.replace(" ", "+"), data.decode("latin-1")}
    forms |= {unicodedata.normalize(form, secret) for form in ("NFC", "NFD")}
    if len(data) >= _LONG:
        forms |= {secret.lower(), secret.upper()}
        for encoded in (data.hex(), data.hex(" "), data.hex(":")):
            forms |= {encoded, encoded.upper()}
        # In longer data; what depends on the data before and after it is left out.
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + data).decode()
            part = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
            forms |= {part, part.replace("+", "-").replace("/", "_")}
    return forms


def _readings(text: str) -> Iterator[tuple[str, Sequence[int]]]:
    """The text as encodings say, each with where its characters begin in the given text."""
    level: list[tuple[str, Sequence[int]]] = [(text, range(len(text) + 1))]
    seen = set()
    yield from level
    for _ in range(_DEPTH):
        further: list[tuple[str, Sequence[int]]] = []
        for read, at in level:
            for mark, pattern, decode in _ENCODINGS:
                if mark in read:
                    decoded, starts = _decoded(read, pattern, decode)
                    places = [at[start] for start in starts]
                    # Encodings in another order may say the same, of longer parts of the text.
                    reading = (decoded, hash(tuple(places)))
                    if decoded != read and reading not in seen:
                        seen.add(reading)
                        further.append((decoded, places))
        yield from further
        level = further


def _decoded(
    text: str, pattern: re.Pattern[str], decode: Callable[[str], Iterator[tuple[str, int]]]
) -> tuple[str, list[int]]:
    parts: list[str] = []
    starts: list[int] = []
    read_to = 0
    for found in pattern.finditer(text):
        parts.append(text[read_to : found.start()])
        starts += range(read_to, read_to := found.start())
        for char, length in decode(found[0]):
            parts.append(char)
            starts.append(read_to)
            read_to += length
        read_to = found.end()
    return "".join([*parts, text[read_to:]]), [*starts, *range(read_to, len(text) + 1)]


def _of_percents(escapes: str) -> Iterator[tuple[str, int]]:
    data = bytes.fromhex(escapes.replace("%", ""))
    try:
        chars = data.decode()
    except UnicodeDecodeError:
        return zip(data.decode("latin-1"), [3] * len(data), strict=True)
    return ((char, 3 * len(char.encode())) for char in chars)


def _of_markup(entity: str) -> Iterator[tuple[str, int]]:
    char = html.unescape(entity)
    # Some, such as &#1;, stand for nothing.
    return ((char, 1) for char in entity) if char == entity else ((one, len(entity)) for one in char[:1])


def _of_backslash(escape: str) -> Iterator[tuple[str, int]]:
    letter, code = escape[1], escape[2:]
    if "\\" in code:  # JSON's for a character above U+FFFF
        char = bytes.fromhex(code.replace("\\u", "")).decode("utf-16-be")
    else:
        char = chr(int(code, 16)) if code else _OF_LETTERS.get(letter, letter)
    return iter([(char, len(escape))])


_AFTER_BACKSLASH = (
    "u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}"
    "|U000[0-9a-fA-F]{5}|."
)
_ENCODINGS = (
    ("%", re.compile("(?:%[0-9A-Fa-f]{2})+"), _of_percents),
    ("&", re.compile("&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});"), _of_markup),
    ("\\", re.compile(rf"\\(?:{_AFTER_BACKSLASH})", re.DOTALL), _of_backslash),
)
