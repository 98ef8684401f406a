"""Checks a law of ``schemaEvolutionMode=rescue`` for json and csv: no value is changed or lost silently.

The same files are read twice: with all columns as strings, and with their types. Each text then either says
the typed value, by a reading of its own, or is in the rescued data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from flip27_source.readers.json_lines.schema import parsed_json
from flip27_source.readers.json_lines.strings import SPARK_DIALECT, MalformedJsonError

from .case import Case
from .our_side import OurSide
from .spark_side import Failed

RESCUED, CORRUPT = "flip27_rescued", "flip27_corrupt"
_OPTIONS = {
    "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "rescuedDataColumn": RESCUED,
    "schemaEvolutionMode": "rescue",
}  # fmt: skip
_DAY_AND_MORE = re.compile(r"[+-]?\d{4,7}-\d{1,2}-\d{1,2}[ T]")
_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
_FIRST_GAP = {pa.float32(): 2**24, pa.float64(): 2**53}


_NAME = re.compile(r'"([^"]*)":')
_START_OF_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[/]")
"""The start of a line that is an array, or a comment, which an array can follow."""


Found = tuple[str, int, str | None, Any]
"""Column, row, text and value of what was changed or lost. If the numbers of rows differ: no column, both."""


def check_kept(case: Case, path: str, ours: OurSide, schema: pa.Schema) -> Iterator[Found]:
    """Read a file twice; give what was changed or lost.

    Values of partition columns are not in the file, so nothing of them is rescued.
    """
    partitions = {step.partition("=")[0] for step in path.split("/")[:-1]}
    names = dict(case.columns or ()).keys() - partitions
    fields = [field for field in schema if field.name in names]
    strings = [pa.field(field.name, pa.string()) for field in fields]
    own = [pa.field(name, pa.string()) for name in (CORRUPT, RESCUED)]
    texts = ours.read_as(path, pa.schema([*strings, *own]), **_OPTIONS)
    typed = ours.read_as(path, pa.schema([*fields, *own]), **_OPTIONS)
    if not isinstance(texts, Failed) and not isinstance(typed, Failed):
        yield from changed_or_lost(texts, typed, own_dates="dateFormat" in case.options)


def changed_or_lost(texts: pa.Table, typed: pa.Table, *, own_dates: bool = False) -> Iterator[Found]:
    """What was changed or lost in the well-formed rows.

    If a malformed line is an array, nothing: how many of its rows can be determined depends on the schema.

    Args:
        own_dates: the dates have a pattern that may drop a time.
    """
    corrupt = [_bytes(texts.column(CORRUPT)), _bytes(typed.column(CORRUPT))]
    if any(line is not None and _START_OF_ARRAY.match(line) for lines in corrupt for line in lines):
        return
    if texts.num_rows != typed.num_rows:
        yield "", -1, str(texts.num_rows), typed.num_rows
        return
    well_formed = [row for row, lines in enumerate(zip(*corrupt, strict=True)) if lines == (None, None)]
    rescued = [_names_in(data) for data in _bytes(typed.column(RESCUED))]
    for field in typed.schema:
        if field.name in (CORRUPT, RESCUED) or types.is_nested(field.type):
            continue
        said = [data if data is None else data.decode(errors="replace") for data in _bytes(texts[field.name])]
        for row in well_formed:
            text, value = said[row], _value(typed.column(field.name)[row])
            if field.name in rescued[row] or (text is None and value is None):
                continue
            if value is None or text is None or not _says(text, value, field.type, own_dates=own_dates):
                yield field.name, row, text, value


def _names_in(rescued: bytes | None) -> set[str]:
    if rescued is None:
        return set()
    # It may be nested too deeply for Python's own parser.
    try:
        return {name for name, _ in parsed_json(rescued, SPARK_DIALECT)}
    except MalformedJsonError:  # the values of equal names are in an array, which adds a level
        return set(_NAME.findall(rescued.decode(errors="replace")))


def _bytes(texts: pa.ChunkedArray) -> list[bytes | None]:
    values: list[bytes | None] = texts.cast(pa.binary()).to_pylist()
    return values


def _value(scalar: pa.Scalar) -> Any:
    if types.is_temporal(scalar.type) or types.is_string(scalar.type):
        return scalar.is_valid or None  # the value may not exist in Python
    return scalar.as_py()


def _says(text: str, value: Any, kind: pa.DataType, *, own_dates: bool) -> bool:
    """Whether the value is what the text says, where that is known."""
    if types.is_date(kind):
        return own_dates or _DAY_AND_MORE.match(text.strip(_BLANKS)) is None
    if not (types.is_integer(kind) or types.is_decimal(kind) or types.is_floating(kind)):
        return True
    try:
        suffixes = "fFdD" if types.is_floating(kind) else ""
        number = Decimal(text.strip(_BLANKS).replace(",", "").rstrip(suffixes))
    except InvalidOperation:
        return types.is_floating(kind)  # words and hexadecimal numbers
    if not number.is_finite() or (types.is_floating(kind) and math.isnan(value)):
        return True
    if not types.is_floating(kind):
        return Decimal(value) == number
    if math.isinf(value):
        return False
    shortest = Decimal(repr(value) if types.is_float64(kind) else str(np.float32(value)))
    return abs(value) < _FIRST_GAP[kind] or number in (shortest, Decimal(value))
