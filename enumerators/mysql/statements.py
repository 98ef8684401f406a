"""Finds out what statements do to tables beyond the rows that the log has. Pure.

A statement is split into tokens, and judged by its first words. One that is not known counts as a change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from enum import Enum
from typing import NamedTuple

from flip27_source.enumerators.mysql.split import TableName

_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
_VARIABLE_BYTES = {0: 4, 1: 8, 3: 4, 4: 6}
"""Sizes of the status variables that come before or with those that matter here."""
_SQL_MODE, _CHARSETS, _CATALOG = 1, 4, 6

_SKIPPED = r"\s+|/\*M?!\d*|\*/|/\*.*?(?:\*/|\Z)|(?:--(?=\s|\Z)|\#)[^\n]*"
"""The server runs what is in a comment with an exclamation mark."""
_TOKEN = r"|(?P<string>{string})|(?P<name>{name})|(?P<word>[\w$\x80-\U0010ffff]+)|(?P<sign>.)"
_NAME = r"`(?:[^`]|``)*`"
_WITH_ESCAPES, _WITHOUT = r"{0}(?:[^{0}\\]|\\.|{0}{0})*{0}", r"{0}(?:[^{0}]|{0}{0})*{0}"

_HARMLESS = {
    *("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "XA", "SET", "USE", "GRANT", "REVOKE"),
    *("OPTIMIZE", "REPAIR", "CHECK", "CHECKSUM", "FLUSH", "INSTALL", "UNINSTALL", "CACHE", "RESET", "PURGE"),
    *("CHANGE", "LOCK", "UNLOCK", "SHOW", "EXPLAIN", "DESCRIBE", "BACKUP", "KILL", "COMMENT"),
}
"""First words of statements that change no rows; CREATE, DROP, ALTER and others are judged further."""
_GIVE_OR_TAKE_ROWS = {
    *(("DROP", "PARTITION"), ("TRUNCATE", "PARTITION"), ("EXCHANGE", "PARTITION"), ("CONVERT", "PARTITION")),
    *(("CONVERT", "TABLE"), ("IMPORT", "TABLESPACE"), ("DISCARD", "TABLESPACE"), ("IMPORT", "PARTITION")),
    *(("DISCARD", "PARTITION"),),
}
"""First words of the specifications of an ALTER TABLE whose rows the log does not have."""
_CASCADES = {("ON", event, does) for event in ("DELETE", "UPDATE") for does in ("CASCADE", "SET")}
_RENAME_INSIDE = ("COLUMN", "INDEX", "KEY")


class Token(NamedTuple):
    """A part of a statement.

    Attributes:
        kind: string; name, which is quoted; word, in capitals; or sign.
    """

    kind: str
    text: str
    given: str


class Writing(NamedTuple):
    """How the statements of a server are written.

    Attributes:
        decode: decodes a text in the character set of a collation.
        folds: whether the server knows tables by their names in lower case.
    """

    decode: Callable[[bytes, int], str]
    folds: bool = False


class Loss(Enum):
    """What happened to a table, as the end of a sentence."""

    GONE = "dropped, renamed or replaced {}, with rows or all of them"
    DATABASE = "dropped {}, with its database"
    CASCADES = "given a foreign key {} whose changes the log does not have (CASCADE, SET NULL)"
    WRITTEN = "changed {} by a statement whose rows the log does not have (binlog_format)"
    PERHAPS = (
        "perhaps changed {}, by a trigger, a view or a function of a statement whose rows the log does not "
        "have (binlog_format)"
    )


class Statement:
    """A statement.

    Args:
        sql: its text.
        schema: the default database.
        modes: the session's ``sql_mode``, as the log has it.
        folds: whether names of tables are in lower case, whatever the statement says.
    """

    def __init__(self, sql: str, schema: str, modes: int = 0, *, folds: bool = False) -> None:
        self._schema = schema
        self._folds = folds
        self._tokens = list(_tokens(sql, modes))
        if self._words(2) == ("SET", "STATEMENT"):
            after = [place for place, token in enumerate(self._tokens) if token[:2] == ("word", "FOR")]
            self._tokens = self._tokens[after[0] + 1 :] if after else []

    @classmethod
    def read(cls, body: bytes, writing: Writing, expand: Callable[[bytes], bytes] | None = None) -> Statement:
        """The statement in the body of an event.

        Args:
            expand: decompresses the text; None if it is not compressed.
        """
        size, variables = body[8], body[13 : 13 + int.from_bytes(body[11:13], "little")]
        schema, text = body[13 + len(variables) :][:size], body[14 + len(variables) + size :]
        modes, collation = _session(variables)
        sql = writing.decode(text if expand is None else expand(text), collation)
        return cls(sql, schema.decode("utf-8", "replace"), modes, folds=writing.folds)

    @property
    def is_last(self) -> bool:
        """Whether it ends a transaction, which has no XID event."""
        return self._words(1) == ("COMMIT",) or self._words(2) == ("XA", "COMMIT") or self.is_rollback

    @property
    def is_rollback(self) -> bool:
        """Whether it ends a transaction whose rows are undone."""
        is_whole = self._words(1) == ("ROLLBACK",) and self.undone_to is None
        return is_whole or self._words(2) == ("XA", "ROLLBACK")

    @property
    def savepoint(self) -> str | None:
        """The name of the savepoint that it sets, in lower case."""
        return self._tokens[1].given.lower() if self._words(1) == ("SAVEPOINT",) else None

    @property
    def undone_to(self) -> str | None:
        """The name of the savepoint after which the rows of the transaction are undone, in lower case."""
        is_to = self._words(1) == ("ROLLBACK",) and "TO" in [token.text for token in self._tokens[1:3]]
        return self._tokens[-1].given.lower() if is_to else None

    @property
    def emptied(self) -> TableName | None:
        """The table that a TRUNCATE empties."""
        if self._words(1) != ("TRUNCATE",):
            return None
        at = 2 if self._words(2) == ("TRUNCATE", "TABLE") else 1
        return next(self._names(self._tokens[at:]), None)

    @property
    def cascading_key(self) -> str | None:
        """The name, if it has one, of a foreign key with which the engine changes rows by itself."""
        texts, name = [token.text for token in self._tokens], ""
        for at, token in enumerate(self._tokens):
            if token.text == "CONSTRAINT" and at + 1 < len(texts):
                name = self._tokens[at + 1].given
            if tuple(texts[at : at + 3]) in _CASCADES:
                return name
        return None

    def losses(
        self, is_wanted: Callable[[TableName], bool], known: Collection[TableName]
    ) -> list[tuple[TableName, Loss]]:
        """The tables with changes that the log does not have.

        Args:
            is_wanted: whether changes of a table are read.
            known: the tables that exist and are read.
        """
        first, *_ = (*self._words(1), "")
        if first in ("DROP", "CREATE", "RENAME", "ALTER"):
            return self._losses_of_definition(first, is_wanted, known)
        if first in _HARMLESS or not first or self.emptied is not None:
            return []
        if first == "ANALYZE" and {"TABLE", "TABLES"} & {*self._words(3)}:
            return []
        named = [(table, Loss.WRITTEN) for table in self._all_named(self._tokens) if is_wanted(table)]
        schemas = {self._schema, *(table.schema for table in self._names(self._tokens))}
        return named or [(table, Loss.PERHAPS) for table in known if table.schema in schemas]

    def _losses_of_definition(
        self, first: str, is_wanted: Callable[[TableName], bool], known: Collection[TableName]
    ) -> list[tuple[TableName, Loss]]:
        words = [token.text for token in self._tokens[:6] if token.kind == "word"]
        replaces = first != "CREATE" or words[1:3] == ["OR", "REPLACE"]
        what = next((word for word in words[1:] if word not in ("OR", "REPLACE", "ONLINE", "IGNORE")), "")
        if not replaces:
            return []
        if what in ("DATABASE", "SCHEMA") and first != "ALTER":
            dropped = [self._table(one.given, "") for one in self._after(what, "IF", "NOT", "EXISTS")[:1]]
            return [
                (table, Loss.DATABASE) for table in known for one in dropped if table.schema == one.schema
            ]
        if what not in ("TABLE", "TABLES"):
            return []
        if first == "ALTER":
            tokens = self._after(what, "IF", "EXISTS")
            target = list(self._names(tokens))[:1]
            if self.cascading_key is not None and any(map(is_wanted, target)):
                return [(table, Loss.CASCADES) for table in target]
            named = self._moved(tokens, target, ignores="IGNORE" in words)
        elif first == "CREATE":
            named = list(self._names(self._after(what, "IF", "NOT", "EXISTS")))[:1]
        else:
            named = self._all_named(self._after(what))
        return [(table, Loss.GONE) for table in named if is_wanted(table)]

    def _moved(self, tokens: list[Token], target: list[TableName], *, ignores: bool) -> list[TableName]:
        """The tables that an ALTER TABLE gives or takes rows, or whose rows it gives other keys."""
        depth, specification = 0, list[Token]()
        specifications = [specification]
        for token in tokens[3 if tokens[1:2] and tokens[1].text == "." else 1 :]:
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "sign" else 0
            if depth == 0 and token[:2] == ("sign", ","):
                specifications.append(specification := [])
            else:
                specification.append(token)
        moved = [
            token for one in specifications if _moves_rows([token.text for token in one]) for token in one
        ]
        return sorted({*self._names(moved), *target}, key=str) if moved or ignores else []

    def _after(self, *words: str) -> list[Token]:
        """The tokens after the first of these words, and after those others that follow it."""
        at = next(place for place, one in enumerate(self._tokens) if one[:2] == ("word", words[0])) + 1
        while at < len(self._tokens) and self._tokens[at][:2] in [("word", word) for word in words[1:]]:
            at += 1
        return self._tokens[at:]

    def _words(self, count: int) -> tuple[str, ...]:
        return tuple(token.text for token in self._tokens[:count] if token.kind == "word")

    def _all_named(self, tokens: list[Token]) -> list[TableName]:
        return sorted(set(self._names(tokens)), key=str)

    def _names(self, tokens: list[Token]) -> Iterator[TableName]:
        """Whatever may be a table in these tokens."""
        at = 0
        while at < len(tokens):
            first, dot, second = (*tokens[at : at + 3], None, None, None)[:3]
            at += 1
            if first is None or first.kind not in ("name", "word"):
                continue
            if dot is not None and dot.text == "." and second is not None and second.kind != "sign":
                yield self._table(first.given, second.given)
                at += 2
            else:
                yield self._table(self._schema, first.given)

    def _table(self, *names: str) -> TableName:
        schema, name = (one.lower() for one in names) if self._folds else names
        return TableName(schema=schema, name=name)


def _moves_rows(specification: list[str]) -> bool:
    first, second = (*specification, "", "")[:2]
    if first == "RENAME":
        return second not in _RENAME_INSIDE
    if first == "ADD" and "AUTO_INCREMENT" in specification:
        return True
    return (first, second) in _GIVE_OR_TAKE_ROWS


def _tokens(sql: str, modes: int) -> Iterator[Token]:
    quoted = _WITHOUT if modes & _NO_BACKSLASH_ESCAPES else _WITH_ESCAPES
    double = _WITHOUT.format('"') if modes & _ANSI_QUOTES else quoted.format('"')
    names = f"{_NAME}|{double}" if modes & _ANSI_QUOTES else _NAME
    strings = quoted.format("'") if modes & _ANSI_QUOTES else f"{quoted.format(chr(39))}|{double}"
    for found in re.finditer(_SKIPPED + _TOKEN.format(string=strings, name=names), sql, re.DOTALL):
        kind, text = found.lastgroup, found[0]
        if kind == "name":
            mark = text[0]
            yield Token(kind, "", text[1:-1].replace(mark * 2, mark))
        elif kind is not None:
            yield Token(kind, text.upper() if kind == "word" else text if kind == "sign" else "", text)


def _session(variables: bytes) -> tuple[int, int]:
    """The SQL modes of a session, and the collation of its statements (0: not known)."""
    modes = collation = at = 0
    while at < len(variables):
        code, at = variables[at], at + 1
        if code == _SQL_MODE:
            modes = int.from_bytes(variables[at : at + 8], "little")
        elif code == _CHARSETS:
            collation = int.from_bytes(variables[at : at + 2], "little")
        elif code == _CATALOG:
            at += 1 + variables[at]
            continue
        if code not in _VARIABLE_BYTES:
            break
        at += _VARIABLE_BYTES[code]
    return modes, collation
