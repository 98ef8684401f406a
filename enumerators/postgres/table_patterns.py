"""Names of tables and patterns of names, as the option ``tables`` has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# schema.name, each part bare (folded to lower case, * is any text) or quoted (taken literally).
_PART = r'(?:[^\s".,]+|"(?:[^"]|"")+")'
_NAME = re.compile(rf"\s*(?:({_PART})\s*\.\s*)?({_PART})\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePattern:
    """Tables of one schema or several.

    Attributes:
        schema, name: regular expressions that match the whole name.
        text: the pattern as the user wrote it.
        is_name: whether it names one table.
    """

    schema: str
    name: str
    text: str
    is_name: bool

    def matches(self, schema: str, name: str) -> bool:
        return re.fullmatch(self.schema, schema) is not None and re.fullmatch(self.name, name) is not None


def table_patterns(value: str) -> tuple[TablePattern, ...]:
    """The patterns in a list separated by commas."""
    patterns = []
    at = 0
    while at <= len(value):
        match = _NAME.match(value, at)
        if match is None or (match.end() < len(value) and value[match.end()] != ","):
            raise ValueError('names such as public.orders, public.* or public."Orders" are expected')
        schema, name = match[1] or "public", match[2]
        patterns.append(
            TablePattern(
                schema=_expression(schema),
                name=_expression(name),
                text=match[0].strip(),
                is_name="*" not in _bare(schema) + _bare(name),
            )
        )
        at = match.end() + 1
    return tuple(patterns)


def matched(patterns: Iterable[TablePattern], schema: str, name: str) -> bool:
    return any(pattern.matches(schema, name) for pattern in patterns)


def quoted(*names: str) -> str:
    """A name, with its schema in front if there is one, as SQL."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def quoted_with_parameters(*names: str) -> str:
    """A name for SQL with parameters, in which psycopg takes % for the start of a placeholder."""
    return with_parameters(quoted(*names))


def with_parameters(sql: str) -> str:
    """SQL without parameters, as a part of SQL with parameters."""
    return sql.replace("%", "%%")


def _expression(part: str) -> str:
    if part.startswith('"'):
        return re.escape(part[1:-1].replace('""', '"'))
    return ".*".join(map(re.escape, part.lower().split("*")))


def _bare(part: str) -> str:
    return "" if part.startswith('"') else part
