"""Random files of JSON lines and documents, and schemas and options for them."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.readers.json_lines.json_documents import LINES, VALUES

from .case import Case, LineFile
from .line_cases import OPTIONS_OF_TEXTS, line_case, random_line_file
from .texts import FLAVOURS, Flavour, damaged, random_type, text_of

_OPTIONS: Mapping[str, Sequence[str]] = {
    **OPTIONS_OF_TEXTS,
    "allowComments": ("true",),
    "allowUnquotedFieldNames": ("true",),
    "allowSingleQuotes": ("false",),
    "allowNumericLeadingZeros": ("true",),
    "allowNonNumericNumbers": ("false",),
    "allowBackslashEscapingAnyCharacter": ("true",),
    "allowUnquotedControlChars": ("true",),
}
_OF_INFERENCE = ("primitivesAsString", "prefersDecimal", "inferTimestamp", "dropFieldIfAllNull")
_SELDOM = (
    ("lineSep", ";"), ("encoding", "UTF-16"), ("locale", "de-DE"), ("locale", "en-US"), ("samplingRatio",
    "1.0"),
)  # fmt: skip
_NAMES = ("k", "s", "d", "\u00e9", "a.b", "K2", "with blank", "0")
_UNKNOWN = ("u", "zz", "", "\u0130", "\ud800", "n" * 300)
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_PIECES = (
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b" ", b"1", b"-", b".", b"e", b"x", b"\x00", b"\x01",
    b"'",
    b"null", b"tru", b"\\u00", b"N", b"+", b"\\ud800", b"/", b"//", b"\t", b"\xff", b"\xc3", b"#",
    b"\xef\xbb\xbf",
)  # fmt: skip
_DEPTHS = (20, 499, 500, 501, 998, 999, 1000, 1001, 1500, 5000)


@dataclass(frozen=True, slots=True)
class _Writing:
    """How the lines of a case are written, and how odd they are."""

    names: float
    lines: float
    escaped: bool
    separators: tuple[str, str]


def json_case(rng: random.Random, name: str) -> Case:
    """Make a random case."""
    names = rng.sample(_NAMES, rng.choice((1, 2, 2, 3, 4, 6)))
    columns = [(column, _random_kind(rng, rng.choice((0, 0, 0, 1, 1, 2, 3)))) for column in names]
    options = {
        option: rng.choice(_OPTIONS[option])
        for option in rng.sample(sorted(_OPTIONS), rng.choice((0, 0, 1, 1, 2, 4)))
    }
    if rng.random() < 0.02:
        options |= [rng.choice(_SELDOM)]
    writing = _Writing(
        names=rng.choice((0.0, 0.0, 0.05, 0.3)),
        lines=rng.choice((0.0, 0.0, 0.02, 0.2)),
        escaped=rng.random() < 0.3,
        separators=rng.choice(((",", ":"), (",", ":"), (", ", ": "), (" , ", "\t:"))),
    )
    return line_case(
        rng, "json", name, columns, options,
        file=lambda number: _file(rng, number, columns, writing, "multiLine" in options),
        inference=lambda: {option: "true" for option in _OF_INFERENCE if rng.random() < 0.2},
    )  # fmt: skip


def _random_kind(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return random_type(rng)
    inner = _random_kind(rng, depth - 1)
    match rng.choice("struct struct array map".split()):
        case "array":
            return f"array<{inner}>"
        case "map":
            return f"map<string,{inner}>"
    return f"struct<x:{inner},y:{_random_kind(rng, 0)}>" if rng.random() < 0.6 else f"struct<x:{inner}>"


def _file(
    rng: random.Random, number: int, columns: Sequence[tuple[str, str]], writing: _Writing, is_document: bool
) -> LineFile:
    flavours = [rng.choice(FLAVOURS) for _ in columns]
    order = rng.sample(range(len(columns)), len(columns))
    lines = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 8, 12))):
        if rng.random() < 0.1:
            rng.shuffle(order)
        lines.append(_line(rng, [columns[at] for at in order], [flavours[at] for at in order], writing))
    if is_document:
        joiner = rng.choice((b"\n", b",\n", b" "))
        body = joiner.join(lines)
        lines = [rng.choice((body, b"[" + b",".join(lines) + b"]", lines[0] if lines else b""))]
    return random_line_file(rng, f"f{number}.json", lines, writing.lines)


def _line(
    rng: random.Random, columns: Sequence[tuple[str, str]], flavours: Sequence[Flavour], writing: _Writing
) -> bytes:
    dice = rng.random()
    if dice < writing.lines / 3:
        return rng.choice(LINES)
    if dice < writing.lines / 3 + 0.002:
        return _deep(rng, rng.choice(columns)[0])
    line = _object(rng, columns, flavours, writing)
    if rng.random() < writing.lines / 8:
        line = f"[{line}{rng.choice(('', ', null', ', 1', ', ' + line))}]"
    data = line.encode("utf-8", "surrogatepass")
    for _ in range(rng.choice((1, 1, 2)) if rng.random() < writing.lines else 0):
        at = rng.randint(0, len(data))
        data = data[:at] + rng.choice(_PIECES) + data[at + rng.randint(0, 2) :]
    return data


def _deep(rng: random.Random, name: str) -> bytes:
    depth = rng.choice(_DEPTHS)
    opening, closing = rng.choice(((b"[", b"]"), (b'{"x":', b"}"), (b'[{"x":', b"}]")))
    name = rng.choice((name, "u"))
    return b'{%s:%s1%s,"k":1}' % (
        json.dumps(name).encode(),
        opening * depth,
        closing * rng.choice((depth, depth - 1)),
    )


def _object(
    rng: random.Random, columns: Sequence[tuple[str, str]], flavours: Sequence[Flavour], writing: _Writing
) -> str:
    members = []
    for (name, kind), flavour in zip(columns, flavours, strict=True):
        if rng.random() < writing.names:
            name = rng.choice((name.upper(), name.lower(), rng.choice(_UNKNOWN)))
        members.append((name, _value(rng, kind, flavour, writing)))
        if rng.random() < writing.names / 3:
            members.append((name, _value(rng, kind, flavour, writing)))
    if rng.random() < writing.names:
        del members[rng.randrange(len(members))]
    return _joined(
        "{",
        [f"{_text(rng, name, writing)}{writing.separators[1]}{value}" for name, value in members],
        "}",
        writing,
    )


def _joined(opening: str, items: Sequence[str], closing: str, writing: _Writing) -> str:
    return opening + writing.separators[0].join(items) + closing


def _text(rng: random.Random, text: str, writing: _Writing) -> str:
    if rng.random() < writing.lines / 4:
        return text  # without quotes
    return json.dumps(text, ensure_ascii=writing.escaped)


def _value(rng: random.Random, kind: str, flavour: Flavour, writing: _Writing) -> str:
    if rng.random() < 0.05:
        return "null"
    if rng.random() < flavour.wrong / 3:
        return rng.choice(VALUES).decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()
    if kind.startswith("array<"):
        inner = kind[len("array<") : -1]
        return _joined(
            "[", [_value(rng, inner, flavour, writing) for _ in range(rng.randint(0, 3))], "]", writing
        )
    if kind.startswith("map<"):
        inner = kind[len("map<string,") : -1]
        keys = [rng.choice(("a", "b", "", "\u00e9")) for _ in range(rng.randint(0, 3))]
        return _joined(
            "{", [f"{json.dumps(key)}:{_value(rng, inner, flavour, writing)}" for key in keys], "}", writing
        )
    if kind.startswith("struct<"):
        fields = _fields_of(kind)
        return _object(rng, fields, [flavour] * len(fields), writing) if fields else "{}"
    return _scalar(rng, kind, flavour, writing)


def _fields_of(kind: str) -> list[tuple[str, str]]:
    fields, depth, start = [], 0, 0
    body = kind[len("struct<") : -1]
    for at, char in enumerate(f"{body},"):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            name, _, inner = body[start:at].partition(":")
            fields.append((name, inner))
            start = at + 1
    return fields


def _scalar(rng: random.Random, kind: str, flavour: Flavour, writing: _Writing) -> str:
    text = text_of(rng, kind, flavour)
    is_number = kind in _NUMBERS or kind.startswith("decimal") or kind == "boolean"
    if is_number:
        text = _as_json_has_it(text)
    if is_number != (rng.random() < flavour.odd / 4):
        return text
    if kind == "binary" and rng.random() < 0.9:
        text = base64.b64encode(text.encode("utf-8", "replace")).decode()
        text = damaged(rng, text) if rng.random() < flavour.damaged else text
    return _text(rng, text, writing)


def _as_json_has_it(text: str) -> str:
    """A number, mostly without the leading zeros and signs that JSON does not allow."""
    sign, rest = ("-", text[1:]) if text[:1] == "-" else ("", text)
    whole = rest.lstrip("0")
    return sign + (whole if whole[:1].isdigit() else f"0{whole}" if rest[:1] == "0" else whole) or '""'
