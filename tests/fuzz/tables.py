"""Random Arrow tables, and schemas to read them to, for all columnar formats."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from .case import Case, TableFile
from .line_cases import random_cuts

Flat = tuple[pa.DataType, str]
"""A type as it is stored, and the type to which Spark reads it by default."""

PLAIN: Sequence[Flat] = (
    (pa.bool_(), "boolean"), (pa.int8(), "tinyint"), (pa.int16(), "smallint"), (pa.int32(), "int"),
    (pa.int64(), "bigint"), (pa.float32(), "float"), (pa.float64(), "double"), (pa.string(), "string"),
    (pa.binary(), "binary"), (pa.date32(), "date"), (pa.timestamp("us", "UTC"), "timestamp"),
    (pa.timestamp("us"), "timestamp_ntz"), (pa.decimal128(5, 2), "decimal(5,2)"),
    (pa.decimal128(18, 6), "decimal(18,6)"), (pa.decimal128(38, 10), "decimal(38,10)"),
)  # fmt: skip
RARE: Sequence[Flat] = (
    (pa.uint8(), "smallint"), (pa.uint16(), "int"), (pa.uint32(), "bigint"), (pa.uint64(), "decimal(20,0)"),
    (pa.large_string(), "string"), (pa.large_binary(), "binary"), (pa.binary(4), "binary"),
    (pa.timestamp("ms", "UTC"), "timestamp"), (pa.timestamp("ms"), "timestamp_ntz"),
    (pa.dictionary(pa.int32(), pa.string()), "string"),
)  # fmt: skip
OTHER_TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date",
    "timestamp",
    "timestamp_ntz", "decimal(5,2)", "decimal(10,2)", "decimal(20,0)", "decimal(38,10)", "array<int>",
    "struct<x:int>", "map<string,int>",
)  # fmt: skip
_TEXTS = (
    "", "a", "caf\u00e9", "\u65e5\u672c", "\U0001f600", " ", "\x00", "a" * 200, "null", "2024-01-01", "1",
)  # fmt: skip
_FLOATS = (0.0, -0.0, 1.5, -1e300, 5e-324, float("nan"), float("inf"), float("-inf"), 16777217.0)
_GREGORIAN_DAYS = -141_427  # 15 October 1582
_MANY = Context(prec=60)


def random_types(rng: random.Random, flat: Sequence[Flat], depth: int) -> Flat:
    """Choose a type of ``flat``, or a nested type made of them."""
    if depth == 0 or rng.random() < 0.7:
        return rng.choice(flat)
    flat = [one for one in flat if not (types.is_dictionary(one[0]) or types.is_null(one[0]))]
    inner, inner_name = random_types(rng, flat, depth - 1)
    match rng.choice(("list", "struct", "map")):
        case "list":
            return pa.list_(inner), f"array<{inner_name}>"
        case "map":
            return pa.map_(pa.string(), inner), f"map<string,{inner_name}>"
    other, other_name = rng.choice(flat)
    name = rng.choice(("x", "x", "x", "a.b", "caf\u00e9 %"))
    return pa.struct([(name, inner), ("y", other)]), f"struct<`{name}`:{inner_name},y:{other_name}>"


def random_kinds(rng: random.Random, flat: Sequence[Flat], depth: int) -> dict[str, Flat]:
    """Choose the types of some columns."""
    odd = rng.choice(("", "", "", ".x", " \u00e9%+"))
    return {
        f"c{number}{odd}": random_types(rng, flat, depth) for number in range(rng.choice((1, 2, 3, 5, 8)))
    }


def random_table_file(
    rng: random.Random,
    path: str,
    kinds: Mapping[str, Flat],
    settings: Mapping[str, tuple[Any, ...]],
    write: Callable[[pa.Table, Mapping[str, Any]], bytes],
    *,
    old: bool,
    most_settings: Sequence[int] = (0, 1, 2),
    more: Callable[[int], Mapping[str, pa.Array]] = lambda _: {},
) -> TableFile:
    """Make a file with most of the columns, in any order.

    Args:
        settings: the values to choose from, by the name of a setting of ``write``.
        most_settings: how many settings to choose, at random.
        more: makes further columns of a number of rows.
    """
    rows = rng.choice((0, 1, 1, 2, 5, 12, 30))
    names = list(kinds)
    if rng.random() < 0.15:
        rng.shuffle(names)
    if rng.random() < 0.1 and len(names) > 1:
        names.pop()
    columns = {name: random_column(rng, kinds[name][0], rows, old=old) for name in names}
    table = pa.table({**columns, **more(rows)})
    chosen = rng.sample(sorted(settings), min(rng.choice(most_settings), len(settings)))
    return TableFile(
        path=path, rows=table, write=write,
        settings={setting: rng.choice(settings[setting]) for setting in chosen},
    )  # fmt: skip


def columnar_case(
    rng: random.Random,
    format_name: str,
    name: str,
    files: Sequence[TableFile],
    columns: tuple[tuple[str, str], ...],
    stored: Mapping[str, str],
) -> Case:
    """Make a case that Spark can read too, with these columns or without a schema."""
    options, own, schema = {}, {}, columns
    if rng.random() < 0.08:
        options, own, schema = {"mergeSchema": "true"}, {"samplingFiles": "100"}, None
    return Case(
        format=format_name, name=name, files=tuple(files), columns=schema, options=options, own_options=own,
        cuts=random_cuts(rng), stored=stored,
    )  # fmt: skip


def random_column(rng: random.Random, kind: pa.DataType, rows: int, *, old: bool = False) -> pa.Array:
    """Make values of a type, with nulls.

    Args:
        old: whether to include dates and times before the Gregorian calendar.
    """
    if types.is_null(kind):
        return pa.nulls(rows)
    nulls = rng.choice((0.0, 0.0, 0.2, 0.8, 1.0))
    limits = rng.choice((0.0, 0.1, 0.5))
    make = _maker(rng, kind, limits, nulls, old)
    values = [None if rng.random() < nulls else make() for _ in range(rows)]
    if types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def _maker(
    rng: random.Random, kind: pa.DataType, limits: float, nulls: float, old: bool
) -> Callable[[], Any]:
    if types.is_list(kind):
        item = _nullable(rng, _maker(rng, kind.value_type, limits, nulls, old), nulls)
        return lambda: [item() for _ in range(rng.randint(0, 3))]
    if types.is_map(kind):
        item = _nullable(rng, _maker(rng, kind.item_type, limits, nulls, old), nulls)
        return lambda: [(key, item()) for key in rng.sample(("a", "b", "", "\u00e9"), rng.randint(0, 3))]
    if types.is_struct(kind):
        makers = {f.name: _nullable(rng, _maker(rng, f.type, limits, nulls, old), nulls) for f in kind}
        return lambda: {name: make() for name, make in makers.items()}
    return lambda: _flat(rng, kind, rng.random() < limits, old)


def _nullable(rng: random.Random, make: Callable[[], Any], nulls: float) -> Callable[[], Any]:
    return lambda: None if rng.random() < nulls / 2 else make()


def _flat(rng: random.Random, kind: pa.DataType, limit: bool, old: bool) -> Any:
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return rng.random() < 0.5
    if types.is_integer(kind):
        low, high = (0, 1 << kind.bit_width) if types.is_unsigned_integer(kind) else (
            -(1 << (kind.bit_width - 1)), 1 << (kind.bit_width - 1)
        )  # fmt: skip
        return rng.choice((low, high - 1, rng.randrange(low, high))) if limit else rng.randint(0, 100)
    if types.is_floating(kind):
        return rng.choice(_FLOATS) if limit else rng.uniform(-1e3, 1e3)
    if types.is_decimal(kind):
        most = 10**kind.precision - 1
        number = rng.choice((most, -most, rng.randint(-most, most))) if limit else rng.randint(-999, 999)
        return Decimal(number).scaleb(-kind.scale, context=_MANY) if kind.scale else Decimal(number)
    if types.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return rng.randbytes(rng.randint(0, 6))
    if types.is_date32(kind):
        return (
            rng.randint(-700_000 if old else _GREGORIAN_DAYS, 2_900_000) if limit else rng.randint(0, 20_000)
        )
    if types.is_time(kind):
        return rng.randrange(86_400_000_000)
    if types.is_timestamp(kind):
        return _moment(rng, kind, limit, old)
    return rng.choice(_TEXTS) if limit else rng.choice(("x", "y", str(rng.randint(0, 99))))


def _moment(rng: random.Random, kind: pa.DataType, limit: bool, old: bool) -> int:
    first = -60_000_000_000_000_000 if old else -2_000_000_000_000_000  # the year 69, 1906
    last = 253_402_300_799_999_999
    if kind.unit == "ns":  # the years 1684 to 2255, because 64 bits cannot hold more
        first, last = max(first, -9_000_000_000_000_000), 9_000_000_000_000_000
    micros = rng.randint(first, last) if limit else rng.randint(0, 2_000_000_000_000_000)
    return {
        "s": micros // 10**6,
        "ms": micros // 1000,
        "us": micros,
        "ns": micros * 1000 + rng.randint(0, 999),
    }[kind.unit]


def wanted_columns(
    rng: random.Random,
    stored: Mapping[str, str],
    *,
    others: Sequence[str] = OTHER_TYPES,
    changes: float = 0.15,
) -> tuple[tuple[str, str], ...]:
    """Make a schema to read columns to, sometimes with other columns, in another order or of other types."""
    columns = list(stored.items())
    if rng.random() < 0.3:
        rng.shuffle(columns)
    if rng.random() < 0.15 and len(columns) > 1:
        columns.pop()
    if rng.random() < 0.15:
        columns.insert(rng.randint(0, len(columns)), ("not_there", rng.choice(OTHER_TYPES)))
    if rng.random() < 0.15:
        columns = [(name.upper() if rng.random() < 0.5 else name, kind) for name, kind in columns]
    if others and rng.random() < changes * 2:
        columns = [(name, rng.choice(others) if rng.random() < 0.4 else kind) for name, kind in columns]
    return tuple(columns)
