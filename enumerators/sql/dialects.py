"""How databases differ: names, literals, cursors as text, comparison of tuples, settings. Pure: no I/O.

The database alone compares cursors, because only it knows the order of its texts. A cursor is stored as text
that the dialect makes from the value, and from which it can make the same value again.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ALIAS = "flip27_rows"
"""The name of the table or query in SQL."""
_NUMBERS = ("int", "uint", "decimal", "float", "double", "halffloat")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The SQL of a database.

    Attributes:
        name: postgresql, sqlite, duckdb, or another name.
        literal: a stored value of an Arrow type as SQL.
        of_type: a literal, and the column with which it is compared, as SQL of the column's type.
        as_text: an expression for the stored text of a column; None if Python makes the text.
        given: a value as a user wrote it, with its Arrow type, as a stored value.
        plain: a stored value as users write it.
        has_types: whether a result without rows has types.
        compares_tuples: whether (a, b) > (1, 2) uses an index.
        cast_to_text: an expression for the text of a column that Spark has no type for.
        clock: a query for the time of the server; None for the clock of this machine.
    """

    name: str
    quoted: Callable[[str], str] = _quoted
    literal: Callable[[str, str], str]
    of_type: Callable[[str, str], str] = lambda literal, _: literal
    as_text: Callable[[str], str] | None = None
    given: Callable[[str, str], str] = lambda value, _: value
    plain: Callable[[str], str] = lambda value: value
    has_types: bool = True
    compares_tuples: bool = False
    cast_to_text: Callable[[str], str] | None = None
    settings: tuple[str, ...] = ()
    clock: str | None = None

    def column(self, name: str) -> str:
        """A column with the name of the table, without which ORDER BY would take a column of the result."""
        return f"{ALIAS}.{self.quoted(name)}"

    def compared(self, columns: Sequence[str], operator: str, literals: Sequence[str]) -> str:
        """The condition that the tuple of the columns is ``>``, ``>=``, ``<=`` ... the tuple of literals.

        There may be fewer literals than columns: then only the first columns are compared.
        """
        pairs = [(name, self.of_type(value, name)) for name, value in zip(columns, literals, strict=False)]
        if len(pairs) == 1:
            return f"{pairs[0][0]} {operator} {pairs[0][1]}"
        if self.compares_tuples:
            names, values = (", ".join(part) for part in zip(*pairs, strict=True))
            return f"({names}) {operator} ({values})"
        strict = operator[0]
        steps = []
        for number, (column, literal) in enumerate(pairs):
            is_last = number == len(pairs) - 1
            equal = [f"{name} = {value}" for name, value in pairs[:number]]
            steps.append(" AND ".join([*equal, f"{column} {operator if is_last else strict} {literal}"]))
        # The first condition is implied by the others, but lets the database use an index of this column.
        first = f"{pairs[0][0]} {strict}= {pairs[0][1]}"
        return f"({first} AND ({' OR '.join(f'({step})' for step in steps)}))"


def _sqlite_given(value: str, kind: str) -> str:
    if kind != "number":
        return _text_literal(value)
    number = _number_literal(value)
    if not math.isfinite(float(number)):
        raise ValueError(f"{value!r} is greater than every number of SQLite")
    return number


_WITH_NUL = re.compile(r"\+CAST\(X'([0-9A-F]*)' AS TEXT\)")


def _sqlite_text(column: str) -> str:
    """The literal of a value. SQLite's quote() ends a text at its first NUL, and some versions quote Inf."""
    # The plus sign removes the affinity of the cast, which a comparison would apply to the column's values.
    with_nul = f"'+CAST(X''' || hex({column}) || ''' AS TEXT)'"
    has_nul = f"typeof({column}) = 'text' AND instr({column}, char(0))"
    real = f"typeof({column}) = 'real' THEN replace(quote({column}), 'Inf', '9.0e+999')"
    return f"CASE WHEN {has_nul} THEN {with_nul} WHEN {real} ELSE quote({column}) END"


def _sqlite_plain(value: str) -> str:
    with_nul = _WITH_NUL.fullmatch(value)
    if with_nul is not None:
        return bytes.fromhex(with_nul[1]).decode(errors="replace")
    return value[1:-1].replace("''", "'") if value.startswith("'") else value


