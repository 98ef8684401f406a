"""Schema hints: types that the user sets for columns and for fields inside them."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types

from flip27_source.errors import SchemaError


def hinted(inferred: pa.Schema, hints: pa.Schema) -> pa.Schema:
    """``inferred`` with the types of ``hints``, followed by the columns that only ``hints`` has.

    A hint ``a.b`` sets field b of the struct a, unless a column is named ``a.b``. The path to the elements
    of an array is ``element``; for maps it is ``key`` and ``value``.

    Raises:
        SchemaError: a hint names a field that its column does not have.
    """
    columns = {field.name.lower(): field for field in inferred}
    for hint in hints:
        name, *path = [hint.name] if hint.name.lower() in columns else hint.name.split(".")
        known = columns.get(name.lower())
        kind = hint.type
        if path:
            kind = _with(pa.struct([]) if known is None else known.type, path, hint)
            name = name if known is None else known.name
        columns[name.lower()] = pa.field(name, kind)
    return pa.schema(list(columns.values()))


def _with(kind: pa.DataType, path: list[str], hint: pa.Field) -> pa.DataType:
    """``kind`` with the type of the hint at the end of ``path``."""
    if not path:
        return hint.type
    step, *rest = path
    if types.is_struct(kind):
        fields = {field.name.lower(): field for field in kind}
        known = fields.get(step.lower(), pa.field(step, pa.struct([])))
        fields[step.lower()] = pa.field(known.name, _with(known.type, rest, hint))
        return pa.struct(list(fields.values()))
    if types.is_list(kind) and step == "element":
        return pa.list_(_with(kind.value_type, rest, hint))
    if types.is_map(kind) and step in ("key", "value"):
        key = _with(kind.key_type, rest, hint) if step == "key" else kind.key_type
        return pa.map_(key, _with(kind.item_type, rest, hint) if step == "value" else kind.item_type)
    raise SchemaError(
        f"option schemaHints contains {hint.name}, but {step} cannot be a part of {kind}",
        remedy="give the type of the whole column, such as tags array<struct<name: string>>",
    )
