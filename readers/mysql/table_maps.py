"""Parses the events that describe a table in the log: its columns with their types, and its key. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from flip27_source.enumerators.mysql.column_types import ColumnType
from flip27_source.enumerators.mysql.connection import START_AGAIN
from flip27_source.enumerators.mysql.split import TableName
from flip27_source.errors import SplitReadError

ResultT = TypeVar("ResultT")

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 13, 15, 16, 17, 18, 19
NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 246, 247, 248, 252, 253, 254, 255
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
BINARY_COLLATION = 63

INTEGERS = frozenset((TINY, SHORT, INT24, LONG, LONGLONG))
_FIXED = {TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8, FLOAT: 4, DOUBLE: 8, DATE: 3, YEAR: 1}
_NUMERIC = (TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE)
_META_BYTES = {
    **dict.fromkeys(_FIXED, 0), FLOAT: 1, DOUBLE: 1, TIMESTAMP2: 1, DATETIME2: 1, TIME2: 1, BLOB: 1,
    **dict.fromkeys((VARCHAR, VAR_STRING, STRING, BIT, NEWDECIMAL, ENUM, SET), 2), GEOMETRY: 1,
    BLOB_COMPRESSED: 1, VARCHAR_COMPRESSED: 2,
}  # fmt: skip
_TEXTS = (STRING, VAR_STRING, VARCHAR, BLOB, GEOMETRY, BLOB_COMPRESSED, VARCHAR_COMPRESSED)
"""The types for which the log has a collation, also where it means nothing."""
_UNREAD = {GEOMETRY: "geometry", BLOB_COMPRESSED: "blob compressed", VARCHAR_COMPRESSED: "varchar compressed"}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)

(
    _SIGNS, _DEFAULT_COLLATION, _COLLATIONS, _NAMES, _SETS, _ENUMS, _GEOMETRIES, _KEY, _KEY_WITH_PREFIX,
    _ENUM_DEFAULT_COLLATION, _ENUM_COLLATIONS,
) = range(1, 12)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LogColumn:
    """A column of a table, as the log describes it.

    Attributes:
        kind: the number of its type.
        meta: what the type needs: digits and scale, a length, or the number of digits of a second.
        size: bytes of a value; None if each value has its length in front.
        prefix: bytes of this length.
        labels: the values of an ENUM or a SET.
    """

    name: str
    kind: int
    meta: tuple[int, int] = (0, 0)
    size: int | None = None
    prefix: int = 0
    is_unsigned: bool = False
    collation: int = BINARY_COLLATION
    labels: tuple[bytes, ...] = ()

    @property
    def is_ambiguous(self) -> bool:
        """Whether it may be a UUID, INET6, INET4 or YEAR(2), which the log has as another type."""
        is_bytes = self.kind == STRING and self.collation == BINARY_COLLATION
        return self.kind == YEAR or (is_bytes and self.meta[0] in (4, 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMap:
    """A table as it was when the rows after this event were changed.

    Attributes:
        key: the indexes of the columns of its primary key.
    """

    table: TableName
    columns: tuple[LogColumn, ...]
    key: tuple[int, ...]

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self.columns[number].name for number in self.key)

    def renamed(self, name_of: Callable[[str], str]) -> TableMap:
        """The table with other names of columns."""
        return replace(self, columns=tuple(replace(one, name=name_of(one.name)) for one in self.columns))

    @property
    def integers(self) -> set[str]:
        return {column.name for column in self.columns if column.kind in INTEGERS}


def logged_types(table: TableMap, charsets: Mapping[int, str]) -> dict[str, ColumnType]:
    """The types of the columns, as far as they tell whether the source reads them.

    Args:
        charsets: the set of characters of each collation.
    """
    return {
        column.name: ColumnType(
            name=_UNREAD.get(column.kind, "text"),
            charset=charsets.get(column.collation)
            if column.collation != BINARY_COLLATION or column.kind in (ENUM, SET)
            else None,
        )
        for column in table.columns
    }


@dataclass(slots=True)
class _Cursor:
    data: bytes
    at: int = 0

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def packed(self) -> int:
        """A number in MySQL's form of variable length."""
        first = self.take(1)[0]
        size = {252: 2, 253: 3, 254: 8}.get(first, 0)
        return int.from_bytes(self.take(size), "little") if size else first

    def text(self) -> bytes:
        return self.take(self.packed())

    def numbers(self) -> list[int]:
        return list(self._rest(self.packed))

    def texts(self) -> list[bytes]:
        return list(self._rest(self.text))

    def _rest(self, take: Callable[[], ResultT]) -> Iterator[ResultT]:
        while self.at < len(self.data):
            yield take()


