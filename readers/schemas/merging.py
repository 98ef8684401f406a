"""Converts schemas of files to Spark's types, merges several schemas into one, and applies schema hints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyarrow import types

from flip27_source.errors import SchemaError
from flip27_source.schemas.new_columns import MOST_DIGITS, NoCommonTypeError, wider


def spark_type(kind: pa.DataType, *, naive_is_utc: bool = False) -> pa.DataType:
    """Spark's type for a type of a file; the null type stays, on every level.

    Args:
        naive_is_utc: timestamps without a zone are instants to Spark, as in ORC and INT96 of Parquet.

    Raises:
        NoCommonTypeError: Spark has no such type.
    """
    return with_leaves(kind, lambda leaf: _spark_leaf(leaf, naive_is_utc), _refuse_shredded)


def with_leaves(
    kind: pa.DataType,
    leaf: Callable[[pa.DataType], pa.DataType],
    check: Callable[[pa.DataType], None] = lambda _: None,
) -> pa.DataType:
    """``kind`` with other types at its leaves, in order; all fields and elements become nullable.

    Args:
        check: is called with each struct, and may refuse it.
    """

    def inner(kind: pa.DataType) -> pa.DataType:
        return with_leaves(kind, leaf, check)

    if isinstance(kind, pa.BaseExtensionType):
        return inner(kind.storage_type)
    if types.is_struct(kind):
        check(kind)
        return pa.struct([(field.name, inner(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(inner(kind.key_type), inner(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(inner(kind.value_type))
    return leaf(kind)


def _spark_leaf(kind: pa.DataType, naive_is_utc: bool) -> pa.DataType:
    if types.is_dictionary(kind):
        return spark_type(kind.value_type, naive_is_utc=naive_is_utc)
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC") if naive_is_utc or kind.tz is not None else pa.timestamp("us")
    if types.is_decimal(kind) and kind.precision <= MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if kind in _KEPT:
        return kind
    for is_kind, of_spark in _OTHERS:
        if is_kind(kind):
            return of_spark
    raise NoCommonTypeError(f"Spark has no type for {kind}")


def is_shredded(kind: pa.DataType) -> bool:
    """True for a struct that has the fields of a variant whose values are stored as columns."""
    return {"metadata", "value", "typed_value"}.issubset(field.name.lower() for field in kind)


def _refuse_shredded(struct: pa.DataType) -> None:
    if is_shredded(struct):
        raise NoCommonTypeError(
            "it is a shredded variant, whose fields differ from file to file, and which native reads join"
        )


def is_text(kind: pa.DataType) -> bool:
    """True for types that are strings to Spark."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """True for types that are binary to Spark."""
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


_KEPT = {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()}
_OTHERS = (
    (types.is_null, pa.null()),
    (types.is_uint8, pa.int16()),
    (types.is_uint16, pa.int32()),
    (types.is_uint32, pa.int64()),
    (types.is_uint64, pa.decimal128(20, 0)),
    (types.is_float16, pa.float32()),
    (types.is_date, pa.date32()),
    (is_text, pa.string()),
    (is_bytes, pa.binary()),
)


def without_null_type(schema: pa.Schema, replacement: pa.DataType) -> pa.Schema:
    """``schema`` with ``replacement`` in place of the null type."""

    def leaf(kind: pa.DataType) -> pa.DataType:
        return replacement if types.is_null(kind) else kind

    return pa.schema([(field.name, with_leaves(field.type, leaf)) for field in schema])


def nested_names(fields: Iterable[pa.Field], *above: str) -> Iterator[tuple[str, ...]]:
    """The names of fields and of the fields in structs, each after the names around it."""
    for field in fields:
        yield (*above, field.name)
        kind = field.type
        while types.is_list(kind):
            kind = kind.value_type
        if types.is_struct(kind):
            yield from nested_names(kind, *above, field.name)


def merged(schemas: Iterable[tuple[str, pa.Schema]], known: pa.Schema | None) -> pa.Schema:
    """One schema with the columns of all files, by name without regard to case.

    Args:
        schemas: a path and the schema there.
        known: columns with given types; their types in the files may differ.
    """
    given = {field.name.lower() for field in known or ()}
    columns: dict[str, pa.Field] = {}
    seen_in: dict[str, str] = {}
    for path, schema in schemas:
        for field in schema:
            key = field.name.lower()
            other = columns.setdefault(key, field)
            if key not in given:
                columns[key] = pa.field(other.name, _widened(other, field, (seen_in.get(key, path), path)))
            seen_in.setdefault(key, path)
    return pa.schema(list(columns.values()))


def wider_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type that Spark infers for texts of both types: string, unless both are numbers."""
    if not (_is_number(left) and _is_number(right)):
        return pa.string()
    if types.is_floating(left) or types.is_floating(right):
        return pa.float64()
    try:
        return wider(left, right)
    except NoCommonTypeError:
        return pa.float64()


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _widened(one: pa.Field, other: pa.Field, paths: tuple[str, str]) -> pa.DataType:
    try:
        return wider(one.type, other.type)
    except NoCommonTypeError:
        raise SchemaError(
            f"column {one.name} is {one.type} in {paths[0]} and {other.type} in {paths[1]}",
            remedy=f'set its type with .option("schemaHints", "{one.name} string"), or the whole schema',
        ) from None


def hinted(inferred: pa.Schema, hints: pa.Schema) -> pa.Schema:
    """``inferred`` with the types of ``hints``, followed by the columns that only ``hints`` has.

    A hint ``a.b`` sets field b of the struct a, unless a column is named ``a.b``. The path to the elements
    of an array is ``element``; for maps it is ``key`` and ``value``.
    """
    columns = {field.name.lower(): field for field in inferred}
    for hint in hints:
        name, *path = [hint.name] if hint.name.lower() in columns else hint.name.split(".")
        known = columns.get(name.lower())
        kind = hint.type
        if path:
            kind = _with_hint(pa.struct([]) if known is None else known.type, path, hint)
            name = name if known is None else known.name
        columns[name.lower()] = pa.field(name, kind)
    return pa.schema(list(columns.values()))


def _with_hint(kind: pa.DataType, path: list[str], hint: pa.Field) -> pa.DataType:
    """``kind`` with the type of the hint at the end of ``path``."""
    if not path:
        return hint.type
    step, *rest = path
    if types.is_struct(kind):
        fields = {field.name.lower(): field for field in kind}
        known = fields.get(step.lower(), pa.field(step, pa.struct([])))
        fields[step.lower()] = pa.field(known.name, _with_hint(known.type, rest, hint))
        return pa.struct(list(fields.values()))
    if types.is_list(kind) and step == "element":
        return pa.list_(_with_hint(kind.value_type, rest, hint))
    if types.is_map(kind) and step in ("key", "value"):
        key = _with_hint(kind.key_type, rest, hint) if step == "key" else kind.key_type
        return pa.map_(key, _with_hint(kind.item_type, rest, hint) if step == "value" else kind.item_type)
    raise SchemaError(
        f"option schemaHints contains {hint.name}, but {step} cannot be a part of {kind}",
        remedy="give the type of the whole column, such as tags array<struct<name: string>>",
    )
