"""Names of tables and patterns of names, as the option ``tables`` of a database has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePattern:
    """Tables of one schema or several.

    Attributes:
        schema, name: regular expressions that match the whole name. The schema is None if the user gives
            none, and the connection has one.
        text: the pattern as the user wrote it.
        is_name: whether it names one table, which must exist.
        leaves_out: whether the option leaves these tables out.
        ignores_case: whether names that differ only in the case of their letters are the same.
    """

    schema: str | None
    name: str
    text: str
    is_name: bool
    leaves_out: bool = False
    ignores_case: bool = False

    def compared(self, *, own_schema: str | None, ignores_case: bool) -> TablePattern:
        """The pattern for a server and a connection, whose schema is ``own_schema``."""
        own = None if own_schema is None else re.escape(own_schema)
        return replace(self, schema=self.schema or own, ignores_case=ignores_case)

    def matches(self, schema: str, name: str) -> bool:
        flags = re.IGNORECASE if self.ignores_case else re.NOFLAG
        return self.schema is not None and all(
            re.fullmatch(*pair, flags) for pair in ((self.schema, schema), (self.name, name))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNames:
    """How a database writes names.

    ``schema.name``, each part bare (* is any text) or quoted (taken literally). A minus in front leaves
    tables out.

    Attributes:
        quote: the character around quoted names.
        schema: the schema of names without one; None for that of the connection.
        folds: whether bare names are folded to lower case.
        expected: the text of the error for other values.
    """

    quote: str
    schema: str | None
    folds: bool
    expected: str

    def patterns(self, value: str) -> tuple[TablePattern, ...]:
        """The patterns in a list separated by commas."""
        q = self.quote
        part = rf"(?:(?!-)[^\s{q}.,]+|{q}(?:[^{q}]|{q}{q})+{q})"
        pattern = re.compile(rf"\s*(-\s*)?(?:({part})\s*\.\s*)?({part})\s*")
        patterns = []
        at = 0
        while at <= len(value):
            match = pattern.match(value, at)
            if match is None or (match.end() < len(value) and value[match.end()] != ","):
                raise ValueError(self.expected)
            schema, name = match[2] or self.schema, match[3]
            patterns.append(
                TablePattern(
                    schema=None if schema is None else self._expression(schema),
                    name=self._expression(name),
                    text=match[0].strip(),
                    is_name=match[1] is None and "*" not in self._bare(schema or "") + self._bare(name),
                    leaves_out=match[1] is not None,
                )
            )
            at = match.end() + 1
        if all(pattern.leaves_out for pattern in patterns):
            raise ValueError(self.expected)
        return tuple(patterns)

    def quoted(self, *names: str) -> str:
        """A name, with its schema in front if there is one, as SQL."""
        q = self.quote
        return ".".join(q + name.replace(q, q * 2) + q for name in names)

    def _expression(self, part: str) -> str:
        if part.startswith(self.quote):
            return re.escape(part[1:-1].replace(self.quote * 2, self.quote))
        return ".*".join(map(re.escape, (part.lower() if self.folds else part).split("*")))

    def _bare(self, part: str) -> str:
        return "" if part.startswith(self.quote) else part


def matched(patterns: Sequence[TablePattern], schema: str, name: str) -> bool:
    """Whether the table is named, and not left out."""
    found = {one.leaves_out for one in patterns if one.matches(schema, name)}
    return found == {False}
