"""Converts columns in Spark's DDL, ``id bigint, tags array<string>``, to Arrow schemas and back.

Only column types, no tables. Pure: no pyspark, no I/O.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

import pyarrow as pa
from pyarrow import types

_SIMPLE = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(), "byte": pa.int8(),
    "smallint": pa.int16(), "short": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(),
    "bigint": pa.int64(), "long": pa.int64(),
    "float": pa.float32(), "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}  # fmt: skip
_DECIMALS = ("decimal", "dec", "numeric")
_TEXTS = ("varchar", "char")
_NESTED = ("array", "map", "struct")
_OF_SPARK = {
    "variant", "interval", "geometry", "geography", "time", "character",
    "collate", "default", "generated",
}  # fmt: skip
_NAMES = {kind: name for name, kind in reversed(_SIMPLE.items())}
_TOKEN = re.compile(
    r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([^\s`'\",:<>()]+)|(\S))"
)
_NAME = re.compile(r"[^,:<>()'\"].*", re.DOTALL)
_NAME_IN_SPARK = re.compile(r"`.*`|\w*[^\W\d]\w*", re.ASCII | re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SparkOnlyError(ValueError):
    """The text may be right, but it has a word that only Spark's own parser knows."""


def parse_columns(ddl: str, *, as_spark: bool = False) -> pa.Schema:
    """The columns of a DDL text; columns are nullable unless they say NOT NULL.

    Args:
        as_spark: refuse names such as ``a.b`` and ``a-b`` without backquotes, as Spark's parser does. Options
            of sources may have them: ``a.b`` in hints is a path.

    Raises:
        SparkOnlyError: only Spark's parser can tell.
        ValueError: the text is not a list of columns; the message says where, and what is expected.
    """
    parser = _Parser(ddl, _NAME_IN_SPARK if as_spark else _NAME)
    fields = list(parser.fields(closed_by=""))
    if not fields:
        parser.fail("a column")
    for name, times in Counter(field.name.lower() for field in fields).items():
        if times > 1:
            raise ValueError(f"the column {name} is duplicated")
    return pa.schema(fields)


def type_name(kind: pa.DataType) -> str:
    """The name of a type.

    Raises:
        ValueError: Spark has no such type.
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return "struct<" + ", ".join(f"{_quoted(f.name)}: {type_name(f.type)}" for f in fields) + ">"
    if types.is_map(kind):
        return f"map<{type_name(kind.key_type)}, {type_name(kind.item_type)}>"
    if types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    raise ValueError(f"Spark has no type for {kind}")


def columns_text(schema: pa.Schema) -> str:
    return ", ".join(f"{_quoted(field.name)} {type_name(field.type)}" for field in schema)


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


class _Parser:
    """A parser with one token of lookahead; an empty token is the end."""

    def __init__(self, text: str, name: re.Pattern[str]) -> None:
        self._text = text
        self._name_form = name
        self._next_at = self._at = 0
        self._token: str = ""
        self._step()

    def fields(self, closed_by: str) -> Iterator[pa.Field]:
        """``name type``, or ``name: type``, separated by commas."""
        while self._token != closed_by:
            name = self._name()
            if self._token == ":":
                self._step()
            yield pa.field(name, self._type(), nullable=not self._taken("not", "null"))
            if self._taken("comment"):
                self._step()
            if self._token != closed_by:
                self._expect(",")
                if self._token == closed_by:
                    self.fail("a column")

    def fail(self, expected: str) -> NoReturn:
        """Raise a ValueError that says what is expected instead of the current token."""
        instead = repr(self._token) if self._token else "the end"
        of_spark = self._token.lower() in _OF_SPARK or self._token.startswith(("--", "/*"))
        kind = SparkOnlyError if of_spark else ValueError
        raise kind(
            f"{expected} is expected at character {self._at} instead of {instead}; columns are written as in "
            "id bigint, tags array<string>"
        )

    def _type(self) -> pa.DataType:
        word = self._token.lower()
        if word not in _SIMPLE and word not in (*_DECIMALS, *_TEXTS, *_NESTED):
            self.fail("a type such as bigint or string")
        self._step()
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word in _DECIMALS:
            precision, scale = self._numbers(10, 0)
            if not (0 < precision <= 38 and scale <= precision):
                self.fail("a precision up to 38 and a scale up to the precision")
            return pa.decimal128(precision, scale)
        if word in _TEXTS:
            self._numbers(0, 0)
            return pa.string()
        self._expect("<")
        kind = self._nested(word)
        self._expect(">")
        return kind

    def _nested(self, word: str) -> pa.DataType:
        if word == "array":
            return pa.list_(self._type())
        if word == "map":
            key = self._type()
            self._expect(",")
            return pa.map_(key, self._type())
        return pa.struct(list(self.fields(closed_by=">")))

    def _numbers(self, first: int, second: int) -> tuple[int, int]:
        if self._token != "(":
            return first, second
        self._step()
        first = self._number()
        if self._token == ",":
            self._step()
            second = self._number()
        self._expect(")")
        return first, second

    def _number(self) -> int:
        if not self._token.isdecimal():
            self.fail("a whole number")
        number = int(self._token)
        self._step()
        return number

    def _name(self) -> str:
        token = self._token
        if not self._name_form.fullmatch(token):
            quoted = f" (`{token}` in backquotes)" if _NAME.fullmatch(token) else ""
            self.fail(f"the name of a column{quoted}")
        self._step()
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def _taken(self, *words: str) -> bool:
        for word in words:
            if self._token.lower() != word:
                if word != words[0]:
                    self.fail(word.upper())
                return False
            self._step()
        return True

    def _expect(self, token: str) -> None:
        if self._token != token:
            self.fail(repr(token))
        self._step()

    def _step(self) -> None:
        match = _TOKEN.match(self._text, self._next_at)
        self._token = "" if match is None else match[match.lastindex or 0]
        self._at = len(self._text) if match is None else match.start(match.lastindex or 0)
        self._next_at = len(self._text) if match is None else match.end()
