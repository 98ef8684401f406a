"""Converts texts of PostgreSQL to values of a column, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.postgres.column_types import PgType, arrow_type
from flip27_source.readers.postgres.values import ValueConverter


def numeric(precision: int, scale: int) -> PgType:
    return PgType(name="numeric", modifier=(precision << 16 | scale & 0x7FF) + 4)


def array(name: str, **more: Any) -> PgType:
    return PgType(name=name, is_array=True, **more)


def converted(
    type: PgType | str, texts: Sequence[str | bytes | None], target: pa.DataType | None = None
) -> pa.Array:
    """The values of column ``x`` of public.t. Checks that binary, string and sliced arrays give the same."""
    type = PgType(name=type) if isinstance(type, str) else type
    kind = arrow_type(type) if target is None else target
    converter = ValueConverter(column="x", type=type, target=kind)
    raw = pa.array([text.encode() if isinstance(text, str) else text for text in texts], pa.binary())
    values = converter.convert(raw, where="public.t")
    values.validate(full=True)
    assert values.type == kind
    around = pa.array([b"before", None, b"behind"], pa.binary())
    longer = pa.concat_arrays([around, raw, around])
    assert same(converter.convert(longer.slice(3, len(raw)), where="public.t"), values)
    if all(text is None or isinstance(text, str) for text in texts):
        assert same(converter.convert(pa.array(texts, pa.string()), where="public.t"), values)
    return values


def same(left: pa.Array, right: pa.Array) -> bool:
    """Whether the values are equal; NaN is equal to NaN."""
    return repr(left.to_pylist()) == repr(right.to_pylist())
