"""Names of tables and patterns of names, as the option ``tables`` has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# database.name, each part bare (* is any text) or quoted (taken literally). A minus leaves tables out.
_PART = r"(?:(?!-)[^\s`.,]+|`(?:[^`]|``)+`)"
_NAME = re.compile(rf"\s*(-\s*)?(?:({_PART})\s*\.\s*)?({_PART})\s*")
_EXPECTED = (
    "names such as orders, shop.orders, shop.* or shop.`a.b` are expected, and -shop.log_* for tables to "
    "leave out"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePattern:
    """Tables of one database or several.

    Attributes:
        schema, name: regular expressions that match the whole name; the schema is None for the database of
            the connection.
        text: the pattern as the user wrote it.
        is_name: whether it names one table, which must exist.
        leaves_out: whether the option leaves these tables out.
    """

    schema: str | None
    name: str
    text: str
    is_name: bool
    leaves_out: bool = False

    def matches(self, schema: str, name: str, *, database: str | None) -> bool:
        of_schema = schema == database if self.schema is None else re.fullmatch(self.schema, schema)
        return bool(of_schema) and re.fullmatch(self.name, name) is not None


def table_patterns(value: str) -> tuple[TablePattern, ...]:
    """The patterns in a list separated by commas."""
    patterns = []
    at = 0
    while at <= len(value):
        match = _NAME.match(value, at)
        if match is None or (match.end() < len(value) and value[match.end()] != ","):
            raise ValueError(_EXPECTED)
        schema, name = match[2], match[3]
        patterns.append(
            TablePattern(
                schema=None if schema is None else _expression(schema),
                name=_expression(name),
                text=match[0].strip(),
                is_name=match[1] is None and "*" not in _bare(schema or "") + _bare(name),
                leaves_out=match[1] is not None,
            )
        )
        at = match.end() + 1
    if all(pattern.leaves_out for pattern in patterns):
        raise ValueError(_EXPECTED)
    return tuple(patterns)


def matched(patterns: Iterable[TablePattern], schema: str, name: str, *, database: str | None) -> bool:
    """Whether the table is named, and not left out."""
    found = {one.leaves_out for one in patterns if one.matches(schema, name, database=database)}
    return found == {False}


def quoted(*names: str) -> str:
    """A name, with its database in front if there is one, as SQL."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def _expression(part: str) -> str:
    if part.startswith("`"):
        return re.escape(part[1:-1].replace("``", "`"))
    return ".*".join(map(re.escape, part.split("*")))


def _bare(part: str) -> str:
    return "" if part.startswith("`") else part
