"""Parses the events that describe a table in the log: its columns with their types, and its key. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import SEEK_CUR, BytesIO
from itertools import takewhile
from typing import TypeVar

from flip27_source.enumerators.mysql.column_types import ColumnType
from flip27_source.enumerators.mysql.errors import START_AGAIN
from flip27_source.enumerators.mysql.split import TableName
from flip27_source.errors import SplitReadError

ResultT = TypeVar("ResultT")

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 13, 15, 16, 17, 18, 19
NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 246, 247, 248, 252, 253, 254, 255
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
BINARY_COLLATION = 63
HASH = "DB_ROW_HASH_"
"""With this the names of hidden columns begin: of the hashes of UNIQUE columns without a length."""

INTEGERS = frozenset((TINY, SHORT, INT24, LONG, LONGLONG))
_FIXED = {TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8, FLOAT: 4, DOUBLE: 8, DATE: 3, YEAR: 1}
_SIGNED = (TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE, YEAR)
"""The types for which the log has a sign; of a YEAR, too."""
_META_BYTES = {
    **dict.fromkeys(_FIXED, 0), FLOAT: 1, DOUBLE: 1, TIMESTAMP2: 1, DATETIME2: 1, TIME2: 1, BLOB: 1,
    **dict.fromkeys((VARCHAR, VAR_STRING, STRING, BIT, NEWDECIMAL, ENUM, SET), 2), GEOMETRY: 1,
    BLOB_COMPRESSED: 1, VARCHAR_COMPRESSED: 2,
}  # fmt: skip
_TEXTS = (STRING, VAR_STRING, VARCHAR, BLOB, GEOMETRY, BLOB_COMPRESSED, VARCHAR_COMPRESSED)
"""The types for which the log has a collation, also where it means nothing."""
_UNREAD = {GEOMETRY: "geometry", BLOB_COMPRESSED: "blob compressed", VARCHAR_COMPRESSED: "varchar compressed"}
_SEQUENCE = ["next_not_cached_value", "minimum_value", "maximum_value", "start_value"]
"""With these columns every sequence begins, for which the log has rows."""

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
        labels: the values of an ENUM or a SET.
        name: empty for a column that the table has only in the log.
    """

    name: str
    kind: int
    meta: tuple[int, int] = (0, 0)
    is_unsigned: bool = False
    collation: int = BINARY_COLLATION
    labels: tuple[bytes, ...] = ()

    @property
    def size(self) -> int | None:
        """Bytes of a value; None if each value has its length in front."""
        first, second = self.meta
        if self.kind == NEWDECIMAL:
            return sum(part // 9 * 4 + (part % 9 + 1) // 2 for part in (first - second, second))
        fraction = (first + 1) // 2
        sizes = {
            TIMESTAMP2: 4 + fraction, DATETIME2: 5 + fraction, TIME2: 3 + fraction, ENUM: first, SET: first,
            BIT: second + (first > 0),
        }  # fmt: skip
        return sizes.get(self.kind, _FIXED.get(self.kind))

    @property
    def prefix(self) -> int:
        """Bytes of the length in front of each value."""
        if self.kind in (BLOB, GEOMETRY, BLOB_COMPRESSED):
            return self.meta[0]
        return 1 if self.meta[0] < 256 else 2

    @property
    def is_ambiguous(self) -> bool:
        """Whether only the catalog tells what it is.

        UUID, INET6, INET4 and YEAR(2) have another type in the log, where hidden columns look like others.
        """
        is_bytes = self.kind == STRING and self.collation == BINARY_COLLATION
        is_odd = self.kind == YEAR or (is_bytes and self.meta[0] in (4, 16))
        return is_odd or self.name.startswith(HASH)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMap:
    """A table as it was when the rows after this event were changed; and the names of its key's columns."""

    table: TableName
    columns: tuple[LogColumn, ...]
    key: tuple[str, ...]

    def renamed(self, name_of: Callable[[str], str]) -> TableMap:
        """The table with other names of columns."""
        columns = tuple(replace(one, name=name_of(one.name)) for one in self.columns)
        return replace(self, columns=columns, key=tuple(map(name_of, self.key)))

    @property
    def cut_by(self) -> tuple[str, ...]:
        """The integers at the beginning of the key."""
        integers = {column.name for column in self.columns if column.kind in INTEGERS}
        return tuple(takewhile(integers.__contains__, self.key))


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


def table_map(text: bytes, is_wanted: Callable[[TableName], bool], known: set[TableName]) -> TableMap | None:
    """The table that an event describes; None if it is not wanted, or is a sequence.

    Args:
        text: the body of the event from the name of the database on.
        known: tables that are no sequences.

    Raises:
        SplitReadError: the log does not have the names of the columns, or a type is not known.
    """
    event = BytesIO(text)
    table = _name(event)
    if not is_wanted(table):
        return None
    types, metas = _text(event), BytesIO(_text(event))
    event.seek((len(types) + 7) // 8, SEEK_CUR)
    found = [_kind_of(table, kind, metas) for kind in types]
    more = _Metadata([kind for kind, _ in found], event)
    names = more.names()
    if len(names) != len(found):
        raise SplitReadError(
            f"the log does not have the names of the columns of table {table}",
            remedy=f"SET GLOBAL binlog_row_metadata = FULL, and {START_AGAIN}",
        )
    if names[: len(_SEQUENCE)] == _SEQUENCE and table not in known:
        return None
    unsigned, labels, collations = more.unsigned(), more.labels(), more.collations()
    columns = [
        LogColumn(
            name=names[number],
            kind=kind,
            meta=meta,
            is_unsigned=number in unsigned,
            collation=collations.get(number, BINARY_COLLATION),
            labels=labels.get(number, ()),
        )
        for number, (kind, meta) in enumerate(found)
    ]
    return TableMap(table=table, columns=tuple(columns), key=tuple(names[at] for at in more.key()))


def name_in(text: bytes) -> TableName:
    """The name of the table that an event describes."""
    return _name(BytesIO(text))


def _name(event: BytesIO) -> TableName:
    # A zero is after each name.
    schema, _, name, _ = _text(event), event.read(1), _text(event), event.read(1)
    return TableName(schema=schema.decode(), name=name.decode())


def _kind_of(table: TableName, kind: int, metas: BytesIO) -> tuple[int, tuple[int, int]]:
    if kind not in _META_BYTES:
        raise SplitReadError(
            f"table {table} has a column of the type {kind} in the log, which the mysql source does not read",
            remedy="leave the table out, or change the column: old temporal types are not supported",
        )
    low, high, *_ = *metas.read(_META_BYTES[kind]), 0, 0
    if kind in (VARCHAR, VAR_STRING, VARCHAR_COMPRESSED):
        return kind, (low | high << 8, 0)
    if kind == STRING:
        # The upper bits of a length above 255 are in the byte of the type.
        kind, length = low, high
        is_other = kind & 0x30 == 0x30
        return (kind, (length, 0)) if is_other else (STRING, (length | (kind & 0x30 ^ 0x30) << 4, 0))
    return kind, (low, high)


class _Metadata:
    """What the log has with ``binlog_row_metadata=FULL``; columns are given by their indexes.

    Args:
        kinds: the types of the columns.
        event: the event from these data on: parts of several kinds.
    """

    def __init__(self, kinds: Sequence[int], event: BytesIO) -> None:
        self._kinds = kinds
        parts = _all(lambda data: (data.read(1)[0], _text(data)), event.read())
        self._parts = defaultdict(bytes, parts)

    def names(self) -> list[str]:
        return [name.decode() for name in _all(_text, self._parts[_NAMES])]

    def unsigned(self) -> set[int]:
        bits = "".join(f"{byte:08b}" for byte in self._parts[_SIGNS])
        return {number for number, bit in zip(self._of(_SIGNED), bits, strict=False) if bit == "1"}

    def labels(self) -> dict[int, tuple[bytes, ...]]:
        found = dict[int, tuple[bytes, ...]]()
        for kind, part in ((SET, _SETS), (ENUM, _ENUMS)):
            data = BytesIO(self._parts[part])
            found |= {at: tuple(_text(data) for _ in range(_packed(data))) for at in self._of((kind,))}
        return found

    def collations(self) -> dict[int, int]:
        found = dict[int, int]()
        for columns, each, default in (
            (self._of(_TEXTS), _COLLATIONS, _DEFAULT_COLLATION),
            (self._of((ENUM, SET)), _ENUM_COLLATIONS, _ENUM_DEFAULT_COLLATION),
        ):
            found |= zip(columns, _all(_packed, self._parts[each]), strict=False)
            if numbers := _all(_packed, self._parts[default]):
                others = zip(numbers[1::2], numbers[2::2], strict=True)
                found |= dict.fromkeys(columns, numbers[0]) | {columns[at]: other for at, other in others}
        return found

    def key(self) -> list[int]:
        return _all(_packed, self._parts[_KEY]) or _all(_packed, self._parts[_KEY_WITH_PREFIX])[::2]

    def _of(self, kinds: Sequence[int]) -> list[int]:
        return [number for number, kind in enumerate(self._kinds) if kind in kinds]


def _packed(data: BytesIO) -> int:
    """A number in MySQL's form of variable length."""
    first = data.read(1)[0]
    size = {252: 2, 253: 3, 254: 8}.get(first, 0)
    return int.from_bytes(data.read(size), "little") if size else first


def _text(data: BytesIO) -> bytes:
    return data.read(_packed(data))


def _all(read: Callable[[BytesIO], ResultT], data: bytes) -> list[ResultT]:
    """What is read from the data up to their end."""
    stream, found = BytesIO(data), []
    while stream.tell() < len(data):
        found.append(read(stream))
    return found
