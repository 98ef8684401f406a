"""Finds out what statements in the log do to tables beyond the rows that the log has. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from flip27_source.enumerators.mysql.split import TableName

_QUOTED = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`"
_COMMENTS = re.compile(rf"({_QUOTED})|/\*M?!\d*(.*?)\*/|/\*.*?\*/|--[ \t][^\n]*|\#[^\n]*", re.DOTALL)
"""The server runs what is in a comment with an exclamation mark."""
_NAME = r"(?:`(?:[^`]|``)+`|[^\s`.,;()]+)"
_EMPTIES = re.compile(rf"\s*TRUNCATE\s+(?:TABLE\s+)?(?:({_NAME})\s*\.\s*)?({_NAME})", re.IGNORECASE)
_GOES = re.compile(
    r"\s*(?:DROP\s+TABLE\b|RENAME\s+TABLE\b|CREATE\s+OR\s+REPLACE\s+TABLE\b|ALTER\s+(?:\w+\s+)*?TABLE\b.*"
    r"\b(?:RENAME\s+(?!COLUMN|INDEX|KEY)|(?:TRUNCATE|DROP|EXCHANGE)\s+PARTITION\b|TABLESPACE\b))",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that remove rows of a table which the log does not have one by one."""
_DROPS_ALL = re.compile(rf"\s*DROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?({_NAME})", re.IGNORECASE)
_LAST = re.compile(r"\s*(?:XA\s+)?(?:COMMIT|ROLLBACK)\b(?!\s+(?:WORK\s+)?TO\b)", re.IGNORECASE)
_WRITES = re.compile(r"\s*(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH|SET\s+STATEMENT)\b", re.IGNORECASE)


class Statement:
    """A statement without its comments.

    Args:
        schema: the default database.
    """

    def __init__(self, sql: str, schema: str) -> None:
        self._text = _COMMENTS.sub(lambda found: found[1] or found[2] or " ", sql)
        self._schema = schema

    @property
    def is_last(self) -> bool:
        """Whether it ends a transaction that has no XID event."""
        return _LAST.match(self._text) is not None

    @property
    def emptied(self) -> TableName | None:
        """The table that a TRUNCATE empties."""
        match = _EMPTIES.match(self._text)
        return self._table(match[1], match[2]) if match else None

    def losses(
        self, where: str, is_wanted: Callable[[TableName], bool], known: Iterable[TableName]
    ) -> Iterator[str]:
        """A text for each table with changes that the log does not have.

        Args:
            is_wanted: whether changes of a table are read.
            known: the tables that exist and are read.
        """
        if match := _DROPS_ALL.match(self._text):
            tables = [table for table in known if table.schema == _unquoted(match[1])]
            what = "dropped {}, with its database"
        elif _GOES.match(self._text):
            tables, what = self._named(), "dropped, renamed or replaced {}, with rows or all of them"
        elif _WRITES.match(self._text):
            tables = self._named()
            what = "changed {} by a statement whose rows the log does not have (binlog_format)"
        else:
            return
        yield from (f"{table} was {what.format(where)}" for table in tables if is_wanted(table))

    def _named(self) -> list[TableName]:
        """Whatever may be a table in the statement."""
        pairs = re.findall(rf"(?:({_NAME})\s*\.\s*)?({_NAME})", self._text)
        return sorted({self._table(schema, name) for schema, name in pairs}, key=str)

    def _table(self, schema: str | None, name: str) -> TableName:
        return TableName(schema=_unquoted(schema) or self._schema, name=_unquoted(name))


def _unquoted(name: str | None) -> str:
    if not name:
        return ""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