def table_map(text: bytes, is_wanted: Callable[[TableName], bool]) -> tuple[TableName, TableMap | None]:
    """The name of the table that an event describes, and the table if it is wanted.

    Args:
        text: the body of the event from the name of the database on.

    Raises:
        SplitReadError: the log does not have the names of the columns, or a type is not known.
    """
    cursor = _Cursor(text)
    # A zero is after each name.
    schema, _, name, _ = (cursor.text(), cursor.take(1), cursor.text(), cursor.take(1))
    table = TableName(schema=schema.decode(), name=name.decode())
    if not is_wanted(table):
        return table, None
    kinds = cursor.text()
    metas = _Cursor(cursor.text())
    cursor.take((len(kinds) + 7) // 8)
    found = [_kind_of(table, kind, metas) for kind in kinds]
    more = _Metadata.read(cursor, [kind for kind, _ in found])
    if len(more.names) != len(found):
        raise SplitReadError(
            f"the log does not have the names of the columns of table {table}",
            remedy=f"SET GLOBAL binlog_row_metadata = FULL, and {START_AGAIN}",
        )
    columns = [
        LogColumn(
            name=more.names[number],
            kind=kind,
            meta=meta,
            size=_size_of(kind, meta),
            prefix=_prefix_of(kind, meta),
            is_unsigned=number in more.unsigned,
            collation=more.collations.get(number, BINARY_COLLATION),
            labels=more.labels.get(number, ()),
        )
        for number, (kind, meta) in enumerate(found)
    ]
    return table, TableMap(table=table, columns=tuple(columns), key=tuple(more.key))


def _kind_of(table: TableName, kind: int, metas: _Cursor) -> tuple[int, tuple[int, int]]:
    if kind not in _META_BYTES:
        raise SplitReadError(
            f"table {table} has a column of the type {kind} in the log, which the mysql source does not read",
            remedy="leave the table out, or change the column: old temporal types are not supported",
        )
    low, high, *_ = *metas.take(_META_BYTES[kind]), 0, 0
    if kind in (VARCHAR, VAR_STRING, VARCHAR_COMPRESSED):
        return kind, (low | high << 8, 0)
    if kind == STRING:
        # The upper bits of a length above 255 are in the byte of the type.
        kind, length = low, high
        return (
            (kind, (length, 0)) if kind & 0x30 == 0x30 else (STRING, (length | (kind & 0x30 ^ 0x30) << 4, 0))
        )
    return kind, (low, high)


def _size_of(kind: int, meta: tuple[int, int]) -> int | None:
    first, second = meta
    if kind == NEWDECIMAL:
        return sum(part // 9 * 4 + _DIGIT_BYTES[part % 9] for part in (first - second, second))
    fraction = (first + 1) // 2
    sizes = {
        TIMESTAMP2: 4 + fraction, DATETIME2: 5 + fraction, TIME2: 3 + fraction, ENUM: first, SET: first,
        BIT: second + (first > 0),
    }  # fmt: skip
    return sizes.get(kind, _FIXED.get(kind))


def _prefix_of(kind: int, meta: tuple[int, int]) -> int:
    if kind in (VARCHAR, VAR_STRING, STRING, VARCHAR_COMPRESSED):
        return 1 if meta[0] < 256 else 2
    return meta[0] if kind in (BLOB, GEOMETRY, BLOB_COMPRESSED) else 0


@dataclass(slots=True, kw_only=True)
class _Metadata:
    """What the log has with ``binlog_row_metadata=FULL``; numbers are indexes of columns."""

    names: list[str] = field(default_factory=list)
    unsigned: set[int] = field(default_factory=set)
    collations: dict[int, int] = field(default_factory=dict)
    labels: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    key: Sequence[int] = ()

    @classmethod
    def read(cls, cursor: _Cursor, kinds: Sequence[int]) -> _Metadata:
        def of(*some: int) -> list[int]:
            return [number for number, kind in enumerate(kinds) if kind in some]

        found = cls()
        collated = {
            **dict.fromkeys((_DEFAULT_COLLATION, _COLLATIONS), of(*_TEXTS)),
            **dict.fromkeys((_ENUM_DEFAULT_COLLATION, _ENUM_COLLATIONS), of(ENUM, SET)),
        }
        while cursor.at < len(cursor.data):
            what, part = cursor.take(1)[0], _Cursor(cursor.text())
            if what == _SIGNS:
                bits = "".join(f"{byte:08b}" for byte in part.data)
                found.unsigned = {
                    number for number, bit in zip(of(*_NUMERIC), bits, strict=False) if bit == "1"
                }
            elif what == _NAMES:
                found.names = [name.decode() for name in part.texts()]
            elif what in collated:
                has_default = what in (_DEFAULT_COLLATION, _ENUM_DEFAULT_COLLATION)
                found.collations |= _collations(part.numbers(), collated[what], has_default=has_default)
            elif what in (_SETS, _ENUMS):
                for number in of(SET if what == _SETS else ENUM):
                    found.labels[number] = tuple(part.text() for _ in range(part.packed()))
            elif what in (_KEY, _KEY_WITH_PREFIX):
                found.key = part.numbers()[:: 1 if what == _KEY else 2]
        return found


def _collations(numbers: Sequence[int], columns: Sequence[int], *, has_default: bool) -> dict[int, int]:
    if not has_default:
        return dict(zip(columns, numbers, strict=True))
    others = zip(numbers[1::2], numbers[2::2], strict=True)
    return dict.fromkeys(columns, numbers[0]) | {columns[place]: collation for place, collation in others}
