"""The SQL texts of a polled table: the newest cursor, cuts, counts, and the rows of a range. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flip27_source.enumerators.sql.dialects import Dialect
from flip27_source.enumerators.sql.options import QUERY, TABLE
from flip27_source.enumerators.sql.split import Cursor
from flip27_source.options import Options

_SAMPLE_ROWS = 1000
ALIAS = "flip27_rows"


def relation_of(options: Options) -> str:
    """The table, or the query as a subquery, for FROM; named ``ALIAS``."""
    query = options[QUERY]
    # The line break ends a comment in the last line of the query.
    return f"{options[TABLE] if query is None else f'({chr(10)}{query}{chr(10)})'} AS {ALIAS}"


def qualified(column: str) -> str:
    """A quoted column with the relation's name, without which ORDER BY would take a column of the result."""
    return f"{ALIAS}.{column}"


def probe(relation: str, dialect: Dialect) -> str:
    """A query that shows the columns: without rows, or with one row if values decide the types."""
    return f"SELECT * FROM {relation} LIMIT {0 if dialect.has_types else 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The queries of one table.

    Attributes:
        relation: the text after FROM.
        columns: the cursor columns, quoted and qualified.
        start: the condition of startingCursor; None to start with the first row.
    """

    dialect: Dialect
    relation: str
    columns: tuple[str, ...]
    start: str | None = None

    def newest(self, *, not_after: str | None = None) -> str:
        """The greatest cursor.

        Args:
            not_after: a literal; only rows whose first cursor column is not greater are considered.
        """
        conditions = [self._not_null()]
        if self.start is not None:
            conditions.append(self.start)
        if not_after is not None:
            conditions.append(f"{self.columns[0]} <= {not_after}")
        order = ", ".join(f"{column} DESC" for column in self.columns)
        return f"SELECT {self._cursor()} FROM {self.relation} {_where(conditions)} ORDER BY {order} LIMIT 1"

    def null_in(self, column: str) -> str:
        """One row if any row has NULL in this cursor column."""
        return f"SELECT 1 FROM {self.relation} WHERE {column} IS NULL LIMIT 1"

    def null_rows(self) -> str:
        """The number of rows with NULL in a cursor column."""
        conditions = " OR ".join(f"{column} IS NULL" for column in self.columns)
        return f"SELECT count(*) FROM {self.relation} WHERE {conditions}"

    def reaches(self, cursor: Cursor) -> str:
        """One row if any row has this cursor or a greater one."""
        condition = self._compared(">=", cursor)
        return f"SELECT 1 FROM {self.relation} {_where([condition, self._not_null()])} LIMIT 1"

    def count(self, after: Cursor | None, upto: Cursor) -> str:
        return f"SELECT count(*) FROM {self.relation} {self._range(after, upto)}"

    def cuts(self, after: Cursor | None, upto: Cursor, *, rows: int, most: int) -> str:
        """Every ``rows``-th cursor of a range, up to ``most`` of them."""
        names = [f"flip27_{number}" for number in range(len(self.columns))]
        given = ", ".join(f"{column} AS {name}" for column, name in zip(self.columns, names, strict=True))
        order = ", ".join(self.columns)
        numbered = (
            f"SELECT {given}, row_number() OVER (ORDER BY {order}) AS flip27_row FROM {self.relation} "
            f"{self._range(after, upto)} ORDER BY {order} LIMIT {rows * most}"
        )
        return (
            f"SELECT {self._cursor(names)} FROM ({numbered}) AS flip27_cuts WHERE flip27_row % {rows} = 0 "
            f"ORDER BY flip27_row"
        )

    def sample(self, after: Cursor | None, upto: Cursor) -> str:
        """The first complete rows of a range."""
        return f"SELECT * FROM {self.relation} {self._range(after, upto)} LIMIT {_SAMPLE_ROWS}"

    def rows(self, after: Cursor | None, upto: Cursor, select: Sequence[str]) -> str:
        """The rows of a range in the order of their cursors; ``select`` are expressions."""
        order = ", ".join(self.columns)
        return f"SELECT {', '.join(select)} FROM {self.relation} {self._range(after, upto)} ORDER BY {order}"

    def _range(self, after: Cursor | None, upto: Cursor) -> str:
        lower = self.start if after is None else self._compared(">", after)
        # The condition on NULL is for tuples: their comparison can be true although a later part is NULL.
        conditions = [lower, self._compared("<=", upto), self._not_null()]
        return _where([condition for condition in conditions if condition is not None])

    def _compared(self, operator: str, cursor: Cursor) -> str:
        literal = self.dialect.literal
        literals = [literal(*item) for item in zip(cursor.values, cursor.types, strict=True)]
        return self.dialect.compared(self.columns, operator, literals)

    def _not_null(self) -> str:
        return " AND ".join(f"{column} IS NOT NULL" for column in self.columns)

    def _cursor(self, columns: Sequence[str] | None = None) -> str:
        """Texts of the cursor columns, then the columns themselves, whose types are needed."""
        plain = self.columns if columns is None else columns
        as_text = self.dialect.as_text
        texts = [column if as_text is None else as_text(column) for column in plain]
        named = [f"{text} AS flip27_text_{number}" for number, text in enumerate(texts)]
        return ", ".join([*named, *plain])


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}"