def _sqlite_literal(value: str, _kind: str) -> str:
    """The text that SQLite made of a value, if it is a single literal."""
    if (
        _WITH_NUL.fullmatch(value) is None
        and re.fullmatch(r"'(?:[^']|'')*'|[xX]'[0-9a-fA-F]*'|[-+]?[0-9.eE+-]+|[-+]?9\.0e\+999", value) is None
    ):
        raise ValueError(f"{value!r} is not a literal of SQLite")
    return value


def _number_literal(value: str) -> str:
    if re.fullmatch(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", value.strip()) is None:
        raise ValueError(f"{value!r} is not a number")
    return value.strip()


def _duckdb_literal(value: str) -> str:
    """A text, without NUL, at which DuckDB ends the SQL."""
    parts = [_text_literal(part) for part in value.split("\0")]
    return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"


def _ansi_literal(value: str, kind: str) -> str:
    if kind.startswith(_NUMBERS):
        return _number_literal(value)
    if kind.startswith("timestamp"):
        return f"TIMESTAMP {_text_literal(value)}"
    if kind.startswith("date"):
        return f"DATE {_text_literal(value)}"
    if kind == "bool":
        return "TRUE" if value == "true" else "FALSE"
    if "binary" in kind:
        return f"X'{bytes.fromhex(value).hex()}'"
    return _text_literal(value)


# The texts of values depend on these settings. The last one is there because the source never writes.
_SETTINGS = (
    "SELECT set_config('DateStyle', 'ISO, MDY', false), set_config('TimeZone', 'UTC', false), "
    "set_config('IntervalStyle', 'postgres', false), set_config('extra_float_digits', '1', false), "
    "set_config('bytea_output', 'hex', false), set_config('standard_conforming_strings', 'on', false), "
    "set_config('client_encoding', 'UTF8', false), set_config('array_nulls', 'on', false), "
    "set_config('quote_all_identifiers', 'off', false), "
    "set_config('default_transaction_read_only', 'on', false)"
)

# On a standby, the time up to which all commits of the primary are visible: the time of the last one, or of a
# checkpoint after it, without which the newest rows would wait while the primary is idle.
_CLOCK = (
    "SELECT CAST(CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_xact_replay_timestamp(), "
    "(SELECT checkpoint_time FROM pg_control_checkpoint())) ELSE clock_timestamp() END AS text)"
)

POSTGRESQL = Dialect(
    name="postgresql",
    literal=lambda value, _kind: _text_literal(value),  # read as the type that it is compared with
    as_text=lambda column: f"CAST({column} AS text)",
    compares_tuples=True,
    cast_to_text=lambda column: f"CAST({column} AS text)",
    settings=(_SETTINGS,),
    clock=_CLOCK,
)
SQLITE = Dialect(
    name="sqlite",
    has_types=False,
    literal=_sqlite_literal,
    as_text=_sqlite_text,
    given=_sqlite_given,
    plain=_sqlite_plain,
    compares_tuples=True,
)
DUCKDB = Dialect(
    name="duckdb",
    literal=lambda value, _kind: _duckdb_literal(value),  # read as the type that it is compared with
    # DuckDB reads a plain literal as the type that it is compared with, but not an expression.
    of_type=lambda literal, column: f"cast_to_type({literal}, {column})" if literal[0] == "(" else literal,
    as_text=lambda column: f"CAST({column} AS VARCHAR)",
    cast_to_text=lambda column: f"CAST({column} AS VARCHAR)",
    settings=("SET TimeZone = 'UTC'",),
)
ANSI = Dialect(name="ansi", literal=_ansi_literal)
MYSQL = Dialect(
    name="mysql",
    quoted=lambda name: f"`{name.replace('`', '``')}`",
    literal=lambda value, kind: _ansi_literal(value, kind).replace("\\", "\\\\"),
)

_KNOWN = {"postgresql": POSTGRESQL, "sqlite": SQLITE, "duckdb": DUCKDB, "mysql": MYSQL, "mariadb": MYSQL}


def dialect_of(name: str) -> Dialect:
    """The dialect of a database by its name, as ADBC or SQLAlchemy gives it."""
    return _KNOWN.get(name.strip().lower(), ANSI)


def text_of(value: Any) -> str:
    """The stored text of a value, where the database does not make it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
