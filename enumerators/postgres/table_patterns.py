"""Names of tables and patterns of names, as the option ``tables`` has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# schema.name, each part bare (folded to lower case, * is any text) or quoted (taken literally). A minus in
# front leaves tables out.
_PART = r'(?:(?!-)[^\s".,]+|"(?:[^"]|"")+")'
_NAME = re.compile(rf"\s*(-\s*)?(?:({_PART})\s*\.\s*)?({_PART})\s*")
_EXPECTED = (
    'names such as public.orders, public.* or public."Orders" are expected, and -public.log_* for tables to '
    "leave out"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePattern:
    """Tables of one schema or several.

    Attributes:
        schema, name: regular expressions that match the whole name.
        text: the pattern as the user wrote it.
        is_name: whether it names one table, which must exist.
        leaves_out: whether the option leaves these tables out.
    """

    schema: str
    name: str
    text: str
    is_name: bool
    leaves_out: bool = False

    def matches(self, schema: str, name: str) -> bool:
        return re.fullmatch(self.schema, schema) is not None and re.fullmatch(self.name, name) is not None


def table_patterns(value: str) -> tuple[TablePattern, ...]:
    """The patterns in a list separated by commas."""
    patterns = []
    at = 0
    while at <= len(value):
        match = _NAME.match(value, at)
        if match is None or (match.end() < len(value) and value[match.end()] != ","):
            raise ValueError(_EXPECTED)
        schema, name = match[2] or "public", match[3]
        patterns.append(
            TablePattern(
                schema=_expression(schema),
                name=_expression(name),
                text=match[0].strip(),
                is_name=match[1] is None and "*" not in _bare(schema) + _bare(name),
                leaves_out=match[1] is not None,
            )
        )
        at = match.end() + 1
    if all(pattern.leaves_out for pattern in patterns):
        raise ValueError(_EXPECTED)
    return tuple(patterns)


def matched(patterns: Iterable[TablePattern], schema: str, name: str) -> bool:
    """Whether the table is named, and not left out."""
    return {pattern.leaves_out for pattern in patterns if pattern.matches(schema, name)} == {False}


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
