"""The layout of a JSON line: its names and punctuation, which lines from one program share.

What lives here: layouts, and learning a layout from a line. What must not live here: columns, and code
that looks at more than one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from flip27_source.readers.json_lines.strings import MAX_NAME_CHARS
from flip27_source.readers.json_lines.tokens import MAX_DEPTH

Path: TypeAlias = "tuple[str, ...]"

_NAME_END = re.compile(rb'":')
"""Follows every name; it also matches a text that starts with a colon, and then no layout is learnt."""
_VALUE = re.compile(rb'": *("[^"]*"|[^",{}\[\] ]+)')
_ESCAPE = re.compile(rb"\\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A value, which differs from line to line.

    Attributes:
        path: the names that lead to the value.
        kind: the type to read the value as. The quotes around a string belong to the literals.
        name: the index of the value's name in the line.
        after_name: bytes from the end of the name, its closing quote, to the value.
        before_next: bytes from the value to the end of the next name; 0 for the last value.
    """

    path: Path
    kind: pa.DataType
    name: int
    after_name: int
    before_next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The common part of lines: all except their scalars.

    Attributes:
        literals: the bytes before, between and after the scalars, including the newline.
        scalars: one or more.
        first_name_end: the position in the line where the first name ends.
        names: the number of names, including those of objects.
    """

    literals: tuple[bytes, ...]
    scalars: tuple[Scalar, ...]
    first_name_end: int
    names: int


def types_of_paths(schema: pa.Schema) -> dict[Path, pa.DataType]:
    """The type of every field of ``schema``, and of every field of its structs."""
    types: dict[Path, pa.DataType] = {}

    def add(field: pa.Field, parent: Path) -> None:
        path = (*parent, field.name)
        types[path] = field.type
        if pt.is_struct(field.type):
            for number in range(field.type.num_fields):
                add(field.type.field(number), path)

    for field in schema:
        add(field, ())
    return types


def layout_of(line: bytes, types: Mapping[Path, pa.DataType]) -> Layout | None:
    """The layout of ``line``, which has no newline.

    None if the line is not a valid object, or has a part that layouts do not cover: an array, an empty
    object, a name with escapes, a duplicate name, or an object where ``types`` has a scalar or vice versa.
    """
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return None
    if len(line) > MAX_NAME_CHARS or line.count(b"{") > MAX_DEPTH:
        return None
    plain = _ESCAPE.sub(b"..", line)
    name_ends = [match.start() for match in _NAME_END.finditer(plain)]
    try:
        fields = list(_in_order(json.loads(line, object_pairs_hook=_Members, parse_constant=_refuse), ()))
        names = [b'"' + path[-1].encode() for path, _ in fields]
        if not all(plain.endswith(name, 0, end) for name, end in zip(names, name_ends, strict=True)):
            return None
    except (ValueError, RecursionError):  # not an object, or the number of name ends is wrong
        return None
    return _cut(plain, fields, name_ends, types)


class _Members(list[tuple[str, Any]]):
    """The names and values of an object, in line order."""


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _in_order(members: _Members, parent: Path) -> Iterator[tuple[Path, Any]]:
    """The path and the value of every name, in line order."""
    if not members or len(dict(members)) < len(members):
        raise ValueError("an empty object, or a duplicate name")
    for name, value in members:
        path = (*parent, name)
        yield path, value
        if isinstance(value, _Members):
            yield from _in_order(value, path)
        elif isinstance(value, list):
            raise ValueError("an array")


def _cut(
    line: bytes, fields: list[tuple[Path, Any]], name_ends: list[int], types: Mapping[Path, pa.DataType]
) -> Layout | None:
    literals: list[bytes] = []
    scalars: list[Scalar] = []
    literal, position = b"", 0
    for number, (path, value) in enumerate(fields):
        kind = types.get(path)
        if isinstance(value, _Members):
            if kind is not None and not pt.is_struct(kind):
                return None
            continue
        if kind is None:
            kind = _kind_of_unknown(value)
        is_text = pt.is_string(kind)
        if pt.is_nested(kind) or (is_text and not isinstance(value, str | None)):
            return None
        match = _VALUE.match(line, name_ends[number])
        if match is None:
            return None
        start, end = match.span(1)
        quote = b'"' if is_text else b""
        literals.append(literal + line[position:start] + quote)
        literal, position = quote, end
        inner_start, inner_end = start + len(quote), end - len(quote)  # "ul" of null
        scalars.append(
            Scalar(
                path=path,
                kind=kind,
                name=number,
                after_name=inner_start - name_ends[number],
                before_next=name_ends[number + 1] - inner_end if number + 1 < len(fields) else 0,
            )
        )
    literals.append(literal + line[position:] + b"\n")
    return Layout(
        literals=tuple(literals), scalars=tuple(scalars), first_name_end=name_ends[0], names=len(fields)
    )


def _kind_of_unknown(value: Any) -> pa.DataType:
    """The type for a value without a column; the value only has to be valid."""
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, bool):
        return pa.bool_()
    return pa.null() if value is None else pa.float64()
