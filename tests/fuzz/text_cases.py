"""Random files of text."""

from __future__ import annotations

import random

from .case import Case, LineFile
from .line_cases import files_of_a_case, random_cuts, random_end, random_packing
from .texts import Flavour, damaged, text_of

_ODD = (
    b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\x00\n\x00", b"\xef\xbb\xbf", b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\x0b", b"\x0c", b"\x1c", b"\r\r\n", b"\n\r", b"a" * 3000, b"",
)  # fmt: skip
_SEPARATORS = (";", "\r", "\n", "\r\n", "||", "a", "\u00e9", "aa", "\u2028", "\x00")


def text_case(rng: random.Random, name: str) -> Case:
    """Make a random case."""
    options: dict[str, str] = {}
    if rng.random() < 0.25:
        options["lineSep"] = rng.choice(_SEPARATORS)
    if rng.random() < 0.15:
        options["wholetext"] = "true"
    if rng.random() < 0.02:
        options["encoding"] = rng.choice(("UTF-8", "ISO-8859-1"))
    oddness = rng.choice((0.0, 0.05, 0.3))
    files = tuple(_file(rng, number, options, oddness) for number in range(files_of_a_case(rng)))
    return Case(
        format="text", name=name, files=files, columns=((rng.choice(("value", "line", "v w")), "string"),),
        options=options, cuts=random_cuts(rng),
    )  # fmt: skip


def _file(rng: random.Random, number: int, options: dict[str, str], oddness: float) -> LineFile:
    own = options.get("lineSep", "\n").encode()
    end = own if rng.random() < 0.7 else random_end(rng)
    pieces = []
    for _ in range(rng.choice((0, 1, 2, 5, 12, 30))):
        text = text_of(rng, rng.choice(("string", "int", "timestamp")), Flavour(limit=0.3, odd=0.3))
        if rng.random() < oddness:
            text = damaged(rng, text)
        line = rng.choice(_ODD) if rng.random() < oddness else text.encode("utf-8", "replace")
        pieces.append(line + (random_end(rng) if rng.random() < oddness else end))
    if pieces and rng.random() < 0.3:
        pieces[-1] = pieces[-1].removesuffix(end)
    if rng.random() < 0.05:
        pieces.insert(0, b"\xef\xbb\xbf")
    return LineFile(path=f"f{number}.txt{random_packing(rng)}", pieces=tuple(pieces))
