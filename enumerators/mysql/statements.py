"""Finds out what statements do to tables beyond the rows that the log has. Pure.

A statement is split into tokens, and judged by its first words. One that is not known counts as a change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple

from flip27_source.enumerators.mysql.split import TableName

_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
_SESSION = re.compile(
    rb"(\x00.{4})?(\x01(?P<modes>.{8}))?(\x06\x03std)?(\x03.{4})?(\x04(?P<collation>..))?", re.DOTALL
)
"""The first variables of a session, in the order in which servers write them."""

_SKIPPED = r"/\*M?!\d*|\*/|/\*.*?(?:\*/|\Z)|(?:--(?=\s|\Z)|\#)[^\n]*"
"""The server runs what is in a comment with an exclamation mark."""
_WITH_ESCAPES, _WITHOUT = r"{0}(?:[^{0}\\]++|(?:\\.)++|{0}{0})*{0}", r"{0}(?:[^{0}]++|{0}{0})*{0}"

# Patterns of the beginnings of statements, in which a space follows each token.
_ENDS = "(?:XA )?(COMMIT|ROLLBACK) "
_UNDOES, _EMPTIES = "ROLLBACK (WORK )?TO ", "TRUNCATE (TABLE )?"
_DROPS_DATABASE = "(DROP|CREATE OR REPLACE) (DATABASE|SCHEMA) ((IF|NOT|EXISTS) )*"
_REPLACES = "CREATE (OR REPLACE |(OR REPLACE )?TEMPORARY )(TABLE|SEQUENCE) (IF NOT EXISTS )?"
_FILLS = r"CREATE (OR REPLACE )?(TEMPORARY )?TABLE (.* )?(SELECT|VALUES \() "
_DROPS, _CREATES = "(DROP|RENAME) TABLES? ", "CREATE TABLE (?!IF )"
_ALTERS = r"ALTER ((ONLINE|IGNORE) )*TABLE (IF EXISTS )?(\. )?"
_HARMLESS = (
    "$|(BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|XA|SET|USE|GRANT|REVOKE|OPTIMIZE|REPAIR|CHECK|CHECKSUM"
    "|FLUSH|INSTALL|UNINSTALL|CACHE|RESET|PURGE|CHANGE|LOCK|UNLOCK|SHOW|EXPLAIN|DESCRIBE|BACKUP|KILL|COMMENT"
    "|TRUNCATE|CREATE|DROP|RENAME|ALTER) |ANALYZE ([A-Z_]+ )?TABLES? "
)
"""Statements that change no rows, unless one of the patterns above is theirs."""
_MOVES_ROWS = (
    "(NOWAIT |WAIT [^ ]+ )?+(RENAME (?!(COLUMN|INDEX|KEY) )|ADD (.* )?(AUTO_INCREMENT|SERIAL DEFAULT VALUE) "
    r"|ADD (COLUMN )?+(IF NOT EXISTS )?+(\( (.* , )?)?(?!(CONSTRAINT|KEY|INDEX|UNIQUE) )[^ (]* SERIAL "
    "|CONVERT TABLE |(DROP|TRUNCATE|EXCHANGE|CONVERT|IMPORT|DISCARD) (PARTITION|TABLESPACE|SYSTEM) "
    r"|(?!(ADD|ALTER|CHANGE|CONVERT|DROP|MODIFY|ORDER|RENAME) )([^(]* )?ENGINE (= )?(?!= |INNODB |INNOBASE ))"
)
"""Specifications of an ALTER TABLE that give or take rows, or give them other keys."""
_NAMES_ANOTHER = "(NOWAIT |WAIT [^ ]+ )?+(RENAME (TO |AS |= )?|(EXCHANGE|CONVERT) ([^ ]* ){0,3}?TABLE )"
"""What comes before the name of another table in such a specification."""
_VERSIONS = r"(?<!\S)(ADD|WITH) SYSTEM VERSIONING "
_KEYS = r"(?<!\S)(?!(ADD|DROP|RENAME|ALTER|UNIQUE|FOREIGN|FULLTEXT|SPATIAL|BY|LINEAR|,|\() )\S+ KEY "
"""PRIMARY KEY, or the same as an attribute of a column: INT KEY."""
_NO_NAMES = ("TABLE", "INTO", "UPDATE", "IF", "EXISTS", "TO", "CASCADE", "RESTRICT")
"""Words that no table and no database has as its name without quotes."""
_CONSTRAINT, _CASCADES = r"(?<!\S)CONSTRAINT ", r"(?<!\S)ON (DELETE|UPDATE) (CASCADE|SET) "


class Token(NamedTuple):
    """A part of a statement.

    Attributes:
        text: a word in capitals, or a sign; empty for a string or a quoted name.
        given: as it was written, without the quotes of a name.
        may_name: whether it may be the name of something.
    """

    text: str
    given: str
    may_name: bool


class Writing(NamedTuple):
    """How the statements of a server are written.

    Attributes:
        decode: decodes a text in the character set of a collation.
        folds: whether the server knows tables by their names in lower case.
    """

    decode: Callable[[bytes, int], str]
    folds: bool = False


_WITHOUT_ROWS = "a statement whose rows the log does not have (binlog_format)"


class Loss(Enum):
    """What happened to a table, as the end of a sentence."""

    GONE = "dropped, renamed or replaced (or hidden by a temporary table, or given another engine) {}"
    DATABASE = "dropped {}, with its database"
    CREATED = "created {} with a foreign key that has CASCADE or SET NULL, or with system versioning"
    CASCADES = "given a foreign key {} whose changes the log does not have (CASCADE, SET NULL)"
    VERSIONED = "given system versioning {}, with which the log has old rows as if they were new"
    WRITTEN = f"changed {{}} by {_WITHOUT_ROWS}"
    PERHAPS = f"perhaps changed {{}}, by a trigger, a view or a function of {_WITHOUT_ROWS}"


LASTING = (Loss.CASCADES, Loss.VERSIONED)
"""What makes later changes losses."""


class Statement:
    """A statement.

    Args:
        sql: its text.
        schema: the default database.
        modes: the session's ``sql_mode``, as the log has it.
        folds: whether names of tables are in lower case, whatever the statement says.
        nbsp: the no-break space, if it is a space and no letter.
    """

    def __init__(self, sql: str, schema: str, modes: int = 0, *, folds: bool = False, nbsp: str = "") -> None:
        self._schema = schema
        self._folds = folds
        self._tokens: Sequence[Token] = list(_tokens(sql, modes, nbsp))
        self._shape = _shape(self._tokens)
        self._tokens = self._after("(SET STATEMENT .*? FOR )+") or self._tokens
        self._shape = _shape(self._tokens)

    @classmethod
    def read(cls, body: bytes, writing: Writing, expand: Callable[[bytes], bytes] = bytes) -> Statement:
        """The statement in the body of an event.

        Args:
            expand: decompresses the text.
        """
        size, variables = body[8], body[13 : 13 + int.from_bytes(body[11:13], "little")]
        schema, text = body[13 + len(variables) :][:size], expand(body[14 + len(variables) + size :])
        session = _SESSION.match(variables)
        assert session is not None
        modes, collation = (int.from_bytes(session[name] or b"", "little") for name in ("modes", "collation"))
        sql = writing.decode(text, collation)
        # It is a space in character sets of single bytes, such as latin1.
        nbsp = "\u00a0" if len(sql) == len(text) else ""
        return cls(sql, schema.decode("utf-8", "replace"), modes, folds=writing.folds, nbsp=nbsp)

    @property
    def ending(self) -> str | None:
        """COMMIT or ROLLBACK, if it ends a transaction, which has no XID event."""
        found = re.match(_ENDS, self._shape)
        return found[1] if found is not None and self.undone_to is None else None

    @property
    def savepoint(self) -> str | None:
        """The name of the savepoint that it sets, in lower case."""
        return self._tokens[1].given.lower().rstrip() if self._begins("SAVEPOINT ") else None

    @property
    def undone_to(self) -> str | None:
        """The name of the savepoint after which the rows of the transaction are undone, in lower case."""
        return self._tokens[-1].given.lower().rstrip() if self._begins(_UNDOES) else None

    @property
    def emptied(self) -> TableName | None:
        """The table that a TRUNCATE empties."""
        return next(self._names(self._after(_EMPTIES)), None)

    @property
    def rekeyed(self) -> TableName | None:
        """The table whose primary key an ALTER TABLE declares: its columns may be others of these names."""
        altered = self._after(_ALTERS)
        return next(self._names(altered), None) if re.search(_KEYS, _shape(altered)) else None

    @property
    def cascading_key(self) -> str | None:
        """The name, if it has one, of a foreign key with which the engine changes rows by itself."""
        found = re.search(_CASCADES, self._shape)
        if found is None:
            return None
        names = [one.end() for one in re.finditer(_CONSTRAINT, self._shape[: found.start()])]
        return self._tokens[self._shape.count(" ", 0, names[-1])].given if names else ""

    def losses(
        self, is_wanted: Callable[[TableName], bool], known: Collection[TableName]
    ) -> list[tuple[TableName, Loss]]:
        """The tables with changes that the log does not have.

        Args:
            is_wanted: whether changes of a table are read.
            known: the tables that exist and are read.
        """
        named, loss = list[TableName](), Loss.GONE
        if database := self._after(_DROPS_DATABASE):
            every = self._table(database[0].given, "*")
            found = [table for table in known if table.schema == every.schema]
            # Maybe tables of a pattern have come and gone before they were found.
            return [(table, Loss.DATABASE) for table in found or filter(is_wanted, [every])]
        if self._begins(_DROPS):
            named = list(self._names(self._after(_DROPS)))
        elif self._begins(_REPLACES):
            named = [*self._names(self._after(_REPLACES))][:1]
        elif defined := self._after(f"{_ALTERS}|{_CREATES}"):
            named, is_versioned = self._moved(defined), re.search(_VERSIONS, self._shape)
            if is_versioned or self.cascading_key is not None:
                is_new, named = self._begins(_CREATES), [*self._names(defined)][:1]
                loss = Loss.CREATED if is_new else Loss.VERSIONED if is_versioned else Loss.CASCADES
        fills = self._begins(_FILLS) and not any(map(is_wanted, named))
        if fills or not self._begins(_HARMLESS):
            named, loss = list(self._names(self._tokens)), Loss.WRITTEN
            if not any(map(is_wanted, named)):
                schemas = {self._schema, *(table.schema for table in named)}
                return [(table, Loss.PERHAPS) for table in known if table.schema in schemas]
        return [(table, loss) for table in dict.fromkeys(named) if is_wanted(table)]

    def _moved(self, altered: Sequence[Token]) -> list[TableName]:
        """The tables that an ALTER TABLE gives or takes rows, or whose rows it gives other keys."""
        target = [*self._names(altered)][:1]
        specifications, depth = [list[Token]()], 0
        for token in altered[3 if _shape(altered[1:2]) == ". " else 1 :]:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0 and token.text == ",":
                specifications.append([])
            else:
                specifications[-1].append(token)
        moving = [one for one in specifications if re.match(_MOVES_ROWS, _shape(one))]
        if not moving and not self._begins("ALTER (ONLINE )?IGNORE "):
            return []
        # Other words are columns, partitions and engines.
        after = [one[to[0].count(" ") :] for one in moving if (to := re.match(_NAMES_ANOTHER, _shape(one)))]
        return [*target, *(table for one in after for table in [*self._names(one)][:1])]

    def _begins(self, pattern: str) -> bool:
        return re.match(pattern, self._shape) is not None

    def _after(self, pattern: str) -> Sequence[Token]:
        """The tokens after a beginning of the statement; none if it begins otherwise."""
        found = re.match(pattern, self._shape)
        return [] if found is None else self._tokens[found[0].count(" ") :]

    def _names(self, tokens: Sequence[Token]) -> Iterator[TableName]:
        """Whatever may be a table in these tokens."""
        at = 0
        while at < len(tokens):
            first, *more = tokens[at : at + 3]
            at += 1
            # A dot before a name stands for the default database: TABLE .orders
            is_first = first.may_name and first.text not in _NO_NAMES
            if is_first and len(more) == 2 and more[0].text == "." and more[1].may_name:
                yield self._table(first.given, more[1].given)
                at += 2
            elif is_first and not re.fullmatch("[0-9]+", first.text):
                yield self._table(self._schema, first.given)

    def _table(self, *names: str) -> TableName:
        schema, name = (one.lower() for one in names) if self._folds else names
        return TableName(schema=schema, name=name)


def _shape(tokens: Iterable[Token]) -> str:
    """The words and signs of a statement, with a space after each token."""
    return "".join(f"{token.text} " for token in tokens)


def _tokens(sql: str, modes: int, nbsp: str) -> Iterator[Token]:
    escaped = _WITHOUT if modes & _NO_BACKSLASH_ESCAPES else _WITH_ESCAPES
    # The session may have had other modes when it parsed it: a string in double quotes may be a name, too,
    # and so is what stands in brackets, which mean nothing else.
    double = (_WITHOUT if modes & _ANSI_QUOTES else escaped).format('"')
    names = (_WITHOUT.format("`"), double, r"\[(?:[^\]]|\]\])*\]")
    quoted = f"""(?P<string>{escaped.format("'")})|(?P<name>{"|".join(names)})"""
    token = cache(Token)  # a statement of many megabytes has few different ones
    # A word has the letters and digits of ASCII, _, $, and whatever is beyond ASCII.
    pattern = rf"[\s{nbsp}]+|{_SKIPPED}|{quoted}|(?P<word>[^\0-#%-/:-@\[-^`{{-\x7f{nbsp}]+)|(?P<sign>.)"
    for found in re.finditer(pattern, sql, re.DOTALL | re.ASCII):
        text, kind = found[0], found.lastgroup
        if kind in ("name", "string"):
            given = text[1:-1].replace(text[-1] * 2, text[-1])
            is_engine = given.upper() in ("INNODB", "INNOBASE")  # with or without quotes
            yield token(given.upper() if is_engine else "", given, kind == "name")
        elif kind is not None:
            yield token(text.upper(), text, kind == "word")
