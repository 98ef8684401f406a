"""Random files of CSV, and schemas and options for them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .case import Case, LineFile
from .line_cases import OPTIONS_OF_TEXTS, line_case, random_line_file
from .texts import FLAVOURS, Flavour, damaged, random_type, text_of

_OPTIONS: Mapping[str, Sequence[str]] = {
    **OPTIONS_OF_TEXTS,
    "sep": (";", "\t", "|", " ", "\\t", ":", "a"),
    "quote": ("'", "", "|", "\x00"),
    "escape": ('"', "'", "\\", "", "^"),
    "nullValue": ("NULL", "-", "0", "null", " ", "a"),
    "emptyValue": ("EMPTY", "0", "\u0000"),
    "comment": ("#", ";", "0", "-", '"'),
    "encoding": ("UTF-8", "ISO-8859-1", "US-ASCII"),
    "ignoreLeadingWhiteSpace": ("true",),
    "ignoreTrailingWhiteSpace": ("true",),
    "nanValue": ("nan", "0", "NULL"),
    "positiveInf": ("inf", "max"),
    "negativeInf": ("-inf", "min", "nan"),
    "unescapedQuoteHandling": (
        "STOP_AT_DELIMITER", "STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "SKIP_VALUE", "RAISE_ERROR",
    ),
    "charToEscapeQuoteEscaping": ("\\", '"', "^"),
    "enforceSchema": ("true", "false"),
    "preferDate": ("false",),
}  # fmt: skip
_SELDOM = (
    ("sep", "||"), ("encoding", "UTF-16"), ("encoding", "windows-1252"), ("lineSep", ";"), ("lineSep",
    "\r\n"),
    ("timestampFormat", "yyyy-MM-dd HH:mm:ss VV"), ("locale", "de-DE"),
    ("maxColumns", "3"), ("maxCharsPerColumn", "5"), ("locale", "en-US"), ("maxColumns", "20480"),
)  # fmt: skip
"""Options of Spark's reader that ours mostly refuses."""
_ODD_LINES = (
    b"", b"", b" ", b"\t", b"\x00", b"\x01\x02", b"\xc2\xa0", b'"', b'""', b'"""', b",", b",,,,,,,,", b"#",
    b"# a,b",
    b'"open', b'a"b', b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xef\xbb\xbf",
    b"\xef\xbb\xbf1",
    b'"a\nb"', b'"a""b"', b'"a\\"b"', b"'a'", b"a" * 5000, b"\\", b'\\"', b'"\\', b'"\\\\"',
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Writing:
    """How the lines of a case are written."""

    sep: str
    quote: str
    escape: str
    encoding: str
    quoting: float
    oddness: float


def csv_case(rng: random.Random, name: str) -> Case:
    """Make a random case."""
    columns = [(f"c{number}", random_type(rng)) for number in range(rng.choice((1, 2, 2, 3, 3, 4, 5, 8)))]
    options = _random_options(rng)
    writing = _writing(rng, options)
    if rng.random() < 0.4:
        options["header"] = "true"
    return line_case(
        rng, "csv", name, columns, options,
        file=lambda number: _file(rng, number, columns, writing, options),
        inference=lambda: {"inferSchema": rng.choice(("true", "true", "false"))},
    )  # fmt: skip


def _random_options(rng: random.Random) -> dict[str, str]:
    count = rng.choice((0, 0, 1, 1, 2, 3, 5))
    options = {name: rng.choice(_OPTIONS[name]) for name in rng.sample(sorted(_OPTIONS), count)}
    if rng.random() < 0.02:
        options |= [rng.choice(_SELDOM)]
    return options


def _writing(rng: random.Random, options: Mapping[str, str]) -> _Writing:
    sep = options.get("sep", ",")
    return _Writing(
        sep="\t" if sep == "\\t" else sep,
        quote=options.get("quote", '"'),
        escape=options.get("escape", "\\"),
        encoding=options.get("encoding", "UTF-8"),
        quoting=rng.choice((0.0, 0.0, 0.1, 0.5, 1.0)),
        oddness=rng.choice((0.0, 0.0, 0.05, 0.3)),
    )


def _file(
    rng: random.Random,
    number: int,
    columns: Sequence[tuple[str, str]],
    writing: _Writing,
    options: Mapping[str, str],
) -> LineFile:
    flavours = [rng.choice(FLAVOURS) for _ in columns]
    rows = rng.choice((0, 1, 1, 2, 3, 5, 8, 12, 20))
    lines = [_line(rng, columns, flavours, writing) for _ in range(rows)]
    if options.get("header") == "true" and rng.random() < 0.95:
        header = writing.sep.join(name for name, _ in columns)
        lines.insert(0, _encoded(damaged(rng, header) if rng.random() < 0.03 else header, writing.encoding))
    return random_line_file(rng, f"f{number}.csv", lines, writing.oddness)


def _line(
    rng: random.Random, columns: Sequence[tuple[str, str]], flavours: Sequence[Flavour], writing: _Writing
) -> bytes:
    if rng.random() < writing.oddness / 2:
        return rng.choice(_ODD_LINES)
    fields = [
        _field(rng, text_of(rng, kind, flavour), writing)
        for (_, kind), flavour in zip(columns, flavours, strict=True)
    ]
    if rng.random() < writing.oddness:
        fields = fields[: rng.randint(0, len(fields))] + ["x"] * rng.choice((0, 0, 1, 2))
    return _encoded(writing.sep.join(fields), writing.encoding)


def _field(rng: random.Random, text: str, writing: _Writing) -> str:
    quote = writing.quote
    if rng.random() < 0.04:
        text = ""
    must = any(char and char in text for char in (writing.sep, quote, "\n", "\r"))
    if not quote or (rng.random() >= writing.quoting and not (must and rng.random() < 0.7)):
        return text
    if rng.random() < 0.9:
        text = text.replace(quote, writing.escape + quote)
    elif rng.random() < 0.5:
        text = damaged(rng, text) + rng.choice((quote, writing.escape, "\n", quote + writing.sep, ""))
    blank = rng.choice((" ", "x", quote)) if rng.random() < writing.oddness / 4 else ""
    return rng.choice((f"{quote}{text}{quote}{blank}", f"{blank}{quote}{text}{quote}"))


def _encoded(text: str, encoding: str) -> bytes:
    return text.encode(encoding if encoding in ("ISO-8859-1", "US-ASCII") else "UTF-8", "replace")
