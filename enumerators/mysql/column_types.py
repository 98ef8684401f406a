"""The types of columns: in the catalog, in SQL, and in Arrow. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

UNREAD_CHARSETS = ("big5", "sjis", "ujis", "eucjpms", "binary")
"""Sets that Python decodes to other characters than the server. Only an ENUM or a SET has the set binary."""

_MOST_DIGITS = 38
INTEGERS = {
    "tinyint": (pa.int8(), pa.int16()),
    "smallint": (pa.int16(), pa.int32()),
    "mediumint": (pa.int32(), pa.int32()),
    "int": (pa.int32(), pa.int64()),
    "bigint": (pa.int64(), pa.decimal128(20, 0)),
}
"""With a sign, and unsigned."""
_TYPES = {
    "float": pa.float32(), "double": pa.float64(), "year": pa.int16(), "date": pa.date32(),
    "datetime": pa.timestamp("us"), "timestamp": pa.timestamp("us", "UTC"), "time": pa.string(),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), pa.string()),
    **dict.fromkeys(("enum", "set"), pa.string()),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), pa.binary()),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """The type of a column, as the catalog has it.

    Attributes:
        name: such as ``int``, without a length.
        digits: for numbers, their precision; for a bit field, its bits.
        scale: for decimal numbers, the digits after the point.
        text: the type in full, as in CREATE TABLE.
        charset: its set of characters, if it has one.
    """

    name: str
    digits: int | None = None
    scale: int | None = None
    text: str = ""
    charset: str | None = None

    @property
    def unread(self) -> str | None:
        """What the source does not read about such a column; None if it reads the column."""
        if self.charset in UNREAD_CHARSETS:
            return f"in the character set {self.charset}"
        # A comment ends the text of a compressed column, and of a time in the format of MariaDB 5.3.
        is_odd = self.text.endswith("*/") or self.text == "year(2)"
        return f"of the type {self.text or self.name}" if is_odd or self.arrow is None else None

    @property
    def arrow(self) -> pa.DataType | None:
        """The type unless the user's schema sets another; None if the source does not read such columns."""
        if self.name in INTEGERS:
            return INTEGERS[self.name]["unsigned" in self.text]
        if self.name == "decimal":
            digits, scale = self.digits or 10, self.scale or 0
            return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else pa.string()
        if self.name == "bit":
            return pa.int64() if (self.digits or 1) < 64 else pa.decimal128(20, 0)
        return _TYPES.get(self.name)

    def selected(self, column: str) -> str:
        """SQL whose text is exactly the value of a column, which is given as SQL."""
        if self.name in ("float", "double"):
            return f"CAST({column} AS DOUBLE)"  # otherwise a text may have fewer digits
        if self.name == "bit":
            return f"CAST({column} AS UNSIGNED)"
        if self.name in ("date", "datetime", "timestamp"):
            # NULL for a date that no calendar has, which is found only in its text. Day 365 ends the year 0.
            return f"IF(TO_DAYS(CONCAT({column})) > 365, {column}, NULL)"
        if self.name == "decimal":
            return f"CAST({column} AS DECIMAL({self.digits}, {self.scale}))"  # without the zeros of ZEROFILL
        return column
