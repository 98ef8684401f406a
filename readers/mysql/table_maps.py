"""Parses the events that describe a table in the log: its columns with their types, and its key. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flip27_source.enumerators.mysql.connection import START_AGAIN
from flip27_source.enumerators.mysql.split import TableName
from flip27_source.errors import SplitReadError

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 13, 15, 16, 17, 18, 19
NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 246, 247, 248, 252, 253, 254, 255
BINARY_COLLATION = 63

_FIXED = {TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8, FLOAT: 4, DOUBLE: 8, DATE: 3, YEAR: 1}
_NUMERIC = (TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE)
_META_BYTES = {
    FLOAT: 1, DOUBLE: 1, VARCHAR: 2, BIT: 2, TIMESTAMP2: 1, DATETIME2: 1, TIME2: 1, NEWDECIMAL: 2, ENUM: 2,
    SET: 2, BLOB: 1, VAR_STRING: 2, STRING: 2, GEOMETRY: 1,
}  # fmt: skip
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

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.data)


def table_of(body: bytes) -> tuple[int, TableName]:
    """The number of a table, which the events of its rows have, and its name."""
    at = 8
    names = []
    for _ in range(2):
        size = body[at]
        names.append(body[at + 1 : at + 1 + size].decode())
        at += size + 2
    return int.from_bytes(body[:6], "little"), TableName(schema=names[0], name=names[1])


def table_map(body: bytes) -> TableMap:
    """The table that an event describes.

    Raises:
        SplitReadError: the log does not have the names of the columns, or a type is not known.
    """
    _, table = table_of(body)
    cursor = _Cursor(body, 8)
    for _ in range(2):
        cursor.take(cursor.take(1)[0] + 1)
    kinds = cursor.take(cursor.packed())
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
            name=name,
            kind=kind,
            meta=meta,
            size=_size_of(kind, meta),
            prefix=_prefix_of(kind, meta),
            is_unsigned=number in more.unsigned,
            collation=more.collations.get(number, BINARY_COLLATION),
            labels=more.labels.get(number, ()),
        )
        for number, (name, (kind, meta)) in enumerate(zip(more.names, found, strict=True))
    ]
    return TableMap(table=table, columns=tuple(columns), key=more.key)


def _kind_of(table: TableName, kind: int, metas: _Cursor) -> tuple[int, tuple[int, int]]:
    if kind not in _FIXED and kind not in _META_BYTES:
        raise SplitReadError(
            f"table {table} has a column of the type {kind} in the log, which the mysql source does not read",
            remedy="leave the table out, or change the column: old temporal types and compressed columns are "
            "not supported",
        )
    data = metas.take(_META_BYTES.get(kind, 0))
    if kind == STRING:
        # The upper bits of a length above 255 are in the byte of the type.
        high, low = data
        if high & 0x30 != 0x30:
            return STRING, (low | (high & 0x30 ^ 0x30) << 4, 0)
        return high, (low, 0)
    if kind in (VARCHAR, VAR_STRING):
        return kind, (int.from_bytes(data, "little"), 0)
    return kind, (data[0] if data else 0, data[1] if len(data) > 1 else 0)


def _size_of(kind: int, meta: tuple[int, int]) -> int | None:
    fraction = (meta[0] + 1) // 2
    sizes = {
        **_FIXED,
        TIMESTAMP2: 4 + fraction,
        DATETIME2: 5 + fraction,
        TIME2: 3 + fraction,
        ENUM: meta[0],
        SET: meta[0],
        BIT: meta[1] + (meta[0] > 0),
    }
    if kind == NEWDECIMAL:
        digits, scale = meta
        whole = digits - scale
        return sum(part // 9 * 4 + _DIGIT_BYTES[part % 9] for part in (whole, scale))
    return sizes.get(kind)


def _prefix_of(kind: int, meta: tuple[int, int]) -> int:
    if kind in (VARCHAR, VAR_STRING, STRING):
        return 1 if meta[0] < 256 else 2
    return meta[0] if kind in (BLOB, GEOMETRY) else 0


@dataclass(slots=True, kw_only=True)
class _Metadata:
    """What the log has with ``binlog_row_metadata=FULL``; numbers are indexes of columns."""

    names: list[str] = field(default_factory=list)
    unsigned: set[int] = field(default_factory=set)
    collations: dict[int, int] = field(default_factory=dict)
    labels: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    key: tuple[int, ...] = ()

    @classmethod
    def read(cls, cursor: _Cursor, kinds: Sequence[int]) -> _Metadata:
        found = cls()
        texts = [n for n, kind in enumerate(kinds) if kind in (STRING, VAR_STRING, VARCHAR, BLOB)]
        choices = [n for n, kind in enumerate(kinds) if kind in (ENUM, SET)]
        while not cursor.is_at_end:
            what = cursor.take(1)[0]
            part = _Cursor(cursor.text())
            if what == _SIGNS:
                numbers = [n for n, kind in enumerate(kinds) if kind in _NUMERIC]
                found.unsigned = {
                    n for place, n in enumerate(numbers) if part.data[place // 8] & 0x80 >> place % 8
                }
            elif what == _NAMES:
                found.names = [text.decode() for text in _texts(part)]
            elif what in (_DEFAULT_COLLATION, _COLLATIONS, _ENUM_DEFAULT_COLLATION, _ENUM_COLLATIONS):
                of = texts if what in (_DEFAULT_COLLATION, _COLLATIONS) else choices
                has_default = what in (_DEFAULT_COLLATION, _ENUM_DEFAULT_COLLATION)
                found.collations |= _collations(part, of, has_default=has_default)
            elif what in (_SETS, _ENUMS):
                of_kind = [n for n in choices if kinds[n] == (SET if what == _SETS else ENUM)]
                for number in of_kind:
                    found.labels[number] = tuple(part.text() for _ in range(part.packed()))
            elif what == _KEY:
                found.key = tuple(_numbers(part))
            elif what == _KEY_WITH_PREFIX:
                found.key = tuple(_numbers(part))[::2]
        return found


def _texts(part: _Cursor) -> Iterator[bytes]:
    while not part.is_at_end:
        yield part.text()


def _numbers(part: _Cursor) -> Iterator[int]:
    while not part.is_at_end:
        yield part.packed()


def _collations(part: _Cursor, columns: Sequence[int], *, has_default: bool) -> dict[int, int]:
    if not has_default:
        return dict(zip(columns, _numbers(part), strict=True))
    found = dict.fromkeys(columns, part.packed())
    others = list(_numbers(part))
    found |= {columns[place]: collation for place, collation in zip(others[::2], others[1::2], strict=True)}
    return found


def width_and_size(body: bytes, at: int) -> tuple[int, int]:
    """A number of variable length in an event, and its size."""
    cursor = _Cursor(body[at : at + 9])
    return cursor.packed(), cursor.at
